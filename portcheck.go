package main

// What there is to say of the ports that serve listens on.

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"
)

func checkPort(cfg config) checkup {
	l, err := listenOn(cfg.host, cfg.port, "--port")
	addr := net.JoinHostPort(cfg.host, strconv.Itoa(cfg.port))
	if err == nil {
		_ = l.Close()
		return checkup{Name: "port", OK: true, Needed: true, Detail: addr + " is free"}
	}
	if portHolder(addr) == anotherRuntime {
		return portServed(addr)
	}
	return failedCheck("port", true, err)
}

// checkHTTPS looks at the certificate, and at the port that serve opens with
// it.
func checkHTTPS(ctx context.Context, cfg config) checkup {
	const hint = "run agent-runtime tls setup"
	check := checkup{Name: "https"}
	pair, err := usableCertificate(cfg.dir, time.Now())
	if errors.Is(err, errNoCertificate) {
		check.OK, check.Detail = true, "no certificate; only Safari needs one, which agent-runtime tls setup makes"
		return check
	}
	addr := httpsAddr(cfg)
	if err != nil {
		check.Detail, check.Hint = "the certificate cannot be used: "+err.Error(), hint
		return check
	}
	if err := fitsHost(pair.Leaf, addr); err != nil {
		return failedCheck("https", false, err)
	}
	check.Detail = "the certificate lasts until " + dayOf(pair.Leaf.NotAfter)
	if time.Until(pair.Leaf.NotAfter) < certificateRenewal {
		check.Hint = hint
	}
	if shows(ctx, addr, pair.Leaf) {
		check.OK, check.Detail = true, check.Detail+", and agent-runtime answers on "+addr
		return check
	}
	l, err := listenSecure(cfg)
	if err != nil {
		return failedCheck("https", true, err)
	}
	_ = l.Close()
	check.OK, check.Detail = true, check.Detail+", and "+addr+" is free"
	return check
}
