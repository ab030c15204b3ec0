package main

// How the MCP server calls the runtime: as any local program does, over
// loopback with a token of its own and without an Origin. What the runtime
// refuses becomes a sentence that says what the person can do about it.

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

const (
	clientDialTime = 5 * time.Second
	// clientAnswerLimit is how many bytes of an answer are read: a cell's, whose
	// output of 64 MB stands in it twice, may be the largest.
	clientAnswerLimit = 256 << 20
	// clientRefusalLimit is how many bytes of a refusal are read.
	clientRefusalLimit = 64 << 10
)

// runtimeClient calls a running runtime.
type runtimeClient struct {
	base  string // http://127.0.0.1:9477
	token secretToken
	web   *http.Client
}

// newRuntimeClient returns a client for the runtime at address, which must be
// on this computer: the token goes there. An https address must prove itself
// with one of the certificates; nil stands for none.
func newRuntimeClient(address string, token secretToken, certificates *x509.CertPool) (*runtimeClient, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Opaque != "" ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || !loopbackHost(u.Hostname()) {
		return nil, problemf(kindUnacceptable, "%q is not the address of a runtime on this computer: it must be like http://127.0.0.1:9477, "+
			"with localhost or a loopback address, since the token is sent there.", visible(address))
	}
	if certificates == nil {
		certificates = x509.NewCertPool()
	}
	dialer := &net.Dialer{Timeout: clientDialTime, Control: loopbackOnly}
	return &runtimeClient{
		base: u.Scheme + "://" + u.Host, token: token,
		web: &http.Client{
			// Neither a proxy nor a redirect leads the token elsewhere.
			Transport: &http.Transport{
				Proxy: nil, DialContext: dialer.DialContext,
				TLSClientConfig: &tls.Config{RootCAs: certificates},
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// loopbackOnly refuses an address of another computer, which a name such as
// localhost may be given by whoever set up this one.
func loopbackOnly(_, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil || !addr.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s is not on this computer", address)
	}
	return nil
}

// close ends the connections that nobody uses.
func (c *runtimeClient) close() { c.web.CloseIdleConnections() }

// refusal is why the runtime did not do what it was asked for.
type refusal struct {
	status int
	detail string
}

func (r *refusal) Error() string { return r.detail }

// call makes a request that needs a scope. A body that is not nil is sent as
// JSON, and the answer is read into answer unless that is nil.
func (c *runtimeClient) call(ctx context.Context, need scope, method, path string, body, answer any) error {
	reply, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode/100 != 2 {
		return c.refused(ctx, need, reply)
	}
	if answer == nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(reply.Body, clientAnswerLimit+1))
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return c.unreachable("ended the connection in the middle of an answer", err)
	case len(data) > clientAnswerLimit:
		return problemf(kindTooLarge, "The runtime's answer is larger than %d MB, which is more than is read at once.", clientAnswerLimit>>20)
	case !isJSON(reply) || json.Unmarshal(data, answer) != nil:
		return c.stranger()
	}
	return nil
}

func (c *runtimeClient) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode a request: %w", err)
		}
		content = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token.reveal() != "" {
		r.Header.Set("Authorization", "Bearer "+c.token.reveal())
	}
	reply, err := c.web.Do(r)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil {
		return reply, nil
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return nil, problemf(kindUnreachable, "What answers at %s does not have the certificate of this data folder: "+
			"use the runtime's http address instead.", c.base).because(err)
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return nil, c.unreachable("does not answer", err)
	}
	return nil, c.unreachable("ended the connection without an answer", err)
}

// unreachable is told with its cause: an agent sees no log.
func (c *runtimeClient) unreachable(how string, err error) error {
	return problemf(kindUnreachable, "The runtime at %s %s. Start it with `agent-runtime serve`, and set AGENT_RUNTIME_URL or --url "+
		"where it listens elsewhere. The cause: %v.", c.base, how, err)
}

func (c *runtimeClient) stranger() error {
	return problemf(kindUnreachable, "What answers at %s is not agent-runtime. Start it with `agent-runtime serve`, and set "+
		"AGENT_RUNTIME_URL or --url to the address that it names.", c.base)
}

func isJSON(reply *http.Response) bool {
	kind, _, err := mime.ParseMediaType(reply.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// refused reads why a request was refused. A token that is not good, or whose
// scope is too narrow, is told with the commands that help.
func (c *runtimeClient) refused(ctx context.Context, need scope, reply *http.Response) error {
	var body problemBody
	data, err := io.ReadAll(io.LimitReader(reply.Body, clientRefusalLimit))
	if err != nil || !isJSON(reply) || json.Unmarshal(data, &body) != nil || body.Detail == "" {
		return c.stranger()
	}
	r := &refusal{reply.StatusCode, toolWords().Replace(body.Detail)}
	if after := reply.Header.Get("Retry-After"); after != "" {
		r.detail += " Try again in " + after + " seconds."
	}
	switch reply.StatusCode {
	case http.StatusUnauthorized:
		return c.tokenRefused(need)
	case http.StatusForbidden:
		return c.forbidden(ctx, need, r)
	}
	return r
}

// toolWords turns the routes that a refusal advises into the tools that use them.
func toolWords() *strings.Replacer {
	return strings.NewReplacer(
		"POST /labs/prepare", "prepare_lab",
		"GET /labs/runs lists those there are", "list_labs lists the last ones",
		"create it with: agent-runtime env create", "run_python makes it, and so does: agent-runtime env create",
	)
}

// forbidden finds out whether it is the caller that is refused, or only what
// it asked for, which r says.
func (c *runtimeClient) forbidden(ctx context.Context, need scope, r *refusal) error {
	reply, err := c.send(ctx, http.MethodGet, "/runtime/whoami", nil)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	var who whoamiAnswer
	data, err := io.ReadAll(io.LimitReader(reply.Body, clientRefusalLimit))
	if err != nil || json.Unmarshal(data, &who) != nil {
		return c.stranger()
	}
	switch {
	case reply.StatusCode == http.StatusForbidden || reply.StatusCode == http.StatusUnauthorized:
		return c.tokenRefused(need)
	case who.Scope.allows(need):
		return r
	}
	name := visible(strings.TrimPrefix(string(who.Principal), clientPrincipal))
	return &refusal{http.StatusForbidden, fmt.Sprintf("This needs the scope %q, and the token of %s has the scope %q. "+
		"The person at the computer can widen it with `agent-runtime token revoke %s` and `agent-runtime token create %s --scope %s`, "+
		"and then give the new token to this program.", need, name, who.Scope, name, name, wideScope(who.Scope, need))}
}

// wideScope is the narrowest scope that allows what had allowed and need.
func wideScope(had, need scope) scope {
	if need.allows(had) {
		return need
	}
	return scopeCode
}

// tokenRefused says how to get a token with the scope.
func (c *runtimeClient) tokenRefused(need scope) error {
	what := "The runtime does not know the token that it was given"
	if c.token.reveal() == "" {
		what = "The runtime wants a token, and there is none"
	}
	return &refusal{http.StatusUnauthorized, fmt.Sprintf("%s. The person at the computer can make one with "+
		"`agent-runtime token create NAME --scope %s`, and give it to this program in AGENT_RUNTIME_TOKEN, or in a file named with --token-file.", what, need)}
}
