package main

// The certificate for https, which Safari needs.

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

func tlsCommands() []command {
	return []command{
		{"tls setup", "", "make the certificate that Safari needs, or renew it in its last 30 days", runTLSSetup},
		{"tls status", "", "tell whether there is a certificate that can be used; exit status 1 when not", runTLSStatus},
		{"tls remove", "", "remove the certificate and its key; https is served no longer", runTLSRemove},
	}
}

// noTrustStep is said where browsers need no certificate.
const noTrustStep = "No trust step is needed on this system: Chrome, Edge and Firefox let https pages use the http address. " +
	"Only Safari needs the certificate, and it is not here."

func runTLSSetup(_ context.Context, c *cli, args []string) error {
	cfg, err := tlsConfig(c, "tls setup", args)
	if err != nil {
		return err
	}
	if err := makeDataFolder(cfg.dir); err != nil {
		return err
	}
	setup, err := setUpCertificate(cfg.dir, time.Now())
	if err != nil {
		return err
	}
	leaf := setup.pair.Leaf
	switch {
	case setup.why == nil:
		fmt.Fprintf(c.stdout, "The certificate stays: it lasts until %s.\n", dayOf(leaf.NotAfter))
	case errors.Is(setup.why, errNoCertificate):
		fmt.Fprintf(c.stdout, "Made a certificate for %s, which lasts until %s.\n", certificateHosts, dayOf(leaf.NotAfter))
	default:
		fmt.Fprintf(c.stdout, "Made a new certificate, which lasts until %s. The old one is gone: %s.\n", dayOf(leaf.NotAfter), visible(setup.why.Error()))
	}
	fmt.Fprintf(c.stdout, "File: %s\n", visible(certificatePath(cfg.dir)))
	asked, _, stop := endSignals()
	defer stop()
	if err := c.believe(asked, setup); err != nil {
		return err
	}
	c.offer(asked, cfg, leaf)
	return nil
}

// offer has a running runtime serve the certificate, and tells where.
func (c *cli) offer(ctx context.Context, cfg config, leaf *x509.Certificate) {
	_, absent := callControl(cfg.dir, controlRequest{Do: controlReload})
	addr := httpsAddr(cfg)
	switch fault := fitsHost(leaf, addr); {
	case fault != nil:
		fmt.Fprintln(c.stdout, visible(fault.Error()))
	case absent != nil:
		fmt.Fprintln(c.stdout, "agent-runtime serve uses it from its next start.")
	case shows(ctx, addr, leaf):
		fmt.Fprintf(c.stdout, "The running runtime serves it on https://%s.\n", reachable(addr))
	default:
		fmt.Fprintln(c.stdout, "The running runtime was told of it, and says in its terminal where it serves it.")
	}
}

// believe has the system's browsers believe a new certificate in the place of
// the old one, where that takes a step.
func (c *cli) believe(ctx context.Context, setup certificateSetup) error {
	if !trustNeeded {
		fmt.Fprintln(c.stdout, noTrustStep)
		return nil
	}
	ps, env, leaf := newProcesses(), cleanEnvironment(c.environ), setup.pair.Leaf
	if setup.old != nil {
		if err := untrustCertificate(ctx, ps, env, setup.old.Leaf); err != nil {
			fmt.Fprintf(c.stderr, "The old certificate stays in the login keychain: %s.\n", saidBy(err))
		}
	}
	if certificateTrusted(ctx, ps, env, leaf) {
		return nil
	}
	fmt.Fprintln(c.stdout, "The system asks for your password, so that Safari believes it.")
	if err := trustCertificate(ctx, ps, env, leaf); err != nil {
		return problemf(kindMissingTool, "The certificate is made, but Safari does not believe it: %s. "+
			"Run agent-runtime tls setup again, in a terminal of your own desktop.", saidBy(err)).because(err)
	}
	fmt.Fprintln(c.stdout, "The login keychain trusts it, for TLS alone.")
	return nil
}

