package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// clientPrincipal starts the principal of a local program: "local:NAME".
const clientPrincipal = "local:"

// secretToken is a secret that lets its holder in. It does not print itself.
type secretToken struct{ secret string }

// newToken makes one with 256 bits of randomness, safe in a URL.
func newToken() secretToken {
	bits := make([]byte, 32)
	_, _ = rand.Read(bits) // never fails
	return secretToken{base64.RawURLEncoding.EncodeToString(bits)}
}

// reveal is the secret, for the one who is to get it.
func (t secretToken) reveal() string { return t.secret }

func (t secretToken) String() string       { return "[token]" }
func (t secretToken) GoString() string     { return "[token]" }
func (t secretToken) LogValue() slog.Value { return slog.StringValue("[token]") }
func (t secretToken) hash() string         { return hashToken(t.secret) }
func (t secretToken) opens(hash string) bool {
	return subtle.ConstantTimeCompare([]byte(t.hash()), []byte(hash)) == 1
}

// hashToken is what is stored of a token: its SHA-256 in hexadecimal.
func hashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// pairings lets web pages in, one origin at a time, when the person says so.
type pairings struct {
	state     *stateStore
	questions *questions
	log       *slog.Logger
}

func newPairings(state *stateStore, q *questions, log *slog.Logger) *pairings {
	return &pairings{state: state, questions: q, log: log}
}

// request asks the person whether the pages of origin may have the scope s,
// and returns the token for them, which replaces the one they had. Requests
// for the same at once get the same token. Nothing is saved when all of them
// have left by the time of the answer.
func (p *pairings) request(ctx context.Context, origin principal, s scope) (secretToken, error) {
	granted, err := p.state.current()
	if err != nil {
		return secretToken{}, err
	}
	_, known := granted.Pairings[string(origin)]
	secret, err := p.questions.askFor(ctx, question{
		// Without the scope: a site has one pairing question open, and a no to
		// one scope is no reason to ask for another at once.
		key:       "pair " + string(origin),
		principal: origin,
		stranger:  !known,
		title:     "A web page asks to use this computer",
		body:      pairingText(origin, s),
		grant:     func() (string, error) { return p.save(origin, s) },
	})
	return secretToken{secret}, err
}

// pairingText is what the person reads about a request.
func pairingText(origin principal, s scope) []string {
	lines := []string{"Site: " + visible(string(origin))}
	for _, note := range originNotes(origin) {
		lines = append(lines, "Note: "+visible(note))
	}
	return append(lines, fmt.Sprintf("Access: %s - this site could %s", s, s.text()))
}

func (p *pairings) save(origin principal, s scope) (string, error) {
	t := newToken()
	err := p.state.update(func(d *stateData) error {
		d.Pairings[string(origin)] = pairing{TokenHash: t.hash(), Scope: s, PairedAt: time.Now().UTC()}
		return nil
	})
	if err != nil {
		return "", err
	}
	p.log.Info("paired", "origin", string(origin), "scope", string(s))
	return t.reveal(), nil
}

// revokePairing ends the pairing of origin, with all that it had approved.
func revokePairing(state *stateStore, origin principal) error {
	return state.update(func(d *stateData) error {
		if _, ok := d.Pairings[string(origin)]; !ok {
			return problemf(kindNotFound, "No site %q is paired: `agent-runtime pairing list` shows those that are.",
				visible(string(origin)))
		}
		delete(d.Pairings, string(origin))
		d.forget(func(p principal, _ string) bool { return p == origin })
		return nil
	})
}

// createClient lets the local program name in with the scope s, and returns
// its token, which is stored nowhere.
func createClient(state *stateStore, name string, s scope) (secretToken, error) {
	if !clientNamePattern.MatchString(name) {
		return secretToken{}, problemf(kindInvalid, "%q is no name for a token: use 1 to 40 small letters, digits, - and _, "+
			"starting with a letter or digit.", visible(name))
	}
	t := newToken()
	err := state.update(func(d *stateData) error {
		if _, ok := d.Clients[name]; ok {
			return problemf(kindConflict, "There is a token named %q already: revoke it first, or choose another name.", name)
		}
		d.Clients[name] = localClient{TokenHash: t.hash(), Scope: s, CreatedAt: time.Now().UTC()}
		return nil
	})
	if err != nil {
		return secretToken{}, err
	}
	return t, nil
}

// revokeClient ends what createClient began.
func revokeClient(state *stateStore, name string) error {
	return state.update(func(d *stateData) error {
		if _, ok := d.Clients[name]; !ok {
			return problemf(kindNotFound, "There is no token named %q: `agent-runtime token list` shows those there are.",
				visible(name))
		}
		delete(d.Clients, name)
		d.forget(func(p principal, _ string) bool { return p == principal(clientPrincipal+name) })
		return nil
	})
}

// bearerToken takes the token out of an Authorization header, and reports
// whether there is one.
func bearerToken(authorization string) (secret string, ok bool) {
	scheme, secret, found := strings.Cut(authorization, " ")
	secret = strings.TrimLeft(secret, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || secret == "" || strings.ContainsAny(secret, " \t,") {
		return "", false
	}
	return secret, true
}

// identify tells who sends the token in an Authorization header, from a page
// of origin or, when origin is empty, from none, and what that one may use.
// It knows only callers with a token: who needs none is not its business.
func identify(granted *stateData, origin principal, authorization string) (principal, scope, error) {
	secret, ok := bearerToken(authorization)
	if !ok {
		return "", "", problemf(kindUnauthenticated,
			"This needs a token: send it in the header \"Authorization: Bearer TOKEN\"; a page gets one by pairing.")
	}
	t := secretToken{secret}
	if origin == "" {
		return identifyClient(granted, t)
	}
	if p, ok := granted.Pairings[string(origin)]; ok && t.opens(p.TokenHash) {
		return origin, p.Scope, nil
	}
	return "", "", problemf(kindForbidden, "The token is not valid for this site: pair it again.")
}

func identifyClient(granted *stateData, t secretToken) (principal, scope, error) {
	for name, c := range granted.Clients {
		if t.opens(c.TokenHash) {
			return principal(clientPrincipal + name), c.Scope, nil
		}
	}
	for _, p := range granted.Pairings {
		if t.opens(p.TokenHash) {
			return "", "", problemf(kindUnauthenticated,
				"This token is a web page's, and the request has no Origin: a local program needs a token of its own, "+
					"made with `agent-runtime token create NAME`.")
		}
	}
	return "", "", problemf(kindForbidden, "The token is not valid: make one with `agent-runtime token create NAME`.")
}
