package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
)

func TestPageThatIsNotApprovedRunsAndReadsNothing(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	callers := map[string][]string{
		"nobody":              nil,
		"unpaired page":       {"Origin: https://unpaired.example"},
		"page with a guess":   {"Origin: https://unpaired.example", "Authorization: Bearer " + newToken().reveal()},
		"sandboxed frame":     {"Origin: null"},
		"look-alike":          {"Origin: https://localhost.example.com"},
		"program with guess":  {"Authorization: Bearer " + newToken().reveal()},
		"navigation":          {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"},
		"form of another":     {"Origin: https://unpaired.example", "Content-Type: text/plain"},
		"forwarded from here": {"Origin: https://unpaired.example", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "Referer: http://localhost/"},
	}
	for _, route := range routes(&server{}) {
		if route.scope == "" {
			t.Errorf("%s %s has no scope", route.method, route.pattern)
		}
		if route.scope == scopeOpen {
			continue
		}
		for name, headers := range callers {
			path := pathParam.ReplaceAllString(route.pattern, "x")
			r := rt.ask(route.method, path, "", headers...)
			if r.status != http.StatusUnauthorized && r.status != http.StatusForbidden {
				t.Errorf("%s: %s %s: status %d, %s; want 401 or 403", name, route.method, path, r.status, r.body)
			}
		}
	}
	// What is open tells nothing of the computer or its person.
	for _, path := range []string{"/", "/health", "/runtime/info", "/openapi.json"} {
		r := rt.ask("GET", path, "")
		if r.status != 200 || bytes.Contains(r.body, []byte(rt.dir)) {
			t.Errorf("GET %s: status %d, %s", path, r.status, r.body)
		}
	}
}

func TestScopesAllowOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	pages := map[scope]site{}
	for _, s := range []scope{scopeCode, scopeActions, scopeSandbox} {
		pages[s] = rt.pair("https://"+string(s)+".example", s)
	}
	for _, route := range routes(&server{}) {
		if route.scope == scopeOpen || route.scope == scopeAny || route.scope == scopeOwn {
			continue
		}
		for s, page := range pages {
			path := pathParam.ReplaceAllString(route.pattern, "x")
			r := rt.ask(route.method, path, "", "Origin: "+page.origin, "Authorization: Bearer "+page.token)
			if forbidden := r.status == http.StatusForbidden; forbidden != (s != scopeCode && s != route.scope) {
				t.Errorf("scope %s: %s %s: status %d, %s", s, route.method, path, r.status, r.body)
			}
		}
	}
}

const changedLab = `schema = 1
id = "hello-lab"
title = "Hello again"

[actions.greet]
label = "Say hello"
steps = [["python", "-c", "print('hello, changed')"]]
timeout = 60

[actions.extra]
label = "Something new"
steps = [["echo", "new"]]
`

