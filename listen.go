package main

// Where the runtime listens, and who has the port when it cannot.

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// listen opens the plain listener, and the one with the loopback certificate
// where there is one.
func listen(cfg config) ([]net.Listener, error) {
	plain, err := listenOn(cfg.host, cfg.port)
	if err != nil {
		return nil, err
	}
	cert := filepath.Join(cfg.dir, "tls", "cert.pem")
	key := filepath.Join(cfg.dir, "tls", "key.pem")
	if _, err := os.Stat(cert); err != nil {
		return []net.Listener{plain}, nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, errors.Join(problemf(kindUnacceptable, "The certificate %s and its key key.pem cannot be used; replace or remove both.", cert).because(err), plain.Close())
	}
	secure, err := listenOn(cfg.host, cfg.httpsPort)
	if err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return []net.Listener{plain, tls.NewListener(secure, &tls.Config{Certificates: []tls.Certificate{pair}})}, nil
}

func listenOn(host string, port int) (net.Listener, error) {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := net.Listen(networkOf(host), addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, problemf(kindConflict, "The address %s is taken by %s; stop it, or choose another port with --port.", addr, portHolder(addr)).because(err)
	}
	if err != nil {
		return nil, problemf(kindUnacceptable, "Cannot listen on %s: %v. Choose another --host or --port.", addr, err)
	}
	return l, nil
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
	client := &http.Client{Timeout: 500 * time.Millisecond}
	answer, err := client.Get("http://" + addr + "/runtime/info")
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
