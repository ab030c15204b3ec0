package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const oneDay = 24 * time.Hour

// giveCertificate makes text the certificate of the data folder dir.
func giveCertificate(t *testing.T, dir string, text []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(certificatePath(dir)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeAtomic(certificatePath(dir), text, mode); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// trusting is a client that believes the certificate of the data folder dir
// as it is now, and makes a new connection for each request.
func trusting(t *testing.T, dir string) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(readFile(t, certificatePath(dir))) {
		t.Fatal("there is no certificate")
	}
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
}

// get makes a request with more lines in its header.
func get(t *testing.T, client *http.Client, url string, lines ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	r.Host = r.Header.Get("Host")
	answer, err := client.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer answer.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(answer.Body)
	return reply{status: answer.StatusCode, header: answer.Header, body: body.Bytes(), err: err}
}

// addresses are those that a runtime tells pages.
func (rt *testRuntime) addresses() []string {
	rt.t.Helper()
	info := site{rt: rt}.want(http.StatusOK, "GET", "/runtime/info", nil)
	return asJSON[struct{ Addresses []string }](rt.t, info).Addresses
}

func TestCertificateIsMadeServedReplacedAndRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	env := programEnv(dir, "AGENT_RUNTIME_HTTPS_PORT=0")
	rt := startRuntime(t, withDir(dir), withEnv("AGENT_RUNTIME_HTTPS_PORT=0"))
	if got := rt.addresses(); !slices.Equal(got, []string{rt.addr}) {
		t.Errorf("before there is a certificate pages are told of %q", got)
	}
	if out, code := runProgram(t, env, "tls", "setup"); code != exitDone || !strings.Contains(out, "Made a certificate for localhost, 127.0.0.1 and ::1") {
		t.Fatalf("tls setup = %d, %s", code, out)
	}
	for path, mode := range map[string]os.FileMode{certificatePath(dir): 0o600, filepath.Dir(certificatePath(dir)): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has the mode %v, %v; want %v", path, info.Mode().Perm(), err, mode)
		}
	}
	groups, _ := rt.screen.await(t, 0, `https is served with the certificate" address=(https://127\.0\.0\.1:(\d+))`)
	secure := groups[1]
	checkSecureRules(t, rt, secure, trusting(t, dir))
	if got := rt.addresses(); !slices.Equal(got, []string{rt.addr, secure}) {
		t.Errorf("pages are told of %q, want first %s, then %s", got, rt.addr, secure)
	}
	known := programEnv(dir, "AGENT_RUNTIME_HTTPS_PORT="+groups[2])
	if out, code := runProgram(t, known, "tls", "status"); code != exitDone || !strings.Contains(out, "Served:  on "+secure) {
		t.Errorf("tls status = %d, %s", code, out)
	}

	old := trusting(t, dir)
	giveCertificate(t, dir, mustCertificate(t, time.Now().Add(-390*oneDay)), 0o600) // as if a year had gone by
	if r := get(t, trusting(t, dir), secure+"/health"); r.status != http.StatusOK {
		t.Errorf("after a change of the certificate: %+v", r)
	}
	if out, code := runProgram(t, known, "tls", "setup"); code != exitDone || !strings.Contains(out, "The running runtime serves it on "+secure) {
		t.Errorf("renewing = %d, %s", code, out)
	}
	if r := get(t, old, secure+"/health"); r.err == nil {
		t.Error("the runtime still shows a certificate that was replaced")
	}

	client := trusting(t, dir)
	if out, code := runProgram(t, env, "tls", "remove"); code != exitDone {
		t.Errorf("tls remove = %d, %s", code, out)
	}
	if r := get(t, client, secure+"/health"); r.err == nil {
		t.Error("https is served without a certificate")
	}
	if got := rt.addresses(); !slices.Equal(got, []string{rt.addr}) {
		t.Errorf("without a certificate pages are told of %q", got)
	}
	rt.screen.await(t, 0, "https is not served")
	if said := strings.Count(rt.screen.String(), "https is not served"); said != 1 {
		t.Errorf("the terminal tells %d times that https is not served, want once", said)
	}
	if out, code := runProgram(t, env, "tls", "status"); code != exitFailed || !strings.Contains(out, "There is no certificate") {
		t.Errorf("tls status without one = %d, %s", code, out)
	}
	if out, code := runProgram(t, env, "tls", "remove"); code != exitDone || !strings.Contains(out, "There is no certificate") {
		t.Errorf("tls remove without one = %d, %s", code, out)
	}
}