func TestActionsPageRunsOnlyApprovedCommandsOfApprovedCommits(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	repo, commit := git.addRepo("hello.git", map[string]string{"lab.toml": helloLab, "data.txt": "approved\n"})
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")))
	page, other := rt.pair("https://course.example", scopeActions), rt.pair("https://other.example", scopeActions)
	start := func(s site, status int, commit, action string) reply {
		t.Helper()
		return s.want(status, "POST", "/labs/runs", map[string]string{"lab_id": "hello-lab", "commit": commit, "action": action})
	}
	start(page, http.StatusConflict, commit, "greet")

	// Declined, nothing of the lab can be started.
	from := rt.shown()
	answer := other.later("POST", "/labs/prepare", map[string]string{"repo": repo, "commit": commit})
	rt.answerNext(from, "n\n")
	wantReply(t, "declined", answer, http.StatusForbidden)
	start(other, http.StatusConflict, commit, "greet")
	if out, _ := rt.command("env", "list"); strings.Contains(out, "hello-lab") {
		t.Errorf("the environment of a declined lab is still there:\n%s", out)
	}

	lab := page.prepare(repo, commit)
	start(page, http.StatusNotFound, commit, "extra")
	start(other, http.StatusForbidden, commit, "greet")

	// What the checkout says does not count, and is told.
	writeTestFile(t, filepath.Join(lab.Path, "lab.toml"), changedLab)
	writeTestFile(t, filepath.Join(lab.Path, "data.txt"), "tampered\n")
	run := page.run(lab, "greet")
	if want := "[changed since the approved commit: data.txt, lab.toml]\n$ python -c"; !strings.HasPrefix(run.Output, want) || strings.Contains(run.Output, "changed')") {
		t.Errorf("the run wrote %q, want it to begin with %q", run.Output, want)
	}
	again := asJSON[prepared](t, page.want(http.StatusOK, "POST", "/labs/prepare", map[string]string{"repo": repo, "commit": commit}))
	if !slices.Equal(again.Modified, []string{"data.txt", "lab.toml"}) || len(again.Actions) != 2 {
		t.Errorf("prepared again: %+v", again)
	}
	start(page, http.StatusNotFound, commit, "extra")

	// Another commit is another approval; a person sees what changed.
	next := git.commit("hello.git", map[string]string{"lab.toml": changedLab})
	start(page, http.StatusConflict, next, "greet")
	from = rt.shown()
	answer = page.later("POST", "/labs/prepare", map[string]string{"repo": repo, "commit": next})
	question := plainLines(rt.answerNext(from, "y\n"))
	wantReply(t, "the next commit", answer, http.StatusOK)
	checkChanges(t, question)
	if run := page.run(prepared{LabID: "hello-lab", Commit: next}, "greet"); !strings.Contains(run.Output, "hello, changed") {
		t.Errorf("the approved next commit wrote %q", run.Output)
	}

	// The manifest alone approves nothing in another repository, nor for
	// another site.
	copied, copiedCommit := git.addRepo("copy.git", map[string]string{"lab.toml": helloLab, "data.txt": "other\n"})
	from = rt.shown()
	answer = page.later("POST", "/labs/prepare", map[string]string{"repo": copied, "commit": copiedCommit})
	rt.answerNext(from, "n\n")
	wantReply(t, "the same manifest elsewhere", answer, http.StatusForbidden)
	start(other, http.StatusForbidden, commit, "greet")
	if r := other.want(http.StatusOK, "GET", "/labs/runs", nil); strings.TrimSpace(string(r.body)) != `{"runs":[]}` {
		t.Errorf("another site sees %s", r.body)
	}
	for _, path := range []string{"/labs/runs/" + run.RunID, "/labs/runs/" + run.RunID + "/stop"} {
		method := map[bool]string{true: "POST", false: "GET"}[strings.HasSuffix(path, "stop")]
		other.want(http.StatusNotFound, method, path, nil)
	}
}

func plainLines(s string) string { return strings.ReplaceAll(s, "\r", "") }

// checkChanges looks at the question about changedLab after helloLab.
func checkChanges(t *testing.T, question string) {
	t.Helper()
	at := 0
	for _, want := range []string{
		"Changes against the version approved before:\n",
		"  + extra: Something new", "  +     $ echo new\n",
		"  - greet: Say hello", `  -     $ python -c 'print('"'"'hello'"'"')'` + "\n",
		"  + greet: Say hello", `  +     $ python -c 'print('"'"'hello, changed'"'"')'` + "\n",
		"  - fail: Fail", "  -     $ sh -c 'echo before; exit 3'\n", "  -     $ echo never\n",
		"2 actions", "greet: Say hello", `$ python -c 'print('"'"'hello, changed'"'"')'` + "\n", "extra: Something new", "$ echo new\n",
		terminalPrompt,
	} {
		i := strings.Index(question[at:], want)
		if i < 0 {
			t.Errorf("the question lacks %q, or has it too early:\n%s", want, question)
			continue
		}
		at += i + len(want)
	}
}

// hostileText tries what moves, recolours, reorders or hides on a terminal.
const hostileText = "a\u001b[2J\u001b[1;1H\u001b]0;title\u0007b\rc\bd\u009b31me\nAccess: forged\u2028f\u202eg\u2066h\u200bi\ufeffj\u2060k\u00adl\U000E0041m\u00a0n\u3000o\u115fp\u2800q\u007fr\ts\u0085t\u034fu"

