package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// wantReply waits for an answer made with later and checks its status.
func wantReply(t testing.TB, what string, answer <-chan reply, status int) reply {
	t.Helper()
	r := <-answer
	if r.err != nil || r.status != status {
		t.Fatalf("%s: status %d, %v, %s; want %d", what, r.status, r.err, r.body, status)
	}
	return r
}

// askToPair asks in the background, and returns how to leave before the
// answer.
func (rt *testRuntime) askToPair(origin string, s scope) (answer <-chan reply, leave context.CancelFunc) {
	ctx, leave := context.WithCancel(rt.t.Context())
	result := make(chan reply, 1)
	go func() { // ends with the answer
		result <- site{rt: rt, origin: origin}.call(ctx, "POST", "/pairing/request", map[string]any{"scope": s})
	}()
	return result, leave
}

var questionID = regexp.MustCompile(`(?m)^\[([a-z0-9]+)\] `)

// openIDs are the ids of the open questions, as another terminal is told.
func (rt *testRuntime) openIDs() []string {
	rt.t.Helper()
	out, code := rt.command("approvals")
	if code != 0 {
		rt.t.Fatalf("approvals: status %d, %s", code, out)
	}
	var ids []string
	for _, match := range questionID.FindAllStringSubmatch(out, -1) {
		ids = append(ids, match[1])
	}
	return ids
}

// awaitQuestion waits until the open questions hold a text.
func (rt *testRuntime) awaitQuestion(text string) {
	rt.t.Helper()
	for range 1000 {
		if out, _ := rt.command("approvals"); strings.Contains(out, text) {
			return
		}
	}
	rt.t.Fatalf("no open question holds %q", text)
}

// awaitOpen waits until n questions are open.
func (rt *testRuntime) awaitOpen(n int) []string {
	rt.t.Helper()
	for range 1000 {
		if ids := rt.openIDs(); len(ids) == n {
			return ids
		}
	}
	rt.t.Fatalf("%d questions are open, want %d", len(rt.openIDs()), n)
	return nil
}

func TestOnlyYesTypedAfterTheQuestionApproves(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	from := rt.shown()
	rt.press("y\nyes\n")
	rt.screen.await(t, from, "y\r\nyes\r\n") // the terminal has them
	answer, _ := rt.askToPair("https://early.example", scopeActions)
	_, from = rt.screen.await(t, from, promptPattern)
	if len(rt.openIDs()) != 1 {
		t.Fatal("keys typed before the question answered it")
	}
	rt.press("n\n")
	wantReply(t, "no", answer, http.StatusForbidden)
	for i, c := range []struct {
		keys   string
		status int
	}{
		{"y\n", 200}, {"YES\n", 200}, {" y \n", 200}, {"\n", 403}, {"yep\n", 403}, {"y y\n", 403}, {"ｙ\n", 403}, {"1\n", 403},
		{"n\x7fyes\n", 200}, // corrected with the backspace key
		{"\x04", 403},       // the end of the input
	} {
		answer, _ := rt.askToPair(fmt.Sprintf("https://site%d.example", i), scopeSandbox)
		question := rt.answerNext(from, c.keys)
		from += len(question)
		if r := <-answer; r.status != c.status {
			t.Errorf("%q: status %d, %s; want %d", c.keys, r.status, r.body, c.status)
		}
	}
}

func TestQuestionTellsSiteAndAccessAndComesLast(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	from := rt.shown()
	for _, c := range []struct{ origin, body, access, note string }{
		{"https://course.example", `{"scope":"actions"}`, "actions - this site could run only the named actions of labs you approve one by one", ""},
		{"https://xn--curse-54d.example", `{"scope":"sandbox"}`, "sandbox - this site could run any command, but only inside isolated sandboxes without network or your files", "xn--"},
		{"https://course.example.", "", "code - this site could run ANY Python code on this computer, with your permissions", "ends in a dot"},
		{"https://course.example:8443", "{}", "code - this site could run ANY Python code on this computer, with your permissions", "port 8443"},
	} {
		headers := []string{"Origin: " + c.origin}
		if c.body != "" {
			headers = append(headers, "Content-Type: application/json")
		}
		answer := make(chan reply, 1)
		go func() { answer <- rt.ask("POST", "/pairing/request", c.body, headers...) }()
		question := rt.answerNext(from, "y\n")
		from += len(question)
		r := wantReply(t, c.origin, answer, http.StatusOK)
		got := asJSON[struct{ Origin, Token, Scope string }](t, r)
		if got.Origin != c.origin || !strings.HasPrefix(c.access, got.Scope+" - ") || len(got.Token) != 43 {
			t.Errorf("%s: answer %+v", c.origin, got)
		}
		lines := strings.Split(strings.ReplaceAll(question, "\r", ""), "\n")
		for _, want := range []string{"Site: " + c.origin, "Access: " + c.access} {
			if !strings.Contains(strings.Join(lines, "\n")+"\n", "\n"+want+"\n") {
				t.Errorf("%s: the question lacks the line %q:\n%s", c.origin, want, question)
			}
		}
		if !strings.Contains(question, c.note) || !strings.HasSuffix(question, terminalPrompt) {
			t.Errorf("%s: question:\n%s", c.origin, question)
		}
	}
	list, _ := rt.command("pairing", "list")
	for _, want := range []string{"https://course.example  ", "https://course.example.  ", "https://course.example:8443  "} {
		if !strings.Contains(list, want) {
			t.Errorf("pairing list lacks %q:\n%s", want, list)
		}
	}
}

