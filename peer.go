package main

// Which accounts may connect. On Linux a loopback connection that another
// account of this machine opened is refused: a loopback Origin is believed
// without a token, and any account could send one.

import (
	"context"
	"net"
	"net/http"
	"sync"
)

type peerKey struct{}

// peer is the other end of a connection. It is looked up once, at the first
// request.
type peer struct {
	conn    net.Conn
	once    sync.Once
	foreign bool
}

// withPeer is an http.Server's ConnContext.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, &peer{conn: conn})
}

// foreignPeer reports whether the request came from another account.
func foreignPeer(r *http.Request) bool {
	p, ok := r.Context().Value(peerKey{}).(*peer)
	if !ok {
		return false
	}
	p.once.Do(func() { p.foreign = ofAnotherAccount(p.conn) })
	return p.foreign
}
