package main

// A git host for tests: https on a loopback address, with a certificate
// authority of its own, around git's own server program.

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gitServer serves bare repositories to git over https. Its methods are for
// the test's goroutine, except that requests is counted by the server's.
type gitServer struct {
	t        testing.TB
	root     string       // of the bare repositories
	url      string       // https://127.0.0.1:port
	caFile   string       // for GIT_SSL_CAINFO
	requests atomic.Int64 // that reached the server

	server *httptest.Server

	mu      sync.Mutex // guards handler
	handler http.Handler
}

// gitServerFile is a file of a commit; an empty mode is that of an ordinary one.
type gitServerFile struct {
	path, mode, data string
}

func newGitServer(t testing.TB) *gitServer {
	t.Helper()
	s := &gitServer{t: t, root: t.TempDir()}
	certificate, authority := testCertificate(t)
	s.caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(s.caFile, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	s.handler = s.backend()
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	s.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.server.StartTLS()
	t.Cleanup(s.close)
	s.url = s.server.URL
	return s
}

// close ends the server before the test does; it can be called again.
func (s *gitServer) close() {
	s.server.CloseClientConnections()
	s.server.Close()
}

func (s *gitServer) serve(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	s.mu.Lock()
	handler := s.handler
	s.mu.Unlock()
	handler.ServeHTTP(w, r)
}

// wrap puts a handler around git's own, in place of an earlier one. A nil
// around takes it away.
func (s *gitServer) wrap(around func(git http.Handler) http.Handler) {
	handler := s.backend()
	if around != nil {
		handler = around(handler)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = handler
}

func (s *gitServer) backend() http.Handler {
	execPath := strings.TrimSpace(s.git("", nil, "--exec-path"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		backend := &cgi.Handler{
			Path: filepath.Join(execPath, "git-http-backend"),
			Dir:  s.root,
			Env: []string{
				"GIT_PROJECT_ROOT=" + s.root,
				"GIT_HTTP_EXPORT_ALL=1",
				"GIT_PROTOCOL=" + r.Header.Get("Git-Protocol"),
				"GIT_CONFIG_NOSYSTEM=1",
				"HOME=" + s.root,
			},
			Logger: log.New(io.Discard, "", 0),
			Stderr: io.Discard,
		}
		backend.ServeHTTP(w, r)
	})
}

// addRepo makes a repository with one commit of ordinary files.
func (s *gitServer) addRepo(name string, files map[string]string) (url, commit string) {
	s.t.Helper()
	s.git("", nil, "init", "--quiet", "--bare", "--object-format=sha1", "--template=", "--", s.repoPath(name))
	return s.url + "/" + name, s.commit(name, files)
}

// commit puts a further commit on the repository's branch, which holds these
// files and no others.
func (s *gitServer) commit(name string, files map[string]string) string {
	s.t.Helper()
	var list []gitServerFile
	for _, path := range slices.Sorted(maps.Keys(files)) {
		list = append(list, gitServerFile{path: path, data: files[path]})
	}
	return s.commitFiles(name, list)
}

// commitFiles is commit for files with modes: 100755 for a program, 120000
// for a link whose data is the target, 160000 for a submodule whose data is
// an id.
func (s *gitServer) commitFiles(name string, files []gitServerFile) string {
	s.t.Helper()
	const branch = "refs/heads/main"
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit %s\ncommitter Test <test@example.org> 1700000000 +0000\ndata 4\ntest\n", branch)
	if parent := s.tip(name); parent != "" {
		fmt.Fprintf(&in, "from %s\n", parent)
	}
	in.WriteString("deleteall\n")
	for _, file := range files {
		if file.mode == "160000" {
			fmt.Fprintf(&in, "M 160000 %s %q\n", file.data, file.path)
			continue
		}
		mode := file.mode
		if mode == "" {
			mode = "100644"
		}
		fmt.Fprintf(&in, "M %s inline %q\ndata %d\n%s\n", mode, file.path, len(file.data), file.data)
	}
	s.git(name, &in, "fast-import", "--quiet", "--force")
	return s.tip(name)
}

// commitTree puts a commit with any tree on the repository's branch.
func (s *gitServer) commitTree(name, tree string) string {
	s.t.Helper()
	commit := strings.TrimSpace(s.git(name, nil, "commit-tree", "-m", "test", tree))
	s.git(name, nil, "update-ref", "refs/heads/main", commit)
	return commit
}

// addObject writes an object as it is, however odd, and returns its id.
func (s *gitServer) addObject(name, kind string, data []byte) string {
	s.t.Helper()
	out := s.git(name, bytes.NewReader(data), "hash-object", "-t", kind, "-w", "--literally", "--stdin")
	return strings.TrimSpace(out)
}

// tip is the newest commit; "" before there is one.
func (s *gitServer) tip(name string) string {
	return strings.TrimSpace(s.git(name, nil, "for-each-ref", "--format=%(objectname)", "refs/heads/main"))
}

func (s *gitServer) repoPath(name string) string { return filepath.Join(s.root, name) }

// git runs git on a repository of the server, or on none, away from the
// settings of whoever runs the test.
func (s *gitServer) git(name string, stdin io.Reader, args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = s.root
	if name != "" {
		cmd.Dir = s.repoPath(name)
	}
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.root, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@example.org", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@example.org", "GIT_COMMITTER_DATE=1700000000 +0000",
	}
	cmd.Stdin = stdin
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// isPackRequest reports whether r asks for objects, after the first requests
// which only say what there is.
func isPackRequest(r *http.Request, body []byte) bool {
	return r.Method == http.MethodPost && bytes.Contains(body, []byte("want "))
}

// readBody returns the body of r and puts it back.
func readBody(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// cutPack lets through so many bytes of each of the first cuts answers with
// objects and then cuts the connection.
func cutPack(cuts int64, bytes int) func(http.Handler) http.Handler {
	var done atomic.Int64
	return func(git http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body := readBody(r)
			r.ContentLength = int64(len(body))
			if !isPackRequest(r, body) || done.Add(1) > cuts {
				git.ServeHTTP(w, r)
				return
			}
			answer := httptest.NewRecorder()
			git.ServeHTTP(answer, r)
			maps.Copy(w.Header(), answer.Header())
			w.Header().Set("Content-Length", fmt.Sprint(answer.Body.Len()))
			_, _ = w.Write(answer.Body.Bytes()[:min(bytes, answer.Body.Len()/2)])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
	}
}

// oldProtocol makes the server one that knows the first protocol only.
func oldProtocol(git http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Git-Protocol")
		git.ServeHTTP(w, r)
	})
}

// stalled answers with headers and then nothing, until the client leaves.
func stalled(http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
}

// testCertificate makes a certificate for 127.0.0.1 and the authority, as PEM,
// that signed it.
func testCertificate(t testing.TB) (certificate tls.Certificate, authority []byte) {
	t.Helper()
	template := func(serial int64) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber:          big.NewInt(serial),
			Subject:               pkix.Name{CommonName: fmt.Sprintf("test %d", serial)},
			NotBefore:             time.Now().Add(-time.Hour),
			NotAfter:              time.Now().Add(24 * time.Hour),
			BasicConstraintsValid: true,
		}
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	root, rootKey := template(1), newKey()
	root.IsCA, root.KeyUsage = true, x509.KeyUsageCertSign
	leaf, leafKey := template(2), newKey()
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leaf.IPAddresses, leaf.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost", "lab.example.test"}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, leafKey.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
	return tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}, authority
}