func TestClientThatLeavesWithdrawsItsQuestion(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	from := rt.shown()
	_, leave := rt.askToPair("https://gone.example", scopeActions)
	_, from = rt.screen.await(t, from, promptPattern)
	leave()
	_, from = rt.screen.await(t, from, "Withdrawn")
	rt.press("y\n")
	if out, _ := rt.command("pairing", "list"); !strings.Contains(out, "No site") {
		t.Errorf("a pairing nobody waited for was saved:\n%s", out)
	}

	// Two ask the same, and only one leaves.
	_, leave = rt.askToPair("https://two.example", scopeActions)
	_, from = rt.screen.await(t, from, promptPattern)
	second, _ := rt.askToPair("https://two.example", scopeActions)
	third, _ := rt.askToPair("https://two.example", scopeActions)
	rt.awaitWaiting(3)
	other := site{rt: rt, origin: "https://two.example"}.want(http.StatusTooManyRequests, "POST", "/pairing/request", map[string]any{"scope": "code"})
	if other.header.Get("Retry-After") == "" {
		t.Errorf("another scope: %v, want Retry-After", other.header)
	}
	leave()
	rt.awaitWaiting(2)
	rt.press("y\n")
	type answer struct{ Token string }
	a, b := wantReply(t, "second", second, 200), wantReply(t, "third", third, 200)
	if one := asJSON[answer](t, a); one.Token == "" || one != asJSON[answer](t, b) {
		t.Errorf("those who joined got %s and %s, want one token", a.body, b.body)
	}
	if strings.Contains(rt.screen.String()[from:], "[") {
		t.Errorf("joined requests were asked about again:\n%s", rt.screen.String()[from:])
	}
}

// awaitWaiting returns once so many requests wait for the open question.
func (rt *testRuntime) awaitWaiting(n int) {
	rt.t.Helper()
	for late := time.Now().Add(patience); time.Now().Before(late); {
		if out, _ := rt.command("approvals"); strings.Contains(out, "waiting: "+counted(n, "request")+"\n") {
			return
		}
	}
	rt.t.Fatalf("there are never %d requests that wait", n)
}

func TestQuestionsAreBoundedAndKnownSitesComeFirst(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	known := rt.pair("https://known.example", scopeActions)
	from := rt.shown()
	for i := range questionsOpen {
		rt.askToPair(fmt.Sprintf("https://stranger%d.example", i), scopeCode)
	}
	rt.awaitOpen(questionsOpen)
	r := site{rt: rt, origin: "https://one-more.example"}.want(http.StatusTooManyRequests, "POST", "/pairing/request", nil)
	if r.header.Get("Retry-After") == "" || r.header.Get("Access-Control-Expose-Headers") == "" {
		t.Errorf("headers %v, want a Retry-After that a page may read", r.header)
	}
	answer := known.later("POST", "/pairing/request", map[string]any{"scope": "code"})
	rt.awaitQuestion("Site: https://known.example") // for which a stranger's had to go
	first := rt.answerNext(from, "n\n")             // the one that was shown already
	second := rt.answerNext(from+len(first), "y\n")
	if !strings.Contains(second, "Site: https://known.example\r\n") {
		t.Errorf("the second question is not the known site's:\n%s", second)
	}
	wantReply(t, "known site", answer, http.StatusOK)

	// One site that asks for ever is one question, and then refused.
	const requests = 100
	replies := make(chan reply, requests)
	for range requests {
		go func() {
			replies <- site{rt: rt, origin: "https://storm.example"}.call(t.Context(), "POST", "/pairing/request", map[string]any{"scope": "code"})
		}()
	}
	for range requests - questionsJoined {
		if r := <-replies; r.status != http.StatusTooManyRequests {
			t.Errorf("status %d, %v, %s; want 429 for all that do not wait", r.status, r.err, r.body)
		}
	}
	for ids := rt.openIDs(); len(ids) > 0; ids = rt.openIDs() {
		rt.command("deny", ids[0])
	}
	for range questionsJoined {
		if r := <-replies; r.status != http.StatusForbidden {
			t.Errorf("status %d, %v, %s; want the answer no for all that waited", r.status, r.err, r.body)
		}
	}
}

func TestSiteIsNotAskedAboutAgainRightAfterANo(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	from := rt.shown()
	answer, _ := rt.askToPair("https://pushy.example", scopeCode)
	question := rt.answerNext(from, "n\n")
	wantReply(t, "no", answer, http.StatusForbidden)
	for _, s := range []scope{scopeCode, scopeActions} {
		r := site{rt: rt, origin: "https://pushy.example"}.want(http.StatusTooManyRequests, "POST", "/pairing/request", map[string]any{"scope": s})
		if r.header.Get("Retry-After") == "" {
			t.Errorf("no Retry-After: %v", r.header)
		}
	}
	answer, _ = rt.askToPair("https://patient.example", scopeCode)
	if next := rt.answerNext(from+len(question), "y\n"); strings.Contains(next, "pushy") {
		t.Errorf("it was asked again:\n%s", next)
	}
	wantReply(t, "another site", answer, http.StatusOK)
}

