package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestUserGitConfigKeepsProxyAndCertificatesOnly(t *testing.T) {
	t.Parallel()
	listing := "http.proxy\nhttp://u:p\"\\@h:1\x00http.sslverify\nfalse\x00http.sslcainfo\n~/ca \n.pem\x00http.extraheader\nX: y\x00http.sslcapath\x00core.hookspath\n/x\x00"
	want := "[http]\n\tproxy = \"http://u:p\\\"\\\\@h:1\"\n\tsslCAInfo = \"/home/me/ca \\n.pem\"\n"
	if got := userGitConfig(listing, "/home/me"); got != want {
		t.Errorf("userGitConfig = %q, want %q", got, want)
	}
	if got := userGitConfig("http.sslverify\nfalse\x00", "/home/me"); got != "" {
		t.Errorf("userGitConfig = %q, want nothing", got)
	}
}

func FuzzQuoteGitConfig(f *testing.F) {
	f.Add("a\"b\\c\nd;#e ")
	f.Add("[core]\n\thooksPath = x")
	f.Fuzz(func(t *testing.T, value string) {
		quoted := quoteGitConfig(value)
		if strings.Contains(quoted, "\n") {
			t.Errorf("quoteGitConfig(%q) = %q, which is more than a line", value, quoted)
		}
		inner := quoted[1 : len(quoted)-1]
		if back := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(inner); back != value {
			t.Errorf("quoteGitConfig(%q) = %q, which reads %q", value, quoted, back)
		}
	})
}

func TestEnvironmentOfGitNamesNothingTwice(t *testing.T) {
	t.Parallel()
	env := gitEnvironment([]string{"PATH=" + os.Getenv("PATH"), "HOME=/me", "LC_ALL=x", "GIT_DIR=/x", "FOO_TOKEN=x", "http_proxy=http://p"}, "/home", "https")
	var names []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, name)
	}
	if !slices.Contains(env, "http_proxy=http://p") || !slices.Contains(env, "GIT_ALLOW_PROTOCOL=https") {
		t.Errorf("environment = %q, want the proxy and the protocol", env)
	}
	slices.Sort(names)
	if once := slices.Compact(slices.Clone(names)); len(once) != len(names) {
		t.Errorf("names = %q, want each once", names)
	}
	for _, name := range []string{"GIT_DIR", "FOO_TOKEN"} {
		if slices.Contains(names, name) {
			t.Errorf("%s reaches git", name)
		}
	}
}
