package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

func mustCertificate(t testing.TB, now time.Time) []byte {
	t.Helper()
	text, err := newCertificate(now)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCertificateIsForServersOfThisComputerAlone(t *testing.T) {
	t.Parallel()
	now := time.Now()
	pair, err := readCertificate(mustCertificate(t, now))
	if err != nil {
		t.Fatal(err)
	}
	leaf := pair.Leaf
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	for _, c := range []struct {
		host string
		ok   bool
	}{
		{"localhost", true}, {"127.0.0.1", true}, {"::1", true}, {"127.0.0.2", false}, {"a.localhost", false},
		{"localhost.example.test", false}, {"example.test", false}, {"0.0.0.0", false}, {"", true},
	} {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: c.host, CurrentTime: now})
		if (err == nil) != c.ok {
			t.Errorf("for %q: %v, want it to be good: %v", c.host, err, c.ok)
		}
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageCodeSigning, x509.ExtKeyUsageEmailProtection} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err == nil {
			t.Errorf("it is good for the usage %v", usage)
		}
	}
	if leaf.IsCA || !leaf.BasicConstraintsValid || leaf.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("authority %v, key usage %b; want none and digital signature alone", leaf.IsCA, leaf.KeyUsage)
	}
	if life := leaf.NotAfter.Sub(leaf.NotBefore); life != 397*24*time.Hour || !leaf.NotBefore.Before(now) {
		t.Errorf("it lasts %v from %v, want 397 days from before %v", life, leaf.NotBefore, now)
	}
	other, err := readCertificate(mustCertificate(t, now))
	if err != nil || other.Leaf.SerialNumber.Cmp(leaf.SerialNumber) == 0 || leaf.SerialNumber.Sign() <= 0 {
		t.Errorf("serial numbers %x and %x, %v; want them to differ", leaf.SerialNumber, other.Leaf.SerialNumber, err)
	}
}

// nearlyOurs is a certificate like those of newCertificate but for one thing.
func nearlyOurs(t testing.TB, change func(*x509.Certificate)) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return selfSigned(t, key, change)
}

func selfSigned(t testing.TB, key crypto.Signer, change func(*x509.Certificate)) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: certificateName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(certificatePEM(der), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
}

// foreignCertificate is a certificate of an authority, with its key.
func foreignCertificate(t testing.TB) []byte {
	t.Helper()
	pair, _ := testCertificate(t)
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return append(certificatePEM(pair.Certificate[0]), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
}

func TestCertificatesThatAreGoodForMoreAreRefused(t *testing.T) {
	t.Parallel()
	own, other := mustCertificate(t, time.Now()), mustCertificate(t, time.Now())
	cert, key, _ := bytes.Cut(own, []byte("-----BEGIN PRIVATE"))
	key = append([]byte("-----BEGIN PRIVATE"), key...)
	_, otherKey, _ := bytes.Cut(other, []byte("-----BEGIN PRIVATE"))
	otherKey = append([]byte("-----BEGIN PRIVATE"), otherKey...)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	same := func(*x509.Certificate) {}
	for name, c := range map[string]struct {
		text []byte
		ok   bool
	}{
		"ours":                   {own, true},
		"like ours":              {nearlyOurs(t, same), true},
		"nothing":                {nil, false},
		"no PEM":                 {[]byte("not a certificate"), false},
		"no key":                 {cert, false},
		"no certificate":         {key, false},
		"another key":            {append(bytes.Clone(cert), otherKey...), false},
		"cut off":                {own[:len(own)-40], false},
		"two certificates":       {append(bytes.Clone(cert), own...), false},
		"of an authority":        {foreignCertificate(t), false},
		"another kind of key":    {selfSigned(t, edwards, same), false},
		"an authority":           {nearlyOurs(t, func(c *x509.Certificate) { c.IsCA = true }), false},
		"may sign":               {nearlyOurs(t, func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign }), false},
		"does not say":           {nearlyOurs(t, func(c *x509.Certificate) { c.BasicConstraintsValid = false }), false},
		"for clients":            {nearlyOurs(t, func(c *x509.Certificate) { c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth) }), false},
		"for anything":           {nearlyOurs(t, func(c *x509.Certificate) { c.ExtKeyUsage = nil }), false},
		"one more name":          {nearlyOurs(t, func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "course.example.test") }), false},
		"one more address":       {nearlyOurs(t, func(c *x509.Certificate) { c.IPAddresses = append(c.IPAddresses, net.IPv4(192, 0, 2, 1)) }), false},
		"no address":             {nearlyOurs(t, func(c *x509.Certificate) { c.IPAddresses = nil }), false},
		"with a person's name":   {nearlyOurs(t, func(c *x509.Certificate) { c.EmailAddresses = []string{"ada@example.test"} }), false},
		"longer than 397 days":   {nearlyOurs(t, func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(398 * 24 * time.Hour) }), false},
		"that ended, ours still": {mustCertificate(t, time.Now().Add(-500*24*time.Hour)), true},
	} {
		if _, err := readCertificate(c.text); (err == nil) != c.ok {
			t.Errorf("%s: %v, want it to be taken: %v", name, err, c.ok)
		}
	}
}

func FuzzReadCertificate(f *testing.F) {
	own := mustCertificate(f, time.Now())
	f.Add(own)
	f.Add(own[:len(own)/2])
	f.Add(nearlyOurs(f, func(c *x509.Certificate) { c.IsCA = true }))
	f.Add(foreignCertificate(f))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pair, err := readCertificate(text)
		if err != nil {
			return
		}
		leaf := pair.Leaf
		for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
			if err := leaf.VerifyHostname(host); err != nil {
				t.Errorf("a certificate that is taken is not for %s: %v", host, err)
			}
		}
		if leaf.IsCA || len(leaf.DNSNames)+len(leaf.IPAddresses) != 3 || !leaf.PublicKey.(*ecdsa.PublicKey).Equal(pair.PrivateKey.(*ecdsa.PrivateKey).Public()) {
			t.Errorf("a certificate is taken that is good for more, or has another key: %v %v", leaf.DNSNames, leaf.IPAddresses)
		}
	})
}
