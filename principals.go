package main

// Who is calling: every request to a protected route is resolved to a
// principal and the scope it has, or refused.

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Three more things a route may ask for than a scope of its own.
const (
	scopeOpen scope = "open" // no caller at all
	scopeAny  scope = "any"  // a caller with whatever scope
	scopeOwn  scope = "own"  // the runtime's own page, and nobody else
)

// caller is who makes a request, and what they may use.
type caller struct {
	principal principal
	scope     scope
}

type callerKey struct{}

// callerOf returns who makes the request; it is set on every route that is
// not open.
func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c
}

// identify resolves a request to a principal and its scope.
func (s *server) identify(r *http.Request) (caller, error) {
	origins := r.Header.Values("Origin")
	if len(origins) > 1 {
		return caller{}, problemf(kindForbidden, "The request has %d Origin headers; it must have one at most.", len(origins))
	}
	if !s.cfg.requirePairing {
		return unpairedCaller(origins)
	}
	if len(origins) == 0 {
		return s.identifyLocal(r)
	}
	origin, invalid := parseOrigin(origins[0])
	if invalid == nil && origin.loopback() {
		return caller{origin, scopeCode}, nil
	}
	if invalid != nil {
		return refusedOrigin(r, invalid)
	}
	return s.lookUp(origin, authorization(r))
}

// unpairedCaller is for a runtime that was told to do without pairing.
func unpairedCaller(origins []string) (caller, error) {
	if len(origins) == 0 {
		return caller{"local", scopeCode}, nil
	}
	origin, err := parseOrigin(origins[0])
	if err != nil {
		return caller{}, problemf(kindForbidden, "The request's Origin is not that of a web page: %v", err)
	}
	return caller{origin, scopeCode}, nil
}

// identifyLocal is for requests without an Origin: the runtime's own page, or
// a local program with a token of its own.
func (s *server) identifyLocal(r *http.Request) (caller, error) {
	host, _ := splitHostPort(r)
	if r.Header.Get("Sec-Fetch-Site") == "same-origin" && loopbackHost(host) {
		return caller{ownOrigin(r), scopeCode}, nil
	}
	return s.lookUp("", authorization(r))
}

// ownOrigin is the origin of pages that come from where the request went.
func ownOrigin(r *http.Request) principal {
	if r.TLS != nil {
		return principal("https://" + r.Host)
	}
	return principal("http://" + r.Host)
}

// checkOwnPage refuses a request that is not from the runtime's own page, as
// a browser on this computer tells by headers that no page can set. Whoever
// else is trusted here, such as a page on another port of this computer, is
// refused too, and so is every name for it that is not literally loopback.
func checkOwnPage(r *http.Request) error {
	origins, sites := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
	fromHere := len(origins) == 1 && principal(origins[0]) == ownOrigin(r)
	sameOrigin := len(sites) == 1 && sites[0] == "same-origin"
	switch {
	case !toLoopback(r):
	case fromHere && (sameOrigin || len(sites) == 0):
		return nil
	case len(origins) == 0 && sameOrigin:
		return nil
	}
	return problemf(kindForbidden, "Only the runtime's own page may use this: open http://127.0.0.1 with the runtime's port in a browser on this computer.")
}

// toLoopback reports whether the request came from this computer, to one of
// its literal loopback names with the port that it came in on.
func toLoopback(r *http.Request) bool {
	host, port := splitHostPort(r)
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && remote.Addr().Unmap().IsLoopback() &&
		local != nil && port == portOf(local) && loopbackHost(host)
}

// authorization is the request's Authorization header; "" when there is not
// exactly one.
func authorization(r *http.Request) string {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// refusedOrigin is the answer to a page that could not be paired, such as one
// in a sandboxed frame, whose Origin is null.
func refusedOrigin(r *http.Request, invalid error) (caller, error) {
	if _, ok := bearerToken(authorization(r)); !ok {
		return caller{}, problemf(kindUnauthenticated, "This needs a token from pairing, and the request's Origin is not one that can be paired: %v", invalid)
	}
	return caller{}, problemf(kindForbidden, "The request's Origin is not one that can be paired: %v", invalid)
}

func (s *server) lookUp(origin principal, authorization string) (caller, error) {
	data, err := s.grants()
	if err != nil {
		return caller{}, err
	}
	p, granted, err := identify(data, origin, authorization)
	if err != nil {
		return caller{}, err
	}
	s.uses.note(p)
	return caller{p, granted}, nil
}

// grants returns what is granted now. When that changed since the last
// request, what revoked sites had running is stopped.
func (s *server) grants() (*stateData, error) {
	data, err := s.state.current()
	if err != nil {
		return nil, err
	}
	if s.lastState.Swap(data) != data {
		s.stopRevoked(data)
	}
	return data, nil
}

// stopRevoked ends the requests of those who may no longer make them, and
// what runs for those who may no longer run it.
func (s *server) stopRevoked(data *stateData) {
	if !s.cfg.requirePairing {
		return
	}
	s.calls.endAll(func(p principal, need scope) bool { return may(data, p, need) })
	s.runs.stopAll(func(r runRecord) bool { return !granted(data, r.Principal).allows(scopeActions) })
	s.sandboxes.stopAll(func(p principal) bool { return !granted(data, p).allows(scopeSandbox) })
	s.kernels.endAll(func(p principal) bool { return !granted(data, p).allows(scopeCode) })
}

// withAccess calls h with a context that ends when the access of c does.
func (s *server) withAccess(ctx context.Context, c caller, need scope, h func(context.Context) error) error {
	if !s.cfg.requirePairing || isLocal(c.principal) {
		return h(ctx)
	}
	ctx, end := s.calls.begin(ctx, c.principal, need)
	defer end()
	// It may have ended before the request was noted.
	data, err := s.state.current()
	if err != nil {
		return err
	}
	if !may(data, c.principal, need) {
		return accessTaken(c.principal)
	}
	err = h(ctx)
	if lost := accessLost(ctx); lost != nil && err != nil {
		return lost
	}
	return err
}

// may reports whether p has the scope need now; any will do for scopeAny.
func may(data *stateData, p principal, need scope) bool {
	has := granted(data, p)
	return has != "" && (need == scopeAny || has.allows(need))
}

// isLocal reports whether p is believed without a token.
func isLocal(p principal) bool { return p == "local" || p.loopback() }

// granted is the scope that p has now.
func granted(data *stateData, p principal) scope {
	if name, ok := strings.CutPrefix(string(p), clientPrincipal); ok {
		return data.Clients[name].Scope
	}
	if isLocal(p) {
		return scopeCode
	}
	return data.Pairings[string(p)].Scope
}
