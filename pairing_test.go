package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// pairingFixture is a pairings service whose person is the test.
type pairingFixture struct {
	*pairings
	logged *logBuffer
}

func newPairingFixture(t *testing.T) pairingFixture {
	t.Helper()
	state, logged := newTestState(t, t.TempDir())
	return pairingFixture{newPairings(state, newQuestions(8, time.Minute), state.log), logged}
}

type pairingResult struct {
	token secretToken
	err   error
}

// start requests a pairing in the background.
func (f pairingFixture) start(ctx context.Context, origin principal, s scope) <-chan pairingResult {
	result := make(chan pairingResult, 1)
	go func() { // ends with the answer or ctx
		tok, err := f.request(ctx, origin, s)
		result <- pairingResult{tok, err}
	}()
	return result
}

// person answers the next question.
func (f pairingFixture) person(t *testing.T, yes bool) question {
	t.Helper()
	open, err := f.questions.next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.questions.answer(open.id, yes); err != nil {
		t.Fatal(err)
	}
	return open.question
}

func (f pairingFixture) pair(t *testing.T, origin principal, s scope) secretToken {
	t.Helper()
	result := f.start(t.Context(), origin, s)
	f.person(t, true)
	got := <-result
	if got.err != nil {
		t.Fatalf("pair %s: %v", origin, got.err)
	}
	return got.token
}

func TestPairingQuestionNamesSiteAndAccess(t *testing.T) {
	t.Parallel()
	f := newPairingFixture(t)
	result := f.start(t.Context(), testSite, scopeActions)
	what := f.person(t, false)
	wantKind(t, "declined", (<-result).err, kindForbidden)
	for _, want := range []string{
		"Site: " + testSite,
		"Access: actions - this site could run only the named actions of labs you approve one by one",
	} {
		if !slices.Contains(what.body, want) {
			t.Errorf("question %q lacks %q", what.body, want)
		}
	}
	if !what.stranger {
		t.Error("an unpaired site is not taken for a stranger")
	}
	if got := grants(mustCurrent(t, f.state)); got != 0 {
		t.Errorf("after a no %d grants are saved", got)
	}
}

func TestPairingIsSavedAsAHashAndReplacesTheOldOne(t *testing.T) {
	t.Parallel()
	f := newPairingFixture(t)
	first := f.pair(t, testSite, scopeCode)
	second := f.pair(t, testSite, scopeActions)
	if bits, err := base64.RawURLEncoding.DecodeString(first.reveal()); err != nil || len(bits) != 32 || first == second {
		t.Errorf("tokens %q, %q, want two of 256 bits", first.reveal(), second.reveal())
	}
	granted := mustCurrent(t, f.state)
	if who, s, err := identify(granted, testSite, "Bearer "+second.reveal()); who != testSite || s != scopeActions || err != nil {
		t.Errorf("new token: %q, %q, %v", who, s, err)
	}
	_, _, err := identify(granted, testSite, "Bearer "+first.reveal())
	wantKind(t, "replaced token", err, kindForbidden)
	content, err := os.ReadFile(f.state.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(content), f.logged.String()} {
		if strings.Contains(text, first.reveal()) || strings.Contains(text, second.reveal()) {
			t.Errorf("a token is in %q", text)
		}
	}
}

func TestJoinedPairingRequestsGetTheSameToken(t *testing.T) {
	t.Parallel()
	f := newPairingFixture(t)
	first := f.start(t.Context(), testSite, scopeActions)
	open, err := f.questions.next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := f.start(t.Context(), testSite, scopeActions)
	wantKind(t, "another scope meanwhile", (<-f.start(t.Context(), testSite, scopeCode)).err, kindTooMany)
	for joined := 1; joined < 2; {
		f.questions.mu.Lock()
		joined = open.callers
		f.questions.mu.Unlock()
	}
	f.person(t, true)
	a, b := <-first, <-second
	if a.err != nil || b.err != nil || a.token != b.token {
		t.Errorf("errors %v, %v; equal tokens: %v", a.err, b.err, a.token == b.token)
	}
}

func TestPairingOfAPageThatLeftIsNotSaved(t *testing.T) {
	t.Parallel()
	f := newPairingFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	result := f.start(ctx, testSite, scopeCode)
	open, err := f.questions.next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = f.questions.answer(open.id, true)
	if got := <-result; !errors.Is(got.err, context.Canceled) || got.token != (secretToken{}) {
		t.Errorf("request = %v", got.err)
	}
	if got := grants(mustCurrent(t, f.state)); got != 0 {
		t.Errorf("%d grants are saved, want none", got)
	}
}

func TestPairingThatCannotBeSavedIsAnError(t *testing.T) {
	t.Parallel()
	f := newPairingFixture(t)
	if err := os.RemoveAll(filepath.Dir(f.state.path)); err != nil {
		t.Fatal(err)
	}
	result := f.start(t.Context(), testSite, scopeCode)
	f.person(t, true)
	if got := <-result; got.err == nil || got.token != (secretToken{}) {
		t.Errorf("request = %v, want an error and no token", got.err)
	}
}