func runTLSStatus(ctx context.Context, c *cli, args []string) error {
	cfg, err := tlsConfig(c, "tls status", args)
	if err != nil {
		return err
	}
	pair, fault := openCertificate(cfg.dir)
	if errors.Is(fault, errNoCertificate) {
		fmt.Fprintln(c.stdout, "There is no certificate. Only Safari needs one; agent-runtime tls setup makes it.")
		return errFailed
	}
	fmt.Fprintf(c.stdout, "File:    %s\n", visible(certificatePath(cfg.dir)))
	if pair != nil {
		printCertificate(c, pair)
	}
	if fault == nil {
		fault = checkDates(pair.Leaf, time.Now())
	}
	if fault != nil {
		fmt.Fprintf(c.stdout, "It cannot be used: %s. Make a new one with agent-runtime tls setup.\n", visible(fault.Error()))
		return errFailed
	}
	trusted := c.printTrust(ctx, pair.Leaf)
	c.printServed(ctx, cfg, pair.Leaf)
	if !trusted {
		return errFailed
	}
	return nil
}

func printCertificate(c *cli, pair *tls.Certificate) {
	leaf := pair.Leaf
	fmt.Fprintf(c.stdout, "For:     %s, as a server\n", certificateHosts)
	fmt.Fprintf(c.stdout, "Lasts:   %s to %s\n", dayOf(leaf.NotBefore), dayOf(leaf.NotAfter))
	fmt.Fprintf(c.stdout, "SHA-256: %X\n", sha256.Sum256(leaf.Raw))
}

// printTrust tells whether browsers that need the certificate believe it, and
// reports it.
func (c *cli) printTrust(ctx context.Context, leaf *x509.Certificate) bool {
	switch {
	case !trustNeeded:
		fmt.Fprintln(c.stdout, noTrustStep)
		return true
	case certificateTrusted(ctx, newProcesses(), cleanEnvironment(c.environ), leaf):
		fmt.Fprintln(c.stdout, "Trust:   the login keychain trusts it, for TLS alone")
		return true
	}
	fmt.Fprintln(c.stdout, "Trust:   Safari does not believe it; agent-runtime tls setup changes that.")
	return false
}

func (c *cli) printServed(ctx context.Context, cfg config, leaf *x509.Certificate) {
	addr := httpsAddr(cfg)
	switch fault := fitsHost(leaf, addr); {
	case fault != nil:
		fmt.Fprintf(c.stdout, "Served:  no; %s\n", visible(fault.Error()))
	case shows(ctx, addr, leaf):
		fmt.Fprintf(c.stdout, "Served:  on https://%s\n", reachable(addr))
	default:
		fmt.Fprintf(c.stdout, "Served:  not now; agent-runtime serve does, on https://%s\n", reachable(addr))
	}
}

func runTLSRemove(_ context.Context, c *cli, args []string) error {
	cfg, err := tlsConfig(c, "tls remove", args)
	if err != nil {
		return err
	}
	old, err := removeCertificate(cfg.dir)
	if errors.Is(err, errNoCertificate) {
		fmt.Fprintln(c.stdout, "There is no certificate.")
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(c.stdout, "Removed the certificate and its key.")
	if !trustNeeded || old == nil {
		return nil
	}
	asked, _, stop := endSignals()
	defer stop()
	if err := untrustCertificate(asked, newProcesses(), cleanEnvironment(c.environ), old.Leaf); err != nil {
		return problemf(kindMissingTool, "The login keychain still has the certificate %q: %s. Delete it in Keychain Access.", certificateName, saidBy(err)).because(err)
	}
	fmt.Fprintln(c.stdout, "Took it out of the login keychain.")
	return nil
}

func tlsConfig(c *cli, name string, args []string) (config, error) {
	if _, err := parseArgs(newFlags(name), args); err != nil {
		return config{}, err
	}
	return c.config()
}
