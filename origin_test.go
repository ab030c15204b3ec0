package main

import (
	"net/netip"
	"strings"
	"testing"
)

func TestOriginsThatMayAct(t *testing.T) {
	t.Parallel()
	tests := []struct {
		origin   string
		loopback bool
	}{
		{"https://course.example.test", false},
		{"https://course.example.test:8443", false},
		{"https://course.example.test:443", false},
		{"https://course.example.test.", false},
		{"https://COURSE.Example.Test", false},
		{"HTTPS://course.example.test", false},
		{"https://xn--80ak6aa92e.example", false},
		{"https://my_site.example", false},
		{"https://intranet", false},
		{"https://192.0.2.7:1", false},
		{"https://[2001:db8::1]:8443", false},
		{"https://localhost.example.com", false},
		{"https://127.0.0.1.nip.io", false},
		{"https://localhost.", false},
		{"https://notlocalhost", false},
		{"https://[::ffff:127.0.0.1]", false},
		{"https://" + strings.Repeat("a.", 126) + "a", false},
		{"http://localhost", true},
		{"http://LOCALHOST:5173", true},
		{"https://localhost:65535", true},
		{"http://127.0.0.1:3000", true},
		{"http://127.255.255.254", true},
		{"http://[::1]:8080", true},
		{"https://[::1]", true},
	}
	for _, test := range tests {
		p, err := parseOrigin(test.origin)
		if err != nil || string(p) != test.origin {
			t.Errorf("parseOrigin(%q) = %q, %v, want it unchanged", test.origin, p, err)
		}
		if got := p.loopback(); got != test.loopback {
			t.Errorf("principal(%q).loopback() = %t, want %t", test.origin, got, test.loopback)
		}
	}
}

func TestOriginsThatMayNotAct(t *testing.T) {
	t.Parallel()
	for _, origin := range []string{
		"", "null", "*", "https:", "https://", "https:///", "//course.example.test", "course.example.test", "://x",
		"file://", "file:///etc/passwd", "chrome-extension://abcdef", "ftp://course.example.test", "javascript:alert(1)", "ws://localhost",
		"http://course.example.test", "http://192.0.2.7", "http://localhost.example.com", "http://127.0.0.1.nip.io", "http://localhost.",
		"http://0.0.0.0", "http://128.0.0.1", "http://[::2]", "http://[::ffff:127.0.0.1]", "http://[0:0:0:0:0:0:0:1]",
		"http://127.1", "http://127.0.1", "http://2130706433", "http://0x7f000001", "http://0x7f.0.0.1", "http://0177.0.0.1", "http://127.0.0.01", "http://127.0.0.256", "http://127.0.0.1.",
		"https://127.1", "https://2130706433", "https://x.0x7f", "https://1.2.3.4.5",
		"https://course.example.test/", "https://course.example.test/x", "https://course.example.test?x", "https://course.example.test#x", `https://course.example.test\x`,
		"https://user@course.example.test", "https://user:word@course.example.test", "https://@course.example.test",
		"https://course.example.test:", "https://course.example.test:0", "https://course.example.test:0443", "https://course.example.test:65536", "https://course.example.test:99999999999999999999", "https://course.example.test:+443", "https://course.example.test:443:443", "https://course.example.test:abc", "https://:443",
		" https://course.example.test", "https://course.example.test ", "https://course example.test", "https://course.example.test\n", "https://course.example.test\x00", "https://course.example.test\x7f",
		"https://c\u043Eurse.example.test", "https://course。example", "http://localho\u017Ft", "https://course.example.test\u200b", "https://\xff",
		"https://*.example.test", "https://course..test", "https://.test", "https://.", "https://course.test..", "https://a,b", "https://a%41.test", "https://<b>",
		"https://[::1", "https://::1", "https://[::1]x", "https://[::1]]", "https://[]", "https://[fe80::1%25eth0]", "https://[fe80::1%eth0]", "https://[1.2.3.4]", "https://[::G]", "https://a[::1]",
		"https://course.example.test, https://other.example.test",
		"https://" + strings.Repeat("a.", 127) + "a",
		"local", "local:editor",
	} {
		p, err := parseOrigin(origin)
		if !isKind(err, kindUnacceptable) || p != "" {
			t.Errorf("parseOrigin(%q) = %q, %v, want it refused", origin, p, err)
		}
		if principal(origin).loopback() {
			t.Errorf("principal(%q).loopback() = true, want false", origin)
		}
	}
}