func TestTerminalShowsWhatWillRunAndObeysNothing(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("very long ", 400)
	quoted := func(s string) string {
		var b strings.Builder
		for _, r := range s {
			fmt.Fprintf(&b, `\U%08X`, r)
		}
		return `"` + b.String() + `"`
	}
	lab := "schema = 1\nid = \"hostile\"\ntitle = " + quoted(hostileText) + "\n[actions.go]\nlabel = " + quoted("L"+hostileText) +
		"\ndescription = " + quoted("D"+hostileText) + "\nsteps = [[\"echo\", " + quoted(hostileText) + ", " + quoted(long) + "], [" + quoted("./"+hostileText) + "]]\n"
	git := newGitServer(t)
	repo, commit := git.addRepo("hostile.git", map[string]string{"lab.toml": lab})
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")))
	page := rt.pair("https://course.example", scopeActions)
	from := rt.shown()
	answer := page.later("POST", "/labs/prepare", map[string]string{"repo": repo, "commit": commit})
	question := rt.answerNext(from, "n\n")
	wantReply(t, "declined", answer, http.StatusForbidden)
	checkHarmless(t, rt.screen.String())
	for _, want := range []string{
		"Site:   https://course.example\r\n", "Repo:   " + repo + "\r\n", "Commit: " + commit + "\r\n", long,
		"a<U+001B>[2J<U+001B>[1;1H<U+001B>]0;title<U+0007>b<U+000D>c<U+0008>d<U+009B>31me<U+000A>Access: forged<U+2028>f<U+202E>g<U+2066>h<U+200B>i<U+FEFF>j<U+2060>k<U+00AD>l<U+E0041>m<U+00A0>n<U+3000>o<U+115F>p<U+2800>q<U+007F>r<U+0009>s<U+0085>t<U+034F>u",
	} {
		if !strings.Contains(question, want) {
			t.Errorf("the question lacks %.100q:\n%s", want, question)
		}
	}
	if n := strings.Count(question, "<U+000A>Access: forged"); n != 5 {
		t.Errorf("the hostile text appears %d times, want it in title, label, description and two steps", n)
	}
	// Who asks for what is told again below a list that may be longer than
	// the screen.
	lines := strings.Split(plainLines(question), "\n")
	if last := lines[len(lines)-2]; !strings.Contains(last, "https://course.example") || !strings.Contains(last, repo) {
		t.Errorf("the last line before the prompt is %q", last)
	}
	if lines[len(lines)-1] != terminalPrompt {
		t.Errorf("the question ends with %q", lines[len(lines)-1])
	}
}

// checkHarmless wants nothing on a terminal but printable text and line ends.
func checkHarmless(t *testing.T, shown string) {
	t.Helper()
	for i, r := range strings.ReplaceAll(shown, "\r\n", "\n") {
		if r != '\n' && (!unicode.IsPrint(r) || r == unicode.ReplacementChar) {
			t.Errorf("%U at byte %d of the terminal, near %q", r, i, shown[max(0, i-20):i])
		}
	}
}

func TestNetworkIsNotLetIn(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	if !strings.HasPrefix(rt.addr, "http://127.0.0.1:") || strings.Contains(rt.screen.String(), "WARNING") {
		t.Errorf("by default it listens on %s and says:\n%s", rt.addr, rt.screen)
	}
	for _, address := range otherAddresses(t) {
		if conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, rt.port()), time.Second); err == nil {
			_ = conn.Close()
			t.Errorf("it can be reached at %s", address)
		}
	}
	wide := startRuntime(t, withEnv("AGENT_RUNTIME_HOST=0.0.0.0"), listeningOn(`http://0\.0\.0\.0:\d+`))
	wide.screen.await(t, 0, "WARNING: 0.0.0.0 is not a loopback address. Other computers can reach this runtime.")
	wide.addr = "http://127.0.0.1:" + wide.port()
	if r := wide.raw("GET /health HTTP/1.1\r\nConnection: close\r\nHost: rebound.example:" + wide.port() + "\r\n\r\n"); r.status != http.StatusMisdirectedRequest {
		t.Errorf("a rebound name: status %d, want 421", r.status)
	}
	for _, address := range otherAddresses(t) {
		from := *wide
		from.addr = "http://" + net.JoinHostPort(address, wide.port())
		host := "localhost:" + wide.port()
		if r := from.sendLines("GET", "/manage/overview", "Host: "+host, "Origin: http://"+host); r.status != http.StatusForbidden {
			t.Errorf("from %s as if it were the own page: status %d, want 403", address, r.status)
		}
	}
}

