package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestRuntimeStartsWithDamagedStateAndGrantsNothing(t *testing.T) {
	t.Parallel()
	grant := `{"token_hash":"` + hashToken("secret") + `","scope":"code","paired_at":"2026-01-01T00:00:00Z"}`
	for name, content := range map[string]string{
		"empty": "", "cut": `{"version":1,"pairings":{"https://a.example":` + grant, "zeros": strings.Repeat("\x00", 4096), "list": "[]",
		"wrong types":    `{"version":1,"pairings":[]}`,
		"more after it":  `{"version":1,"pairings":{"https://a.example":` + grant + `}} {}`,
		"later version":  `{"version":2,"pairings":{"https://a.example":` + grant + `}}`,
		"null origin":    `{"version":1,"pairings":{"null":` + grant + `}}`,
		"unknown scope":  `{"version":1,"pairings":{"https://a.example":` + strings.Replace(grant, "code", "root", 1) + `}}`,
		"unknown member": `{"version":1,"expires":"2020-01-01","pairings":{"https://a.example":` + grant + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			writeTestFile(t, filepath.Join(dir, stateFile), content)
			rt := startRuntime(t, withDir(dir))
			site{rt: rt, origin: "https://a.example", token: "secret"}.want(http.StatusForbidden, "GET", "/runtime/whoami", nil)
			rt.screen.await(t, 0, "the state file was damaged and is kept under another name")
			kept, err := filepath.Glob(filepath.Join(dir, stateFile+".damaged-*"))
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept %v, %v", kept, err)
			}
			if data, err := os.ReadFile(kept[0]); err != nil || string(data) != content {
				t.Errorf("kept %q, %v; want what was there", data, err)
			}
		})
	}
}

func TestRunningRuntimeGrantsNothingWhileStateIsDamaged(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	page := rt.pair("https://course.example", scopeActions)
	path := filepath.Join(rt.dir, stateFile)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	from := rt.shown()
	writeTestFile(t, path, string(good[:len(good)/2]))
	page.want(http.StatusForbidden, "GET", "/runtime/whoami", nil)
	rt.screen.await(t, from, "the state file is damaged")
	writeTestFile(t, path, string(good))
	page.want(http.StatusOK, "GET", "/runtime/whoami", nil)
	writeTestFile(t, path, "{")
	again := rt.pair("https://again.example", scopeActions) // a change sets the damaged one aside
	again.want(http.StatusOK, "GET", "/runtime/whoami", nil)
	page.want(http.StatusForbidden, "GET", "/runtime/whoami", nil)
	if kept, _ := filepath.Glob(path + ".damaged-*"); len(kept) != 1 {
		t.Errorf("kept %v, want the damaged file", kept)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	again.want(http.StatusForbidden, "GET", "/runtime/whoami", nil)
}

func TestPeopleOfAnEarlierVersionKeepWhatTheyGranted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	git := newGitServer(t)
	repo, commit := git.addRepo("hello.git", map[string]string{"lab.toml": helloLab})
	m, findings := parseManifest([]byte(helloLab))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	encode := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	writeTestFile(t, filepath.Join(dir, "paired_origins.json"), encode(map[string]any{
		"https://course.example": map[string]any{"paired_at": "2025-03-04T05:06:07+00:00", "token_hash": hashToken("one"), "scope": "actions"},
		"https://old.example":    map[string]any{"paired_at": 1700000000.5, "token_hash": hashToken("two")},
		"null":                   map[string]any{"paired_at": "x", "token_hash": hashToken("three")},
	}))
	writeTestFile(t, filepath.Join(dir, "labs", "approvals.json"), encode(map[string]any{
		"https://course.example " + repo + " " + commit: map[string]any{"manifest_sha256": m.sha256, "approved_at": "2025-03-04T05:06:07Z"},
	}))
	rt := startRuntime(t, withDir(dir), withGit(git), withPython(quickPython(t, "")))
	page := site{rt: rt, origin: "https://course.example", token: "one"}
	page.want(http.StatusOK, "POST", "/labs/prepare", map[string]string{"repo": repo, "commit": commit}) // asks nobody
	old := site{rt: rt, origin: "https://old.example", token: "two"}.want(http.StatusOK, "GET", "/runtime/whoami", nil)
	if !strings.Contains(string(old.body), `"scope":"code"`) {
		t.Errorf("a pairing without a scope is %s, want code", old.body)
	}
	site{rt: rt, origin: "null", token: "three"}.want(http.StatusForbidden, "GET", "/runtime/whoami", nil)
	if strings.Contains(rt.screen.String(), "Allow?") {
		t.Errorf("what was approved before was asked about again:\n%s", rt.screen)
	}
	// Removing the state file is starting afresh.
	rt.end(syscall.SIGTERM)
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil {
		t.Fatal(err)
	}
	page.rt = rt.again()
	page.want(http.StatusForbidden, "GET", "/runtime/whoami", nil)
}