// checkSecureRules sees to it that what holds for http holds for https.
func checkSecureRules(t *testing.T, rt *testRuntime, secure string, client *http.Client) {
	t.Helper()
	const samePage = "Sec-Fetch-Site: same-origin"
	r := get(t, client, secure+"/runtime/whoami", samePage)
	if me := asJSON[whoamiAnswer](t, r); r.status != http.StatusOK || string(me.Principal) != secure {
		t.Errorf("the runtime's own page is %d %+v over https, want %s", r.status, me, secure)
	}
	plain := strings.TrimPrefix(rt.addr, "http://")
	for _, c := range []struct {
		path, line string
		status     int
	}{
		{"/health", "Host: course.example.test", http.StatusMisdirectedRequest},
		{"/health", "Host: " + plain, http.StatusMisdirectedRequest},
		{"/runtime/whoami", "Origin: https://course.example.test", http.StatusUnauthorized},
		{"/manage/overview", "Origin: " + secure, http.StatusOK},
		{"/manage/overview", samePage, http.StatusOK},
		{"/manage/overview", "Origin: " + rt.addr, http.StatusForbidden},
		{"/manage/overview", "Origin: http://" + strings.TrimPrefix(secure, "https://"), http.StatusForbidden},
	} {
		if r := get(t, client, secure+c.path, c.line); r.status != c.status {
			t.Errorf("over https %s with %q is %d, %v; want %d", c.path, c.line, r.status, r.err, c.status)
		}
	}
	addr := strings.TrimPrefix(secure, "https://")
	for _, c := range []struct {
		name string
		max  uint16
		ok   bool
	}{{"TLS 1.1", tls.VersionTLS11, false}, {"TLS 1.2", tls.VersionTLS12, true}, {"TLS 1.3", tls.VersionTLS13, true}} {
		config := client.Transport.(*http.Transport).TLSClientConfig.Clone()
		config.MinVersion, config.MaxVersion, config.NextProtos = tls.VersionTLS10, c.max, []string{"h2", "http/1.1"}
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		for range 2 {
			conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", addr)
			if (err == nil) != c.ok {
				t.Errorf("%s: %v, want it to work: %v", c.name, err, c.ok)
			}
			if err == nil {
				checkConnection(t, conn.(*tls.Conn))
			}
		}
	}
	site{rt: rt}.want(http.StatusOK, "GET", "/health", nil)
}

// checkConnection wants a connection to be for HTTP/1 and to have seen the
// certificate; one that was taken up again would not have.
func checkConnection(t *testing.T, conn *tls.Conn) {
	t.Helper()
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // what resumes a session would come before it
		t.Error(err)
	}
	if state := conn.ConnectionState(); state.NegotiatedProtocol != "http/1.1" || state.DidResume {
		t.Errorf("%s: the protocol is %q, and it goes on with an earlier session: %v", tls.VersionName(state.Version), state.NegotiatedProtocol, state.DidResume)
	}
}