// otherAddresses are this computer's addresses that are not loopback.
func otherAddresses(t *testing.T) []string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, addr := range all {
		if ip, ok := addr.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			found = append(found, ip.IP.String())
		}
	}
	return found
}

func TestOtherAccountsAreKeptOut(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can act as another account")
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	rt := startRuntime(t)
	as := func(uid uint32, path string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), curl, append([]string{"--silent", "--max-time", "30", "--write-out", " %{http_code}", rt.addr + path}, args...)...)
		cmd.Dir, cmd.Env = "/", []string{"NO_PROXY=*"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const loopback = "Origin: http://localhost:3000"
	if got := as(0, "/runtime/whoami", "--header", loopback); !strings.HasSuffix(got, " 200") {
		t.Errorf("this account: %s", got)
	}
	for _, path := range []string{"/runtime/whoami", "/health", "/nothing", "/", "/manage/overview"} {
		if got := as(65534, path, "--header", loopback); !strings.HasSuffix(got, " 403") || !strings.Contains(got, "another account") {
			t.Errorf("another account: GET %s: %s", path, got)
		}
	}
	if got := as(65534, "/pairing/request", "--request", "POST", "--header", "Origin: https://course.example"); !strings.HasSuffix(got, " 403") {
		t.Errorf("another account: pairing: %s", got)
	}
	if strings.Contains(rt.screen.String(), "Allow?") {
		t.Errorf("another account's question is shown:\n%s", rt.screen)
	}
}

func TestNothingOutsideTheFolderIsTouched(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	repo, commit := git.addRepo("hello.git", map[string]string{"lab.toml": helloLab})
	home := t.TempDir()
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")), withEnv("HOME="+home, "TMPDIR="+t.TempDir(), "PATH=/usr/bin:/bin"))
	page := rt.pair("https://course.example", scopeActions)
	page.run(page.prepare(repo, commit), "greet")
	for _, folder := range []string{home, rt.variable("TMPDIR")} {
		entries, err := os.ReadDir(folder)
		if err != nil || len(entries) != 0 {
			t.Errorf("%s holds %v, %v; want nothing", folder, entries, err)
		}
	}
	for path, want := range map[string]os.FileMode{"": 0o700, stateFile: 0o600, "runs": 0o700, "labs": 0o700, "run": 0o700, "run/" + controlSocket: 0o600, "envs": 0o700} {
		info, err := os.Stat(filepath.Join(rt.dir, path))
		if err != nil {
			t.Fatal(err)
		}
		// Sandboxes of root's runtime reach their own folders through it.
		mode, passable := info.Mode().Perm(), path == "" && runsAsRoot()
		if mode != want && !(passable && mode == 0o711) {
			t.Errorf("%q has the mode %o, want %o", path, mode, want)
		}
	}
	runs, err := filepath.Glob(filepath.Join(rt.dir, "runs", "*"))
	if err != nil || len(runs) == 0 {
		t.Errorf("runs on disk: %v, %v", runs, err)
	}
	for _, file := range runs {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want the mode 600", file, info.Mode(), err)
		}
	}
}

