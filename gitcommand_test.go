package main

import (
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// recordingProxy passes connections on and notes where they go.
func recordingProxy(t *testing.T) (address string, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var hosts []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hosts = append(hosts, r.Method+" "+r.Host+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		far, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer far.Close()
		w.WriteHeader(http.StatusOK)
		near, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer near.Close()
		var copies sync.WaitGroup
		copies.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
		copies.Go(func() { _, _ = io.Copy(near, far); _ = near.Close() })
		copies.Wait()
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), hosts...)
	}
}

func TestProxyOfTheEnvironmentIsUsed(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	proxy, asked := recordingProxy(t)
	_, dst := newDst(t)
	mustFetch(t, newTestFetcher(t, s, "https_proxy="+proxy), testSource(t, url, commit), dst)
	if hosts := asked(); len(hosts) == 0 || !strings.HasPrefix(hosts[0], "CONNECT "+strings.TrimPrefix(s.url, "https://")) {
		t.Errorf("the proxy was asked for %q, want the host", hosts)
	}
	_, dst = newDst(t)
	before := len(asked())
	mustFetch(t, newTestFetcher(t, s, "https_proxy="+proxy, "no_proxy=127.0.0.1"), testSource(t, url, commit), dst)
	if len(asked()) != before {
		t.Error("the proxy was asked though no_proxy names the host")
	}
}

func TestProxyAndCertificateOfTheUsersSettingsAreUsed(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	proxy, asked := recordingProxy(t)
	home := t.TempDir()
	authority, err := os.ReadFile(s.caFile)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(home, "my ca.pem"), string(authority), 0o600)
	withPassword := strings.Replace(proxy, "http://", "http://me:top%22secret@", 1)
	writeFile(t, filepath.Join(home, ".gitconfig"), "[http]\n\tproxy = http://127.0.0.1:1\n[http \""+s.url+"\"]\n\tproxy = "+withPassword+"\n\tsslCAInfo = ~/my ca.pem\n", 0o600)
	f := newFetcher(newProcesses(), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, slog.New(slog.DiscardHandler))
	f.pauses = nil
	_, dst := newDst(t)
	mustFetch(t, f, testSource(t, url, commit), dst)
	if hosts := asked(); len(hosts) == 0 {
		t.Error("the proxy was not asked")
	}
	found := searchTree(t, dst, "top%22secret")
	if len(found) > 0 {
		t.Errorf("the proxy's password is kept in %q", found)
	}
	s.wrap(stalled)
	writeFile(t, filepath.Join(home, ".gitconfig"), "[http]\n\tproxy = http://me:topsecret@nowhere.invalid:1\n", 0o600)
	told := wantFailure(t, f, testSource(t, url, commit), kindUnreachable)
	if strings.Contains(told, "topsecret") {
		t.Errorf("told %q, with the password", told)
	}
}

// searchTree returns the files below dir that hold text.
func searchTree(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// gitWrapper puts a program named git first on a PATH, which runs script and
// then the real one.
func gitWrapper(t *testing.T, script string) (path string) {
	t.Helper()
	real, err := lookPath("git", os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "git"), "#!/bin/sh\n"+script+"\nexec "+real+" \"$@\"\n", 0o700)
	return dir + ":" + os.Getenv("PATH")
}

func TestOnlyListedVariablesReachGit(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	record := filepath.Join(t.TempDir(), "record")
	path := gitWrapper(t, "env >> "+record)
	f := newTestFetcher(t, s, "PATH="+path, "FOO_TOKEN=made-up", "AGENT_RUNTIME_TOKEN=made-up", "LD_PRELOAD=", "GIT_SSH=x", "BASH_ENV=x", "ENV=x")
	_, dst := newDst(t)
	mustFetch(t, f, testSource(t, url, commit), dst)
	seen, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	wantWords(t, string(seen), "GIT_SSL_CAINFO=", "GIT_TERMINAL_PROMPT=0")
	for _, name := range []string{"FOO_TOKEN", "AGENT_RUNTIME_TOKEN", "LD_PRELOAD", "GIT_SSH=", "ENV="} {
		for line := range strings.Lines(string(seen)) {
			if strings.HasPrefix(line, name) {
				t.Errorf("git was given %s", line)
			}
		}
	}
}

func TestGitThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	f := newFetcher(newProcesses(), []string{"PATH=" + t.TempDir()}, slog.New(slog.DiscardHandler))
	src := source{"https://example.org/lab", strings.Repeat("a", 40)}
	wantWords(t, wantFailure(t, f, src, kindMissingTool), "git", installHint("git"))
}

func TestGitThatHangsIsNoticed(t *testing.T) {
	t.Parallel()
	f := newFetcher(newProcesses(), []string{"PATH=" + gitWrapper(t, "sleep 600")}, slog.New(slog.DiscardHandler))
	if f.probeLimit > 5*time.Second {
		t.Errorf("the probe takes up to %v, want at most 5 s", f.probeLimit)
	}
	f.probeLimit = 200 * time.Millisecond
	src := source{"https://example.org/lab", strings.Repeat("a", 40)}
	wantWords(t, wantFailure(t, f, src, kindMissingTool), "does not answer")
}

func TestGitThatIsTooOldIsNamed(t *testing.T) {
	t.Parallel()
	src := source{"https://example.org/lab", strings.Repeat("a", 40)}
	for says, want := range map[string]string{
		"git version 2.29.9": "is version 2.29.9",
		"git version 1.99":   "is version 1.99",
		"hello":              "does not work",
	} {
		f := newFetcher(newProcesses(), []string{"PATH=" + gitWrapper(t, "echo '"+says+"'; exit 0")}, slog.New(slog.DiscardHandler))
		wantWords(t, wantFailure(t, f, src, kindMissingTool), want)
	}
}

func TestVersionIsAskedOnce(t *testing.T) {
	t.Parallel()
	record := filepath.Join(t.TempDir(), "record")
	f := newFetcher(newProcesses(), []string{"PATH=" + gitWrapper(t, "echo x >> "+record)}, slog.New(slog.DiscardHandler))
	for range 3 {
		if _, version, err := f.version(t.Context()); err != nil || version == "" {
			t.Fatalf("version = %q, %v", version, err)
		}
	}
	if data, _ := os.ReadFile(record); string(data) != "x\n" {
		t.Errorf("git was started %d times, want once", strings.Count(string(data), "x"))
	}
}