func TestTokensAreBoundToTheirHolder(t *testing.T) {
	t.Parallel()
	f := newPairingFixture(t)
	const other principal = "https://other.example.org"
	site, others := f.pair(t, testSite, scopeActions).reveal(), f.pair(t, other, scopeCode).reveal()
	made, err := createClient(f.state, "editor", scopeSandbox)
	if err != nil {
		t.Fatal(err)
	}
	client := made.reveal()
	granted := mustCurrent(t, f.state)
	for name, c := range map[string]struct {
		origin principal
		header string
		want   principal
		scope  scope
		kind   kind
	}{
		"page":                     {testSite, "Bearer " + site, testSite, scopeActions, 0},
		"scheme in small letters":  {testSite, "bearer  " + site, testSite, scopeActions, 0},
		"local program":            {"", "Bearer " + client, "local:editor", scopeSandbox, 0},
		"nothing":                  {testSite, "", "", "", kindUnauthenticated},
		"nothing, local":           {"", "", "", "", kindUnauthenticated},
		"no scheme":                {testSite, site, "", "", kindUnauthenticated},
		"other scheme":             {testSite, "Basic " + site, "", "", kindUnauthenticated},
		"scheme only":              {testSite, "Bearer ", "", "", kindUnauthenticated},
		"two tokens":               {testSite, "Bearer " + site + " " + site, "", "", kindUnauthenticated},
		"wrong token":              {testSite, "Bearer x", "", "", kindForbidden},
		"hash as token":            {testSite, "Bearer " + hashToken(site), "", "", kindForbidden},
		"token of another origin":  {testSite, "Bearer " + others, "", "", kindForbidden},
		"unpaired origin":          {"https://x.example.org", "Bearer " + site, "", "", kindForbidden},
		"origin with a suffix":     {testSite + ".example.net", "Bearer " + site, "", "", kindForbidden},
		"local token of a page":    {testSite, "Bearer " + client, "", "", kindForbidden},
		"page token without page":  {"", "Bearer " + site, "", "", kindUnauthenticated},
		"wrong token without page": {"", "Bearer x", "", "", kindForbidden},
	} {
		who, s, err := identify(granted, c.origin, c.header)
		if who != c.want || s != c.scope || (err == nil) != (c.kind == 0) {
			t.Errorf("%s: %q, %q, %v, want %q, %q", name, who, s, err, c.want, c.scope)
		}
		if err != nil {
			wantKind(t, name, err, c.kind)
			if strings.Contains(err.Error(), site) || strings.Contains(err.Error(), client) {
				t.Errorf("%s: the error holds a token", name)
			}
		}
	}
}

func TestRevokedTokensOpenNothing(t *testing.T) {
	t.Parallel()
	f := newPairingFixture(t)
	site := f.pair(t, testSite, scopeCode)
	client, err := createClient(f.state, "editor", scopeActions)
	if err != nil {
		t.Fatal(err)
	}
	_, err = createClient(f.state, "editor", scopeCode)
	wantKind(t, "same name", err, kindConflict)
	for _, err := range []error{revokePairing(f.state, testSite), revokeClient(f.state, "editor")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	granted := mustCurrent(t, f.state)
	_, _, err = identify(granted, testSite, "Bearer "+site.reveal())
	wantKind(t, "revoked site", err, kindForbidden)
	_, _, err = identify(granted, "", "Bearer "+client.reveal())
	wantKind(t, "revoked client", err, kindForbidden)
	wantKind(t, "revoke again", revokePairing(f.state, testSite), kindNotFound)
	wantKind(t, "revoke again", revokeClient(f.state, "editor"), kindNotFound)
}

func TestClientNamesFollowTheRule(t *testing.T) {
	t.Parallel()
	f := newPairingFixture(t)
	for name, valid := range map[string]bool{
		"a": true, "0-b_c": true, strings.Repeat("x", 40): true,
		"": false, "-a": false, "A": false, "a b": false, "a\n": false, "é": false, strings.Repeat("x", 41): false,
	} {
		_, err := createClient(f.state, name, scopeCode)
		if valid != (err == nil) || err != nil && !isKind(err, kindInvalid) {
			t.Errorf("name %q: %v, valid is %v", name, err, valid)
		}
	}
}

func TestTokenDoesNotPrintItself(t *testing.T) {
	t.Parallel()
	tok := newToken()
	var text bytes.Buffer
	slog.New(slog.NewJSONHandler(&text, nil)).Info("x", "token", tok, "in", []any{tok}, "at", &tok)
	fmt.Fprintf(&text, "%v %+v %#v %s %q", tok, tok, tok, tok, &tok)
	encoded, _ := json.Marshal(map[string]any{"token": tok})
	text.Write(encoded)
	if strings.Contains(text.String(), tok.reveal()) {
		t.Errorf("the token is in %s", &text)
	}
}