// variable is what the runtime was given of this variable.
func (rt *testRuntime) variable(name string) string {
	for _, entry := range slices.Backward(rt.env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

const sleepyLab = `schema = 1
id = "sleepy-lab"
title = "Sleepy"

[actions.sleep]
label = "Sleep"
steps = [["sh", "-c", "echo asleep; exec sleep 300"]]
`

func TestRevokingWorksAtOnceAndStopsWhatRuns(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	repo, commit := git.addRepo("sleepy.git", map[string]string{"lab.toml": sleepyLab})
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")))
	page, bystander := rt.pair("https://course.example", scopeActions), rt.pair("https://bystander.example", scopeActions)
	lab := page.prepare(repo, commit)
	run := page.start(lab, "sleep")
	page.follow(run.RunID, func(r runState) bool { return strings.Contains(r.Output, "\nasleep\n") })
	next := git.commit("sleepy.git", map[string]string{"lab.toml": sleepyLab, "more.txt": "more\n"})
	held := page.later("GET", fmt.Sprintf("/labs/runs/%s?offset=%d&wait=30", run.RunID, maxOffset), nil)
	from := rt.shown()
	asking := page.later("POST", "/labs/prepare", map[string]string{"repo": repo, "commit": next})
	_, from = rt.screen.await(t, from, promptPattern)
	if out, code := rt.command("pairing", "revoke", page.origin); code != exitDone {
		t.Fatalf("revoke: status %d, %s", code, out)
	}
	rt.screen.await(t, from, "Withdrawn")
	rt.press("y\n")
	for what, answer := range map[string]<-chan reply{"an answer that was held": held, "a question that was open": asking} {
		if r := wantReply(t, what, answer, http.StatusForbidden); !strings.Contains(r.detail(), "taken away") {
			t.Errorf("%s: %s", what, r.body)
		}
	}
	page.want(http.StatusForbidden, "GET", "/runtime/whoami", nil)
	page.want(http.StatusForbidden, "POST", "/labs/runs", map[string]string{"lab_id": lab.LabID, "commit": commit, "action": "sleep"})
	bystander.want(http.StatusOK, "GET", "/runtime/whoami", nil)
	rt.screen.await(t, from, `run ended.*status=stopped`)
	if out, _ := rt.command("lab", "approvals"); !strings.Contains(out, "No lab") {
		t.Errorf("approvals after the revocation:\n%s", out)
	}

	// The same for a local program.
	tool := site{rt: rt, token: rt.clientToken("tool", scopeActions)}
	toolLab := tool.prepare(repo, commit)
	run = tool.start(toolLab, "sleep")
	from = rt.shown()
	if out, code := rt.command("token", "revoke", "tool"); code != exitDone {
		t.Fatalf("revoke: status %d, %s", code, out)
	}
	tool.want(http.StatusForbidden, "GET", "/labs/runs/"+run.RunID, nil)
	rt.screen.await(t, from, `run ended.*status=stopped`)

	// Paired again, it starts from nothing.
	page = rt.pair(page.origin, scopeActions)
	page.want(http.StatusForbidden, "POST", "/labs/runs", map[string]string{"lab_id": lab.LabID, "commit": commit, "action": "sleep"})
	page.prepare(repo, commit)
	if out, code := rt.command("lab", "forget", repo); code != exitDone {
		t.Fatalf("forget: status %d, %s", code, out)
	}
	page.want(http.StatusForbidden, "POST", "/labs/runs", map[string]string{"lab_id": lab.LabID, "commit": commit, "action": "sleep"})
}

func TestOneBadClientCannotStopTheRest(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	host := strings.TrimPrefix(rt.addr, "http://")
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	good := func(when string) {
		t.Helper()
		if r := rt.ask("GET", "/runtime/whoami", "", "Origin: http://localhost:3000"); r.err != nil || r.status != http.StatusOK {
			t.Errorf("%s, another client: status %d, %v", when, r.status, r.err)
		}
	}
	before := rt.memory()
	for range 300 {
		dial()
	}
	good("with 300 silent connections")
	for range connectionLimit - 300 + 50 {
		dial()
	}
	good("with more connections than are kept")

	for range 20 {
		conn := dial()
		fmt.Fprintf(conn, "POST /pairing/request HTTP/1.1\r\nHost: %s\r\nOrigin: https://slow.example\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", host)
	}
	good("with slow bodies")

	// Claimed to be huge: refused by its length. Sent without a length: cut.
	for _, origin := range []string{"http://localhost:3000", "https://unpaired.example"} {
		r := rt.ask("POST", "/labs/prepare", "", "Origin: "+origin, "Content-Type: application/json", "Content-Length: 1000000000")
		if r.status != http.StatusRequestEntityTooLarge && r.status != http.StatusUnauthorized {
			t.Errorf("a body of 1 GB from %s: status %d, %v", origin, r.status, r.err)
		}
	}
	conn := dial()
	fmt.Fprintf(conn, "POST /labs/prepare HTTP/1.1\r\nHost: %s\r\nOrigin: http://localhost:3000\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", host)
	flood(conn, fmt.Sprintf("%x\r\n%s\r\n", 1<<16, strings.Repeat(" ", 1<<16)), 500<<20)
	if r := readReply(conn); r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body without end: status %d, %v", r.status, r.err)
	}

	conn = dial()
	fmt.Fprintf(conn, "GET /health HTTP/1.1\r\nHost: %s\r\n", host)
	flood(conn, "X-Flood: "+strings.Repeat("x", 1000)+"\r\n", 500<<20)
	if r := readReply(conn); r.err == nil && r.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header without end: status %d", r.status)
	}
	good("after floods")
	if grown := rt.memory() - before; grown > 200<<20 {
		t.Errorf("the runtime grew by %d MB", grown>>20)
	}
}

