package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// giveCertificate puts a certificate for loopback into the data folder dir,
// and returns a client that trusts its authority.
func giveCertificate(t *testing.T, dir string) *http.Client {
	t.Helper()
	certificate, authority := testCertificate(t)
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "tls")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestLoopbackCertificateIsServedWhileItIsThere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	client := giveCertificate(t, dir)
	rt := startRuntime(t, withDir(dir), withEnv("AGENT_RUNTIME_HTTPS_PORT=0"))
	groups, _ := rt.screen.await(t, 0, `with its certificate on (https://127\.0\.0\.1:\d+)`)
	for path, want := range map[string]int{"/health": http.StatusOK, "/runtime/whoami": http.StatusUnauthorized} {
		answer, err := client.Get(groups[1] + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("GET %s over TLS = %d, want %d", path, answer.StatusCode, want)
		}
	}
	site{rt: rt}.want(http.StatusOK, "GET", "/health", nil)
}

func TestUnusableCertificateIsNamedAndNothingIsServed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	giveCertificate(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "tls", "key.pem"), []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := runProgram(t, programEnv(dir), "serve", "--port", "0")
	if code != exitFailed || !strings.Contains(out, "cert.pem") || strings.Contains(out, "listens on") {
		t.Errorf("serve = %d, %q; want it to name the certificate and end", code, out)
	}
}
