package main

// The login keychain, which tells Safari which certificates to believe. Only
// the certificate goes there, never its key.

import (
	"context"
	"crypto/sha1"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// trustNeeded says that browsers of this system use the certificate for https
// once it is in the system's keychain.
const trustNeeded = true

const securityTool = "/usr/bin/security"

// certificateTrusted reports whether this account believes the certificate
// when a server shows it.
func certificateTrusted(ctx context.Context, ps *processes, env []string, cert *x509.Certificate) bool {
	return withCertificateFile(cert, func(file string) error {
		_, err := runTool(ctx, ps, "", env, []string{securityTool, "verify-cert", "-c", file, "-p", "ssl", "-L", "-q"})
		return err
	}) == nil
}

// trustCertificate has this account believe the certificate, for TLS alone.
// The system asks the person for their password first.
func trustCertificate(ctx context.Context, ps *processes, env []string, cert *x509.Certificate) error {
	keychain, err := loginKeychain()
	if err != nil {
		return err
	}
	return withCertificateFile(cert, func(file string) error {
		_, err := runTool(ctx, ps, "", env, []string{securityTool, "add-trusted-cert", "-r", "trustRoot", "-p", "ssl", "-k", keychain, file})
		return err
	})
}

// untrustCertificate takes the certificate out of the keychain, with the
// trust in it.
func untrustCertificate(ctx context.Context, ps *processes, env []string, cert *x509.Certificate) error {
	keychain, err := loginKeychain()
	if err != nil {
		return err
	}
	sum := sha1.Sum(cert.Raw) // by which the tool names certificates
	name := strings.ToUpper(hex.EncodeToString(sum[:]))
	there, err := runTool(ctx, ps, "", env, []string{securityTool, "find-certificate", "-a", "-Z", "-c", certificateName, keychain})
	if err != nil || !strings.Contains(there, name) {
		return nil // it was never put there
	}
	// Trust that is not there is an error, too; what counts is that the entry goes.
	untrusted := withCertificateFile(cert, func(file string) error {
		_, err := runTool(ctx, ps, "", env, []string{securityTool, "remove-trusted-cert", file})
		return err
	})
	if _, err := runTool(ctx, ps, "", env, []string{securityTool, "delete-certificate", "-Z", name, "-t", keychain}); err != nil {
		return errors.Join(err, untrusted)
	}
	return nil
}

func loginKeychain() (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the login keychain: %w", err)
	}
	return filepath.Join(home, "Library", "Keychains", "login.keychain-db"), nil
}

// withCertificateFile calls use with a file that holds the certificate.
func withCertificateFile(cert *x509.Certificate, use func(file string) error) error {
	folder, err := os.MkdirTemp("", "agent-runtime-*")
	if err != nil {
		return fmt.Errorf("make a folder for the certificate: %w", err)
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "certificate.pem")
	if err := os.WriteFile(file, certificatePEM(cert.Raw), 0o600); err != nil {
		return fmt.Errorf("write the certificate: %w", err)
	}
	return use(file)
}