// flood sends a piece again and again until the other end gives up or so many
// bytes are sent.
func flood(conn net.Conn, piece string, bytes int) {
	_ = conn.SetWriteDeadline(time.Now().Add(patience))
	for range bytes / len(piece) {
		if _, err := io.WriteString(conn, piece); err != nil {
			return
		}
	}
}

func readReply(conn net.Conn) reply {
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return reply{err: err}
	}
	return reply{status: answer.StatusCode, header: answer.Header}
}

// memory is what the runtime has in memory, in bytes.
func (rt *testRuntime) memory() int {
	rt.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", rt.cmd.Process.Pid))
	if err != nil {
		rt.t.Fatal(err)
	}
	var total, resident int
	if _, err := fmt.Sscan(string(data), &total, &resident); err != nil {
		rt.t.Fatal(err)
	}
	return resident * os.Getpagesize()
}

const tellingLab = `schema = 1
id = "telling-lab"
title = "Telling"

[actions.tell]
label = "Tell all"
steps = [["env"], ["sh", "-c", "ls -l /proc/self/fd /proc/$$/fd; cat /proc/net/unix > /dev/null; ps -ef || true"], ["false"]]
`

func TestSecretsStay(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	repo, commit := git.addRepo("telling.git", map[string]string{"lab.toml": tellingLab})
	const ours = "ours-7f3a-not-for-children"
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")), withEnv("AGENT_RUNTIME_TOKEN="+ours, "AGENT_RUNTIME_DEBUG=1"))
	page := rt.pair("https://course.example", scopeActions)
	local := rt.clientToken("tool", scopeActions)
	secrets := []string{page.token, local, ours}
	var said strings.Builder
	lab := page.prepare(repo, commit)
	run := page.run(lab, "tell")
	said.WriteString(run.Output)
	if run.Status != "failed" || strings.Contains(run.Output, "AGENT_RUNTIME_TOKEN") {
		t.Errorf("the run is %s and wrote:\n%s", run.Status, run.Output)
	}
	if strings.Contains(run.Output, "socket:[") {
		t.Errorf("a step inherited a socket:\n%s", run.Output)
	}
	for _, r := range []reply{
		rt.ask("GET", "/runtime/whoami", "", "Origin: https://else.example", "Authorization: Bearer "+page.token),
		rt.ask("GET", "/runtime/whoami", "", "Origin: "+page.origin, "Authorization: Bearer "+local),
		rt.ask("GET", "/runtime/whoami", "", "Authorization: Bearer "+page.token),
		rt.ask("GET", "/runtime/whoami", "", "Authorization: "+page.token),
		rt.ask("GET", "/labs/runs/"+"x?token="+page.token, "", "Origin: "+page.origin, "Authorization: Bearer "+page.token),
		rt.ask("POST", "/labs/prepare", "{", "Origin: "+page.origin, "Authorization: Bearer "+page.token, "Content-Type: application/json"),
	} {
		said.Write(r.body)
	}
	for _, args := range [][]string{{"pairing", "list"}, {"token", "list"}, {"doctor"}, {"lab", "approvals"}, {"approvals"}} {
		out, _ := rt.command(args...)
		said.WriteString(out)
	}
	said.WriteString(rt.screen.String())
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", rt.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	said.Write(cmdline)
	err = filepath.WalkDir(rt.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.Contains(path, "/.venv/") {
			return err
		}
		data, err := os.ReadFile(path)
		said.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, secret := range secrets {
		if at := strings.Index(said.String(), secret); at >= 0 {
			t.Errorf("secret %d shows up after %q", i, said.String()[max(0, at-200):at])
		}
	}
	if !strings.Contains(rt.screen.String(), "/labs/prepare") {
		t.Error("with debug on, requests are not logged")
	}
}