func TestSetupKeepsAGoodCertificateAndReplacesTheRest(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		name string
		text []byte
		mode os.FileMode
		says string
	}{
		{"new", mustCertificate(t, now), 0o600, "The certificate stays"},
		{"31 days left", mustCertificate(t, now.Add(-366*oneDay)), 0o600, "The certificate stays"},
		{"29 days left", mustCertificate(t, now.Add(-368*oneDay)), 0o600, "The old one is gone: it ends on "},
		{"ended", mustCertificate(t, now.Add(-400*oneDay)), 0o600, "it ended on "},
		{"not begun", mustCertificate(t, now.Add(2*oneDay)), 0o600, "it begins on "},
		{"damaged", []byte("not a certificate"), 0o600, "it is damaged"},
		{"of an authority", foreignCertificate(t), 0o600, "not one that agent-runtime made"},
		{"open to others", mustCertificate(t, now), 0o640, "could read its key"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		giveCertificate(t, dir, c.text, c.mode)
		left := filepath.Join(dir, certificateFolder, "."+certificateFile+".1"+unfinishedSuffix)
		writeTestFile(t, left, "of a setup that was killed")
		stays := strings.Contains(c.says, "stays")
		if check := checkHTTPS(t.Context(), config{dir: dir, host: "127.0.0.1"}); (check.Hint == "") != stays {
			t.Errorf("%s: the doctor advises %q, want it to advise nothing: %v", c.name, check.Hint, stays)
		}
		if got := sayHere(t, programEnv(dir, "AGENT_RUNTIME_HTTPS_PORT=0"), "tls", "setup"); got.code != exitDone || !strings.Contains(got.stdout, c.says) {
			t.Errorf("%s: %+v, want %q", c.name, got, c.says)
		}
		if got := readFile(t, certificatePath(dir)); bytes.Equal(got, c.text) != stays {
			t.Errorf("%s: the certificate is the same: %v, want %v", c.name, !stays, stays)
		}
		if _, err := usableCertificate(dir, now); err != nil {
			t.Errorf("%s: after setup the certificate cannot be used: %v", c.name, err)
		}
		if _, err := os.Stat(left); err == nil {
			t.Errorf("%s: setup leaves unfinished files", c.name)
		}
	}
}

// The key of a certificate that this computer believes may be in the hands of
// others: it is told, so that nobody believes it any longer.
func TestSetupTellsOfTheCertificateWhoseKeyOthersCouldRead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	text := mustCertificate(t, time.Now())
	giveCertificate(t, dir, text, 0o644)
	believed, err := readCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := sayHere(t, programEnv(dir, "AGENT_RUNTIME_HTTPS_PORT=0"), "tls", "status"); got.code != exitFailed || !strings.Contains(got.stdout, "could read its key") {
		t.Errorf("status: %+v", got)
	}
	if pair, err := usableCertificate(dir, time.Now()); pair != nil || err == nil {
		t.Errorf("it can be used: %v", err)
	}
	setup, err := setUpCertificate(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if setup.old == nil || !setup.old.Leaf.Equal(believed.Leaf) || setup.pair.Leaf.Equal(believed.Leaf) {
		t.Error("setup does not tell of the certificate that it replaced")
	}
	giveCertificate(t, dir, text, 0o644)
	if old, err := removeCertificate(dir); err != nil || old == nil || !old.Leaf.Equal(believed.Leaf) {
		t.Errorf("remove does not tell of the certificate that it removed: %v", err)
	}
}

func TestSetupsAtOnceMakeOneCertificate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	type setup struct {
		certificateSetup
		err error
	}
	results := make(chan setup)
	const together = 8
	if err := makeDataFolder(dir); err != nil {
		t.Fatal(err)
	}
	for range together {
		go func() {
			s, err := setUpCertificate(dir, time.Now())
			results <- setup{s, err}
		}()
	}
	made := 0
	var serials []string
	for range together {
		s := <-results
		if s.err != nil {
			t.Fatal(s.err)
		}
		if s.why != nil {
			made++
		}
		serials = append(serials, s.pair.Leaf.SerialNumber.String())
	}
	slices.Sort(serials)
	if made != 1 || len(slices.Compact(serials)) != 1 {
		t.Errorf("%d setups at once made %d certificates, and were told of %q", together, made, serials)
	}
}

