package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestGitsWordsTellTheFault(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]gitFault{
		"error: Server does not allow request for unadvertised object abc":                                  faultHidden,
		"fatal: remote error: upload-pack: not our ref abc":                                                 faultNoCommit,
		"fatal: unable to access 'https://h/': The requested URL returned error: 301":                       faultRedirect,
		"fatal: unable to update url base from redirection:\n  asked for: x\n   redirect: y":                faultRedirect,
		"fatal: unable to access 'https://h/': The requested URL returned error: 404":                       faultOther,
		"fatal: unable to access 'https://h/': The requested URL returned error: 502":                       faultNetwork,
		"error: RPC failed; HTTP 503 curl 22 The requested URL returned error: 503":                         faultNetwork,
		"error: RPC failed; curl 28 Operation too slow. Less than 1000 bytes/sec transferred the last 30 s": faultSlow,
		"error: RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly":                                 faultNetwork,
		"fatal: unable to access 'https://h/': SSL certificate problem: self signed certificate":            faultOther,
		"fatal: unable to access 'https://h/my-certificate-lab/': Could not resolve host: h":                faultNetwork,
		"fatal: could not read Username for 'https://h': terminal prompts disabled":                         faultPrivate,
		"fatal: write error: No space left on device\nfatal: fetch-pack: invalid index-pack output":         faultFull,
		"remote: No space left on device\nfatal: the remote end hung up unexpectedly":                       faultNetwork,
		"fatal: protocol 'http' not allowed: 'not allowed'":                                                 faultOther,
		"": faultOther,
	} {
		if got := faultOf(words); got != want {
			t.Errorf("faultOf(%q) = %d, want %d", words, got, want)
		}
	}
}

func TestWordsAreToldShortSafeAndWithoutSecrets(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"":                                     "nothing",
		"fatal: a\n\n  b  \r\n":                "fatal: a; b",
		"1\n2\n3\n4\n":                         "2; 3; 4",
		"10%\r20%\rdone\n":                     "done",
		"proxy http://me:secret@host:1/ fails": "proxy http://***@host:1/ fails",
		"remote: \x1b[2Jhi":                    "remote: <U+001B>[2Jhi",
		strings.Repeat("ä", 400):               "..." + strings.Repeat("ä", 300),
	} {
		if got := tellWords(words); got != want {
			t.Errorf("tellWords(%q) = %q, want %q", words, got, want)
		}
	}
}

func FuzzTellWords(f *testing.F) {
	f.Add("remote: \x1b[31m\u202e\nfatal: https://u:p@h/\r\n")
	f.Fuzz(func(t *testing.T, words string) {
		told := tellWords(words)
		if utf8.RuneCountInString(told) > gitWordsTold+3 || strings.ContainsFunc(told, unicode.IsControl) {
			t.Errorf("tellWords(%q) = %q", words, told)
		}
	})
}

func TestTailWriterKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var w tailWriter
	all := noise(3*gitWordsKept + 5)
	for chunk := range strings.SplitAfterSeq(all, "\n") {
		if n, err := w.Write([]byte(chunk)); n != len(chunk) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if got := w.String(); got != all[len(all)-gitWordsKept:] {
		t.Errorf("kept %d bytes, want the last %d", len(got), gitWordsKept)
	}
}

func TestRedirectTarget(t *testing.T) {
	t.Parallel()
	const answer = "00:00:00.1 http.c:1: <= Recv header: "
	for _, test := range []struct{ name, trace, want string }{
		{"absolute", answer + "HTTP/1.1 301 Moved\n" + answer + "Location: https://new.example/x/info/refs?service=git-upload-pack\n", "https://new.example/x"},
		{"small letters", answer + "HTTP/2 302\n" + answer + "location: https://new.example/x\n", "https://new.example/x"},
		{"relative", answer + "HTTP/1.1 301 Moved\n" + answer + "Location: /y/info/refs?service=git-upload-pack\n", "https://h.example/y"},
		{"user and password", answer + "HTTP/1.1 301 Moved\n" + answer + "Location: https://u:p@new.example/x#f\n", "https://new.example/x"},
		{"not a redirect", answer + "HTTP/1.1 201 Created\n" + answer + "Location: /y\n", ""},
		{"last one counts", answer + "HTTP/1.1 301 a\n" + answer + "Location: /a\n" + answer + "HTTP/1.1 301 b\n" + answer + "Location: /b\n", "https://h.example/b"},
		{"not an address", answer + "HTTP/1.1 301 Moved\n" + answer + "Location: https://[\n", ""},
		{"nothing", "", ""},
	} {
		path := writeFile(t, filepath.Join(t.TempDir(), "trace"), test.trace, 0o600)
		if got := redirectTarget(path, "https://h.example/lab"); got != test.want {
			t.Errorf("%s: redirectTarget = %q, want %q", test.name, got, test.want)
		}
	}
	if got := redirectTarget(filepath.Join(t.TempDir(), "none"), "https://h.example/lab"); got != "" {
		t.Errorf("without a trace: %q, want nothing", got)
	}
}

func TestLocalFailuresOfGitAreNotTheHosts(t *testing.T) {
	t.Parallel()
	err := newGitError("init", "fatal: cannot mkdir x: Permission denied", errors.New("exit status 128"))
	if told := tellGitError(err, source{}, 1); told != error(err) {
		t.Errorf("tellGitError = %v, want the error as it is", told)
	}
	if tellGitError(nil, source{}, 1) != nil {
		t.Error("no error became one")
	}
}