func TestOriginsThatCannotBePairedAskNobody(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	for _, origin := range []string{
		"null", "file://", "chrome-extension://x", "https://", "*", "course.example", "http://course.example", "http://localhost.example.com",
		"https://course.example/", "https://course.example/path", "https://user@course.example", "https://course.example?x", "https://course.example#x",
		"https://cоurse.example", "https://course.example:0", "https://course.example:99999", "https://[::1", "https://a b.example",
		"https://course.example, https://other.example", "javascript:alert(1)", "https://course.example\x1b[2J",
	} {
		r := rt.ask("POST", "/pairing/request", "", "Origin: "+origin)
		// A control character never gets past the HTTP server itself.
		if r.status != http.StatusBadRequest {
			t.Errorf("%q: status %d, %s; want 400", origin, r.status, r.body)
		}
	}
	if r := rt.ask("POST", "/pairing/request", ""); r.status != http.StatusBadRequest || r.detail() == "" {
		t.Errorf("no origin: status %d, %s", r.status, r.body)
	}
	if r := rt.ask("POST", "/pairing/request", "", "Origin: https://a.example", "Origin: https://b.example"); r.status != http.StatusBadRequest {
		t.Errorf("two origins: status %d, %s", r.status, r.body)
	}
	if ids := rt.openIDs(); len(ids) != 0 || strings.Contains(rt.screen.String(), "Allow?") {
		t.Errorf("somebody was asked:\n%s", rt.screen)
	}
}

func TestUnansweredPairingExpires(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t, withEnv("AGENT_RUNTIME_PAIRING_TIMEOUT=1"))
	answer, _ := rt.askToPair("https://course.example", scopeActions)
	r := wantReply(t, "unanswered", answer, http.StatusGone)
	if r.detail() == "" {
		t.Errorf("body %s", r.body)
	}
	rt.screen.await(t, 0, "Nobody answered")
	rt.press("y\n")
	if out, _ := rt.command("pairing", "list"); !strings.Contains(out, "No site") {
		t.Errorf("a late yes was taken:\n%s", out)
	}
}

func TestQuestionsAreAnsweredFromAnotherTerminal(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]runtimeOption{
		"of a runtime without a terminal": withoutTerminal(),
		"of one with a terminal":          withEnv(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := startRuntime(t, option)
			yes, _ := rt.askToPair("https://yes.example", scopeActions)
			id := rt.awaitOpen(1)[0]
			out, _ := rt.command("approvals")
			for _, want := range []string{"Site: https://yes.example\n", "Access: actions - this site could run only the named actions", "agent-runtime approve " + id} {
				if !strings.Contains(out, want) {
					t.Errorf("approvals lacks %q:\n%s", want, out)
				}
			}
			if out, code := rt.command("approve", "zzzzz"); code != exitFailed || !strings.Contains(out, "zzzzz") {
				t.Errorf("unknown id: status %d, %s", code, out)
			}
			if out, code := rt.command("approve", id); code != exitDone {
				t.Errorf("approve: status %d, %s", code, out)
			}
			wantReply(t, "approved", yes, http.StatusOK)
			no, _ := rt.askToPair("https://no.example", scopeActions)
			if out, code := rt.command("deny", rt.awaitOpen(1)[0]); code != exitDone {
				t.Errorf("deny: status %d, %s", code, out)
			}
			wantReply(t, "denied", no, http.StatusForbidden)
			if out, code := rt.command("deny", id); code != exitFailed {
				t.Errorf("deny what was answered: status %d, %s", code, out)
			}
			list, _ := rt.command("pairing", "list")
			if !strings.Contains(list, "https://yes.example") || strings.Contains(list, "https://no.example") {
				t.Errorf("pairing list:\n%s", list)
			}
			want := "Allowed from another terminal"
			if rt.keys == nil {
				want = "Question " + id + " from https://yes.example"
			}
			rt.screen.await(t, 0, want)
		})
	}
}

func TestPairingAgainReplacesTheToken(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	first := rt.pair("https://course.example", scopeCode)
	second := rt.pair("https://course.example", scopeActions)
	first.want(http.StatusForbidden, "GET", "/runtime/whoami", nil)
	r := second.want(http.StatusOK, "GET", "/runtime/whoami", nil)
	if !strings.Contains(string(r.body), `"scope":"actions"`) {
		t.Errorf("whoami: %s", r.body)
	}
	data, err := os.ReadFile(rt.dir + "/" + stateFile)
	if err != nil || strings.Contains(string(data), second.token) || !strings.Contains(string(data), hashToken(second.token)) {
		t.Errorf("the state file holds more of the token than its hash: %v\n%s", err, data)
	}
}