func TestUnusableCertificateIsToldAndNotServed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		name string
		text []byte
		mode os.FileMode
		host string
		says string
	}{
		{"ended", mustCertificate(t, now.Add(-400*oneDay)), 0o600, "127.0.0.1", "it ended on "},
		{"not begun", mustCertificate(t, now.Add(2*oneDay)), 0o600, "127.0.0.1", "it begins on "},
		{"damaged", []byte("not a certificate"), 0o600, "127.0.0.1", "it is damaged"},
		{"open to others", mustCertificate(t, now), 0o604, "127.0.0.1", "could read its key"},
		{"for another address", mustCertificate(t, now), 0o600, "127.0.0.2", "for localhost, 127.0.0.1 and ::1 alone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			giveCertificate(t, dir, c.text, c.mode)
			rt := startRuntime(t, withDir(dir), withEnv("AGENT_RUNTIME_HTTPS_PORT=0", "AGENT_RUNTIME_HOST="+c.host),
				listeningOn(`http://127\.0\.0\.[12]:\d+`))
			rt.screen.await(t, 0, "WARNING: https is not served: the certificate .*"+c.says)
			if got := rt.addresses(); !slices.Equal(got, []string{rt.addr}) {
				t.Errorf("pages are told of %q", got)
			}
			out, _ := rt.command("doctor", "--json")
			var report struct{ Checks []checkup }
			if err := json.Unmarshal([]byte(out), &report); err != nil {
				t.Fatalf("doctor: %v, %s", err, out)
			}
			i := slices.IndexFunc(report.Checks, func(c checkup) bool { return c.Name == "https" })
			if i < 0 || report.Checks[i].OK || !strings.Contains(report.Checks[i].Detail, c.says) {
				t.Errorf("doctor tells of https %+v, want %q", report.Checks, c.says)
			}
			if out, _ := rt.command("tls", "status"); !strings.Contains(out, c.says) {
				t.Errorf("tls status: %s, want %q", out, c.says)
			}
		})
	}
}

func TestTakenPortForHTTPSNamesItsKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	giveCertificate(t, dir, mustCertificate(t, time.Now()), 0o600)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	out, code := runProgram(t, programEnv(dir, "AGENT_RUNTIME_HTTPS_PORT="+port), "serve", "--port", "0")
	if code != exitFailed || !strings.Contains(out, taken.Addr().String()) || !strings.Contains(out, "server.https_port") || strings.Contains(out, "listens on") {
		t.Errorf("serve = %d, %s; want it to name the port and its key", code, out)
	}
	if _, err := listenSecure(config{host: "127.0.0.1", port: 9000, httpsPort: 9000}); err == nil || !strings.Contains(err.Error(), "server.https_port") {
		t.Errorf("one port for both: %v", err)
	}
}

// A certificate that ends while connections come is not shown from then on,
// and that is told once, not at each of them.
func TestServedCertificateFollowsItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said := newConsole()
	served := &servedCertificate{dir: dir, log: newLogger(said, levelQuiet-4)}
	for i, c := range []struct {
		age  time.Duration
		ok   bool
		told int
	}{{0, true, 0}, {400 * oneDay, false, 1}, {400 * oneDay, false, 1}, {100 * oneDay, true, 1}, {400 * oneDay, false, 2}} {
		giveCertificate(t, dir, mustCertificate(t, time.Now().Add(-c.age)), 0o600)
		pair, err := served.config().GetCertificate(nil)
		if (err == nil) != c.ok || (pair != nil) != c.ok {
			t.Errorf("%d: %v, want it to be shown: %v", i, err, c.ok)
		}
		if told := strings.Count(said.String(), "https is not served"); told != c.told {
			t.Errorf("%d: told %d times, want %d", i, told, c.told)
		}
	}
}

func TestShowsTellsOurCertificateFromOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	giveCertificate(t, dir, mustCertificate(t, time.Now()), 0o600)
	served := &servedCertificate{dir: dir, log: newLogger(t.Output(), levelQuiet)}
	l, err := tls.Listen("tcp", "127.0.0.1:0", served.config())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).HandshakeContext(context.Background())
			_ = conn.Close()
		}
	}()
	pair, err := openCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	other, err := readCertificate(mustCertificate(t, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if addr := l.Addr().String(); !shows(t.Context(), addr, pair.Leaf) || shows(t.Context(), addr, other.Leaf) {
		t.Error("a server is not known by its certificate")
	}
}
