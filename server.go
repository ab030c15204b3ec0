package main

// The HTTP side of the runtime between the connection and the handler: which
// Host is heard, which Origin may read the answer, limits on connections.
// What is served stands in the table of routes.

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	headerLimit    = 32 << 10         // bytes of a request's header
	bodyTimeout    = 30 * time.Second // from the header to the body's end
	writeTimeout   = 60 * time.Second // for a client to take a piece of an answer; a body nobody reads comes first
	bodyLimit      = 1 << 20          // bytes of a body, where a route says no other limit
	bodyAhead      = 2 << 20          // bytes that a body's announced length alone gets memory for
	preflightCache = 10 * time.Minute

	// connectionLimit is how many connections may be open. Above it the one
	// that has been idle longest is closed for a new one.
	connectionLimit = 512
)

// server is what handlers work with. Its fields are set before it serves.
type server struct {
	cfg       config
	version   string
	log       *slog.Logger
	state     *stateStore
	questions *questions
	pairings  *pairings
	labs      *labs
	runs      *runs
	kernels   *kernels
	envs      *environments
	sandboxes *sandboxes
	uses      *lastUses
	doctor    *recent[diagnosis]
	sizes     *recent[diskUse]

	capabilities []string        // what this machine can serve, sandboxes aside
	addresses    func() []string // that pages can use now, the first to try first
	shutdown     context.Context // ends when the program is asked to end
	lastState    atomic.Pointer[stateData]
	calls        calls
	cellReaders  cellReaders
}

// hostAllowed reports whether the request names this runtime: a literal
// loopback address or localhost with the port it came in on, or a configured
// host. Anything else may be a page's own name pointed at loopback.
func (s *server) hostAllowed(r *http.Request) bool {
	host, port := splitHostPort(r)
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	onOurPort := local == nil || port == portOf(local)
	for _, allowed := range s.cfg.allowedHosts {
		if strings.EqualFold(r.Host, allowed) || strings.EqualFold(host, allowed) && onOurPort {
			return true
		}
	}
	return onOurPort && (loopbackHost(host) || strings.EqualFold(strings.Trim(host, "[]"), s.cfg.host))
}

// splitHostPort takes a Host header apart. IPv6 addresses keep their
// brackets; a port that is not given is that of the scheme.
func splitHostPort(r *http.Request) (host, port string) {
	i := strings.LastIndexByte(r.Host, ':')
	switch {
	case i >= 0 && !strings.HasSuffix(r.Host, "]"):
		return r.Host[:i], r.Host[i+1:]
	case r.TLS != nil:
		return r.Host, "443"
	}
	return r.Host, "80"
}

func portOf(addr net.Addr) string {
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return ""
	}
	return port
}

// setCORS lets pages read the answer, errors included. It is transport, not
// authority: who may do what is decided elsewhere.
func setCORS(h http.Header, r *http.Request) {
	origin := r.Header.Get("Origin")
	if strings.HasPrefix(origin, "http://") || strings.HasPrefix(origin, "https://") {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "Retry-After")
	}
}

// answerPreflight tells a browser what the page may send. It does nothing.
func answerPreflight(w http.ResponseWriter, r *http.Request, methods []string) {
	h := w.Header()
	h.Set("Allow", strings.Join(methods, ", "))
	if h.Get("Access-Control-Allow-Origin") != "" {
		h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers, Access-Control-Request-Private-Network")
		h.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
		if headers := r.Header.Get("Access-Control-Request-Headers"); headers != "" {
			h.Set("Access-Control-Allow-Headers", headers)
		}
		if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
		h.Set("Access-Control-Max-Age", strconv.Itoa(int(preflightCache.Seconds())))
	}
	w.WriteHeader(http.StatusNoContent)
}

// newHTTPServer serves h over HTTP/1 with bounded headers and connections.
// There is no limit on how long an answer takes: some wait for a person.
func newHTTPServer(base context.Context, h http.Handler, log *slog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	limiter := &connLimiter{idle: make(map[net.Conn]time.Time)}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerLimit,
		Protocols:         &protocols,

		DisableGeneralOptionsHandler: true, // "OPTIONS *" goes the way of all requests
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnContext:                  withPeer,
		ConnState:                    limiter.note,
	}
}

// connLimiter closes connections that wait for a request when there are too
// many connections in all.
type connLimiter struct {
	mu   sync.Mutex // guards the rest
	open int
	idle map[net.Conn]time.Time // since when it waits for a request
}

func (l *connLimiter) note(conn net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateNew:
		l.open++
		if l.open > connectionLimit {
			l.closeOldestLocked(conn)
		}
		l.idle[conn] = time.Now()
	case http.StateIdle:
		l.idle[conn] = time.Now()
	case http.StateActive:
		delete(l.idle, conn)
	case http.StateClosed, http.StateHijacked:
		l.open--
		delete(l.idle, conn)
	}
}

// closeOldestLocked closes the connection that waits longest; the new one
// itself when all others are busy.
func (l *connLimiter) closeOldestLocked(fresh net.Conn) {
	oldest := fresh
	for conn, since := range l.idle {
		if oldest == fresh || since.Before(l.idle[oldest]) {
			oldest = conn
		}
	}
	delete(l.idle, oldest)
	_ = oldest.Close()
}
