package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestParseSource(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef01234567"
	const repo = "https://example.org/name/lab.git"
	for _, test := range []struct {
		repo, commit string
		want         string // a part of the sentence; "" accepts
	}{
		{repo, id, ""},
		{"https://example.org", id, ""},
		{"https://example.org:8443/a/", id, ""},
		{"https://[2001:db8::1]:8443/a", id, ""},
		{"https://127.0.0.1/a%20b", id, ""},
		{"https://example.org/" + strings.Repeat("a", 480), id, ""},
		{"https://example.org/" + strings.Repeat("a", 481), id, "500 characters"},
		{"", id, "https://"},
		{"-oX", id, "https://"},
		{"--upload-pack=x", id, "https://"},
		{"ext::sh -c x", id, "https://"},
		{"file:///x", id, "https://"},
		{"ssh://h/x", id, "https://"},
		{"git@example.org:a/b", id, "https://"},
		{"http://h/x", id, "https://"},
		{"HTTPS://h/x", id, "https://"},
		{" https://h/x", id, "https://"},
		{"https::https://h/x", id, "https://"},
		{"https:///x", id, "host"},
		{"https://", id, "host"},
		{"https://:443/x", id, "host"},
		{"https://-h/x", id, "host"},
		{"https://h:0/x", id, "port"},
		{"https://h:/x", id, "port"},
		{"https://h:65536/x", id, "port"},
		{"https://h:a/x", id, "valid"},
		{"https://[::1/x", id, "valid"},
		{"https://[::1%25eth0]/x", id, "host"},
		{"https://[127.0.0.1]/x", id, "valid"},
		{"https://h,x/x", id, "host"},
		{"https://h/a b", id, "blanks"},
		{"https://h/a\nb", id, "control"},
		{"https://h/a\x00b", id, "control"},
		{`https://h\x/a`, id, "backslash"},
		{"https://h/ä", id, "ASCII"},
		{"https://exаmple.org/x", id, "ASCII"},
		{"https://h/%zz", id, "valid"},
		{"https://h/x#y", id, "fragment"},
		{"https://h/x#", id, "fragment"},
		{"https://h/x?y", id, "query"},
		{"https://h/x?", id, "query"},
		{"https://u@h/x", id, "user name"},
		{"https://u:p@h/x", id, "user name"},
		{"https://@h/x", id, "user name"},
		{"https://h/good/../evil", id, ".."},
		{"https://h/good/%2e%2E/evil", id, ".."},
		{"https://h/./x", id, ".."},
		{repo, "", "40 digits"},
		{repo, "HEAD", "40 digits"},
		{repo, "main", "40 digits"},
		{repo, "--upload-pack=x", "40 digits"},
		{repo, id[1:], "40 digits"},
		{repo, id + "0", "40 digits"},
		{repo, id + "\n", "40 digits"},
		{repo, id[1:] + "\n", "40 digits"},
		{repo, id[1:] + "g", "40 digits"},
		{repo, strings.ToUpper(id), "lower-case"},
		{repo, "０" + id[1:], "40 digits"},
		{repo, strings.Repeat("０", 40), "40 digits"},
		{repo, strings.Repeat("a", 64), "64 digits"},
	} {
		src, err := parseSource(test.repo, test.commit)
		switch {
		case test.want == "" && (err != nil || src != source{test.repo, test.commit}):
			t.Errorf("parseSource(%q, %q) = %v, %v; want it accepted as it is", test.repo, test.commit, src, err)
		case test.want != "" && (!isKind(err, kindUnacceptable) || !strings.Contains(err.Error(), test.want)):
			t.Errorf("parseSource(%q, %q) = %v; want a refusal with %q", test.repo, test.commit, err, test.want)
		}
	}
}

func TestRepoKeyIsReadableAndUnique(t *testing.T) {
	t.Parallel()
	for repo, want := range map[string]string{
		"https://example.org/name/hello-lab.git":                "hello-lab-",
		"https://example.org/name/hello_lab/":                   "hello_lab-",
		"https://example.org":                                   "example-org-",
		"https://example.org/.git":                              "lab-",
		"https://example.org/a%2F..%2Fb":                        "a-2F-2Fb-",
		"https://example.org/" + strings.Repeat("x", 300):       strings.Repeat("x", 60) + "-",
		"https://example.org/" + strings.Repeat("x", 300) + "y": strings.Repeat("x", 60) + "-",
	} {
		key := source{repo: repo}.key()
		if !regexp.MustCompile("^" + regexp.QuoteMeta(want) + "[0-9a-f]{8}$").MatchString(key) {
			t.Errorf("key of %s = %q, want %q and 8 digits", repo, key, want)
		}
	}
	seen := make(map[string]string)
	for _, repo := range []string{"https://a/x", "https://b/x", "https://a/x.git", "https://a/x/", "https://a/X"} {
		key := source{repo: repo}.key()
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have one key, %s", repo, other, key)
		}
		seen[key] = repo
	}
}

func FuzzParseSource(f *testing.F) {
	f.Add("https://example.org/name/lab.git", strings.Repeat("a", 40))
	f.Add("https://[::1]:1/%2e%2e", "HEAD")
	safe := regexp.MustCompile(`^[A-Za-z0-9_-]{9,100}$`)
	f.Fuzz(func(t *testing.T, repo, commit string) {
		src, err := parseSource(repo, commit)
		if err != nil {
			return
		}
		rest, https := strings.CutPrefix(src.repo, "https://")
		host, _, _ := strings.Cut(rest, "/")
		if !https || strings.ContainsAny(src.repo, " \\?#\n\x00\x1b") || host == "" || strings.Contains(host, "@") {
			t.Errorf("accepted %q", src.repo)
		}
		if len(src.commit) != 40 || !safe.MatchString(src.key()) {
			t.Errorf("accepted %q with key %q", src.commit, src.key())
		}
	})
}