func TestRuntimeAndCommandLineLoseNoChange(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	const each = 10
	var group sync.WaitGroup
	group.Go(func() {
		for i := range each {
			rt.pair(fmt.Sprintf("https://site%d.example", i), scopeActions)
		}
	})
	for worker := range 2 {
		group.Go(func() {
			for i := range each {
				rt.clientToken(fmt.Sprintf("tool-%d-%d", worker, i), scopeActions)
			}
		})
	}
	group.Wait()
	data := asJSON[stateData](t, reply{body: mustRead(t, filepath.Join(rt.dir, stateFile))})
	if len(data.Pairings) != each || len(data.Clients) != 2*each {
		t.Errorf("%d pairings and %d tokens are saved, want %d and %d", len(data.Pairings), len(data.Clients), each, 2*each)
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSecondRuntimeAndTakenPortAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	first := startRuntime(t)
	page := first.pair("https://course.example", scopeActions)
	state := string(mustRead(t, filepath.Join(first.dir, stateFile)))
	other := filepath.Join(t.TempDir(), "other")
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	portOfURL := func(url string) string { return url[strings.LastIndexByte(url, ':')+1:] }
	for name, c := range map[string]struct{ dir, port, want string }{
		"the same data folder":   {first.dir, "0", "Another runtime is already running"},
		"the port of a runtime":  {other + "1", first.port(), "another agent-runtime"},
		"the port of a program":  {other + "2", portOfURL(plain.Addr().String()), "another program"},
		"the port of a web site": {other + "3", portOfURL(web.URL), "another web server"},
	} {
		out, code := runProgram(t, programEnv(c.dir), "serve", "--port", c.port)
		if code != exitFailed || !strings.Contains(out, c.want) || strings.Count(strings.TrimSpace(out), "\n") != 0 {
			t.Errorf("%s: status %d, %q; want %q", name, code, out, c.want)
		}
		if _, err := os.Stat(filepath.Join(c.dir, stateFile)); err == nil && c.dir != first.dir {
			t.Errorf("%s: a state file was made", name)
		}
	}
	page.want(http.StatusOK, "GET", "/runtime/whoami", nil)
	if now := string(mustRead(t, filepath.Join(first.dir, stateFile))); now != state {
		t.Errorf("the first runtime's state changed to %s", now)
	}
}

// wantEnd waits for the runtime's end and checks how it ended.
func (rt *testRuntime) wantEnd(within time.Duration) {
	rt.t.Helper()
	select {
	case <-rt.ended:
	case <-time.After(within):
		rt.t.Fatalf("the runtime did not end within %v", within)
	}
	if rt.waitErr != nil {
		rt.t.Errorf("the runtime ended with %v", rt.waitErr)
	}
}

func TestShutdownAnswersOpenQuestionsAndEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testRuntime){
		"terminated":           func(rt *testRuntime) { _ = rt.cmd.Process.Signal(syscall.SIGTERM) },
		"Ctrl-C":               func(rt *testRuntime) { rt.press("\x03") },
		"the terminal is gone": func(rt *testRuntime) { _ = rt.keys.Close() },
		"hang-up":              func(rt *testRuntime) { _ = rt.cmd.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := startRuntime(t)
			from := rt.shown()
			pairing, _ := rt.askToPair("https://course.example", scopeActions)
			rt.screen.await(t, from, promptPattern)
			end(rt)
			// A terminal that goes away can be noticed first, and means no.
			r := <-pairing
			told := r.status == http.StatusServiceUnavailable && strings.Contains(r.detail(), "shutting down") ||
				r.status == http.StatusForbidden && name == "the terminal is gone"
			if r.err != nil || !told || r.header.Get("Access-Control-Allow-Origin") != "https://course.example" {
				t.Errorf("status %d, %v, answer %s, %v", r.status, r.err, r.body, r.header)
			}
			rt.wantEnd(patience)
			// There need not be a state file at all.
			if data, _ := os.ReadFile(filepath.Join(rt.dir, stateFile)); strings.Contains(string(data), "course.example") {
				t.Errorf("something was saved: %s", data)
			}
		})
	}
}

const stubbornLab = `schema = 1
id = "stubborn-lab"
title = "Stubborn"

[actions.stay]
label = "Stay"
steps = [["sh", "-c", "trap '' INT; echo staying; sleep 300 & wait; sleep 300"]]
`

func TestSecondCtrlCEndsAtOnceWhatTheFirstAskedToEnd(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	repo, commit := git.addRepo("stubborn.git", map[string]string{"lab.toml": stubbornLab})
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")), withEnv("AGENT_RUNTIME_LAB_STOP_GRACE=300"))
	page := rt.pair("https://course.example", scopeActions)
	run := page.start(page.prepare(repo, commit), "stay")
	page.follow(run.RunID, func(r runState) bool { return strings.Contains(r.Output, "\nstaying\n") })
	held := page.later("GET", "/labs/runs/"+run.RunID+"?offset=1000&wait=30", nil)
	rt.press("\x03")
	if r := <-held; r.err == nil && r.status != http.StatusOK {
		t.Errorf("an answer that was held: status %d, %s", r.status, r.body)
	}
	// A window that closes tells so more than once, and takes no grace away.
	for range 3 {
		_ = rt.cmd.Process.Signal(syscall.SIGHUP)
		time.Sleep(10 * time.Millisecond) // signals of one kind that wait become one
	}
	select {
	case <-rt.ended:
		t.Fatal("the first Ctrl-C did not leave the action its grace")
	case <-time.After(200 * time.Millisecond):
	}
	rt.press("\x03")
	rt.wantEnd(patience)
	next := rt.again()
	page.rt = next
	if r := page.finish(run.RunID); r.Status != "stopped" || !strings.Contains(r.Output, "[stopped · ") {
		t.Errorf("after the restart the run is %+v", r)
	}
}

func TestRuntimeStartedToOutliveItsTerminalDoes(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t, ignoringHangUp())
	_ = rt.cmd.Process.Signal(syscall.SIGHUP)
	for range 3 {
		if r := rt.ask("GET", "/health", ""); r.status != http.StatusOK {
			t.Fatalf("after a hang-up it was told to ignore: status %d, %v", r.status, r.err)
		}
	}
}