func TestLoopbackHostIsLiteral(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.1.2.3": true, "[::1]": true, "::1": true,
		"": false, "localhost.": false, "localhost:80": false, "127.0.0.1:80": false, "127.1": false, "127.0.0.01": false, "0.0.0.0": false, "::": false,
		"localho\u017Ft": false, "[::1]:80": false, "[::1%lo]": false, "::ffff:127.0.0.1": false, "[127.0.0.1]": false, "127.0.0.1.nip.io": false,
	} {
		if got := loopbackHost(host); got != want {
			t.Errorf("loopbackHost(%q) = %t, want %t", host, got, want)
		}
	}
}

func TestLookAlikeOriginsGetANote(t *testing.T) {
	t.Parallel()
	tests := []struct {
		origin principal
		words  []string // one for each note
	}{
		{"https://course.example.test", nil},
		{"https://course.example.test:443", nil},
		{"http://localhost:80", nil},
		{"local:editor", nil},
		{"local", nil},
		{"https://course.example.test.", []string{"dot"}},
		{"https://course.example.test:8443", []string{"port 8443"}},
		{"https://Course.example.test", []string{"capital"}},
		{"https://a.XN--80ak6aa92e.xn--p1ai:80", []string{"XN--80ak6aa92e", "xn--p1ai", "capital", "port 80"}},
		{"https://[2001:db8::1]:8443", []string{"port 8443"}},
	}
	for _, test := range tests {
		notes := originNotes(test.origin)
		if len(notes) != len(test.words) {
			t.Errorf("originNotes(%q) = %q, want notes on %q", test.origin, notes, test.words)
			continue
		}
		for i, word := range test.words {
			if !strings.Contains(notes[i], word) || visible(notes[i]) != notes[i] {
				t.Errorf("originNotes(%q)[%d] = %q, want one on %q", test.origin, i, notes[i], word)
			}
		}
	}
}

func FuzzOrigin(f *testing.F) {
	for _, seed := range []string{"https://course.example.test", "http://localhost:5173", "http://127.0.0.1", "http://[::1]:80", "null", "https://a@b", "http://127.0.0.1.nip.io", "http://localho\u017Ft", "https://x:"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parseOrigin(s)
		for _, note := range originNotes(principal(s)) {
			if visible(note) != note {
				t.Errorf("originNotes(%q) holds %q", s, note)
			}
		}
		if err != nil {
			if principal(s).loopback() {
				t.Errorf("principal(%q) is refused and loopback", s)
			}
			return
		}
		scheme, rest, _ := strings.Cut(s, "://")
		if string(p) != s || strings.ContainsAny(rest, "/?#@\\ *") || visible(s) != s {
			t.Errorf("parseOrigin(%q) = %q", s, p)
		}
		if strings.EqualFold(scheme, "http") && !p.loopback() {
			t.Errorf("parseOrigin(%q) takes plain http", s)
		}
		if p.loopback() && !literalLoopback(rest) {
			t.Errorf("principal(%q).loopback() = true", s)
		}
	})
}

// literalLoopback decides in another way than the program does.
func literalLoopback(hostPort string) bool {
	host := hostPort
	if i := strings.LastIndexByte(hostPort, ':'); i >= 0 && !strings.HasSuffix(hostPort, "]") {
		host = hostPort[:i]
	}
	if strings.ToLower(host) == "localhost" || host == "[::1]" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && strings.HasPrefix(host, "127.") && addr.Is4()
}
