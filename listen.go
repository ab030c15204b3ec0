package main

// Where the runtime listens, and who has the port when it cannot.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// holderTimeout is how long the holder of a port may take to say who it is.
const holderTimeout = 500 * time.Millisecond

// handshakeTimeout is how long it may take to show a certificate. A server of
// ours may be busy, and others say at once that they have none.
const handshakeTimeout = 5 * time.Second

// ports is where the runtime listens.
type ports struct {
	cfg   config
	plain net.Listener
	cert  *servedCertificate
	fault error // why https was not served at first although there was a certificate

	mu     sync.Mutex   // guards secure
	secure net.Listener // nil as long as there was no certificate that could be used
}

// listen opens the plain port, and the one for https where there is a
// certificate for it.
func listen(cfg config, log *slog.Logger) (*ports, error) {
	plain, err := listenOn(cfg.host, cfg.port, "--port")
	if err != nil {
		return nil, err
	}
	p := &ports{cfg: cfg, plain: plain, cert: &servedCertificate{dir: cfg.dir, log: log}}
	p.fault = p.certificateFault()
	switch {
	case errors.Is(p.fault, errNoCertificate):
		p.fault = nil
	case p.fault == nil:
		if _, err := p.openSecure(); err != nil {
			return nil, errors.Join(err, plain.Close())
		}
	}
	return p, nil
}

// certificateFault tells why there is no certificate for the host listened on.
func (p *ports) certificateFault() error {
	pair, err := usableCertificate(p.cfg.dir, time.Now())
	switch {
	case errors.Is(err, errNoCertificate):
		return err
	case err != nil:
		return unusableCertificate(err)
	}
	return fitsHost(pair.Leaf, p.plain.Addr().String())
}

// openSecure opens the port for https, and returns nil when it is open.
func (p *ports) openSecure() (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.secure != nil {
		return nil, nil
	}
	l, err := listenSecure(p.cfg)
	if err != nil {
		return nil, err
	}
	p.secure = tls.NewListener(l, p.cert.config())
	return p.secure, nil
}

// openLate opens the port for https when there is a certificate by now. It
// returns nil when there is nothing to open, or nothing could be.
func (p *ports) openLate() net.Listener {
	if p.certificateFault() != nil {
		return nil
	}
	l, err := p.openSecure()
	switch {
	case err != nil:
		p.cert.log.Warn("https is not served", "reason", err)
	case l != nil:
		p.cert.log.Info("https is served with the certificate", "address", "https://"+l.Addr().String())
	}
	return l
}

// secureAddr is where https is served; nil where it is not.
func (p *ports) secureAddr() net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.secure == nil {
		return nil
	}
	return p.secure.Addr()
}

func listenSecure(cfg config) (net.Listener, error) {
	const setting = "server.https_port in config.toml or AGENT_RUNTIME_HTTPS_PORT"
	if cfg.httpsPort == cfg.port && cfg.port != 0 {
		return nil, problemf(kindConflict, "The port %d is taken for http already; choose another one for https with %s.", cfg.port, setting)
	}
	return listenOn(cfg.host, cfg.httpsPort, setting)
}

// httpsAddr is where serve listens for https.
func httpsAddr(cfg config) string { return net.JoinHostPort(cfg.host, strconv.Itoa(cfg.httpsPort)) }

// listenOn opens a port, which the person chooses with setting.
func listenOn(host string, port int, setting string) (net.Listener, error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := net.Listen(networkOf(host), addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, problemf(kindConflict, "The address %s is taken by %s; stop it, or choose another port with %s.", addr, portHolder(addr), setting).because(err)
	}
	if err != nil {
		return nil, problemf(kindUnacceptable, "Cannot listen on %s: %v. Choose another --host, or another port with %s.", addr, err, setting)
	}
	return l, nil
}

// all lists the open ports. Without ports there are none.
func (p *ports) all() []net.Listener {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc([]net.Listener{p.plain, p.secure}, func(l net.Listener) bool { return l == nil })
}

// addresses lists the addresses that pages can use now, in the order in which
// they should try them.
func (p *ports) addresses() []string {
	list := []string{"http://" + reachable(p.plain.Addr().String())}
	if addr := p.secureAddr(); addr != nil {
		if _, err := p.cert.load(); err == nil {
			list = append(list, "https://"+reachable(addr.String()))
		}
	}
	return list
}

// reachable is the host and port by which programs on this computer reach
// what listens on addr.
func reachable(addr string) string {
	ap, err := netip.ParseAddrPort(addr)
	switch {
	case err != nil || !ap.Addr().IsUnspecified():
		return addr
	case ap.Addr().Is4():
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), ap.Port()).String()
	}
	return netip.AddrPortFrom(netip.IPv6Loopback(), ap.Port()).String()
}

func unusableCertificate(fault error) error {
	return problemf(kindUnacceptable, "https is not served: the certificate cannot be used: %v. Make a new one with agent-runtime tls setup.", fault)
}

// fitsHost tells when a certificate is not for the host of addr.
func fitsHost(leaf *x509.Certificate, addr string) error {
	host, _, err := net.SplitHostPort(reachable(addr))
	if err == nil {
		err = leaf.VerifyHostname(host)
	}
	if err != nil {
		return problemf(kindUnacceptable, "https is not served: the certificate is for %s alone, and the runtime listens on %s.", certificateHosts, addr)
	}
	return nil
}

// shows reports whether what listens on addr is a server with this certificate.
func shows(ctx context.Context, addr string, leaf *x509.Certificate) bool {
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: handshakeTimeout}, Config: &tls.Config{RootCAs: roots}}
	conn, err := dialer.DialContext(ctx, "tcp", reachable(addr))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// networkOf is the network to listen on for host. Every address of version 4
// would otherwise be taken for every address there is.
func networkOf(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is4() {
		return "tcp4"
	}
	return "tcp"
}

// anotherRuntime is what portHolder says of a program like this one.
const anotherRuntime = "another agent-runtime"

// portHolder says who answers at addr.
func portHolder(addr string) string {
	client := &http.Client{Timeout: holderTimeout}
	answer, err := client.Get("http://" + reachable(addr) + "/runtime/info")
	if err != nil {
		return "another program"
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK && answer.Header.Get("Content-Type") == "application/json" {
		return anotherRuntime
	}
	return "another web server"
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
