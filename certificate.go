package main

// The certificate by which browsers reach the runtime over https: signed by
// itself, for this computer's own names alone, and useless for anything else.
// It and its key are one text, so that the two always belong together.

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

const (
	certificateLife = 397 * 24 * time.Hour // browsers take no longer ones
	certificateLead = time.Hour            // it begins in the past, for clocks that are late

	// certificateRenewal is the time before its end in which it is replaced.
	certificateRenewal = 30 * 24 * time.Hour

	certificateName = "agent-runtime on this computer"
)

// certificateHosts are the names that it is for: whatever serves there, it is
// this computer.
const certificateHosts = "localhost, 127.0.0.1 and ::1"

// newCertificate makes a certificate and its key, as PEM.
func newCertificate(now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	begin := now.Add(-certificateLead).UTC().Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber:          serial.Add(serial, big.NewInt(1)), // none is 0
		Subject:               pkix.Name{CommonName: certificateName},
		NotBefore:             begin,
		NotAfter:              begin.Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, // and says that it signs no others
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write key: %w", err)
	}
	return append(certificatePEM(der), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}

// certificatePEM is a certificate without its key.
func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// readCertificate reads what newCertificate made, of whatever time, and
// refuses everything else. The pair has its Leaf.
func readCertificate(text []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, errors.New("it is damaged: there is no certificate with its key in it") // the cause may tell of the key
	}
	leaf := pair.Leaf
	key, _ := pair.PrivateKey.(*ecdsa.PrivateKey)
	switch {
	case len(pair.Certificate) != 1,
		key == nil || key.Curve != elliptic.P256(),
		leaf.CheckSignature(leaf.SignatureAlgorithm, leaf.RawTBSCertificate, leaf.Signature) != nil:
		return nil, errors.New("it is not one that agent-runtime made")
	case !leaf.BasicConstraintsValid, leaf.IsCA,
		leaf.KeyUsage != x509.KeyUsageDigitalSignature,
		!slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}),
		len(leaf.UnknownExtKeyUsage) > 0:
		return nil, errors.New("it could be used for more than this server")
	case !isForLoopback(leaf):
		return nil, errors.New("it is not for " + certificateHosts + " alone")
	case leaf.NotAfter.Sub(leaf.NotBefore) > certificateLife:
		return nil, errors.New("it lasts longer than browsers take")
	}
	return &pair, nil
}

// isForLoopback reports whether a certificate is for exactly the names that
// it should be for.
func isForLoopback(leaf *x509.Certificate) bool {
	return slices.Equal(leaf.DNSNames, []string{"localhost"}) &&
		slices.EqualFunc(leaf.IPAddresses, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, net.IP.Equal) &&
		len(leaf.EmailAddresses) == 0 && len(leaf.URIs) == 0
}

// checkDates tells why a certificate cannot be used at a time, if so.
func checkDates(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.After(leaf.NotAfter):
		return errors.New("it ended on " + dayOf(leaf.NotAfter))
	case now.Before(leaf.NotBefore):
		return errors.New("it begins on " + dayOf(leaf.NotBefore) + ", which the clock of this computer has not reached")
	}
	return nil
}

func dayOf(t time.Time) string { return t.Local().Format(time.DateOnly) }
