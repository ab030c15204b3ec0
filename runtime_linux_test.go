package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testRuntime is the real program, running.
type testRuntime struct {
	t       testing.TB
	dir     string // the data folder
	env     []string
	addr    string   // http://127.0.0.1:PORT
	listens string   // what it must say of its address, as a pattern
	through []string // a program that becomes the runtime, and its first arguments
	cmd     *exec.Cmd
	screen  *console // what its terminal shows; its standard output when it has none
	keys    *os.File // the terminal's keyboard; nil when it has none
	ended   chan struct{}
	waitErr error
}

type runtimeOption func(*testRuntime)

// withoutTerminal starts the runtime as a service would be.
func withoutTerminal() runtimeOption { return func(rt *testRuntime) { rt.keys = nil } }

func withEnv(entries ...string) runtimeOption {
	return func(rt *testRuntime) { rt.env = append(rt.env, entries...) }
}

// ignoringHangUp starts the runtime as nohup does.
func ignoringHangUp() runtimeOption {
	return func(rt *testRuntime) { rt.through = []string{"/bin/sh", "-c", `trap "" HUP; exec "$0" "$@"`} }
}

// listeningOn is for a runtime that is not to listen on 127.0.0.1.
func listeningOn(pattern string) runtimeOption {
	return func(rt *testRuntime) { rt.listens = pattern }
}

func withDir(dir string) runtimeOption { return func(rt *testRuntime) { rt.dir = dir } }

// withConfig starts the runtime with this config.toml.
func withConfig(t testing.TB, text string) runtimeOption {
	return func(rt *testRuntime) {
		t.Helper()
		if err := os.MkdirAll(rt.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(rt.dir, "config.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// console collects what a program writes.
type console struct {
	mu      sync.Mutex // guards the rest
	text    bytes.Buffer
	changed chan struct{} // closed at the next write
}

func newConsole() *console { return &console{changed: make(chan struct{})} }

func (s *console) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.text.Write(p)
}

func (s *console) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until what was written after the first `from` bytes matches,
// and returns the match's groups and where it ends.
func (s *console) await(t testing.TB, from int, pattern string) (groups []string, end int) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.After(patience)
	for {
		s.mu.Lock()
		text, changed := s.text.String()[from:], s.changed
		s.mu.Unlock()
		if at := re.FindStringIndex(text); at != nil {
			return re.FindStringSubmatch(text), from + at[1]
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the runtime did not write %q; it wrote:\n%s", pattern, text)
		}
	}
}

// programEnv is the environment of a program under test: this one's without
// what would steer it, and with the data folder dir.
func programEnv(dir string, more ...string) []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "AGENT_RUNTIME_") && !strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "PIP_") && name != "NO_COLOR" {
			env = append(env, entry)
		}
	}
	env = append(env, "GORACE=atexit_sleep_ms=0") // else the race detector lets every program linger for a second
	return append(append(env, playProgram+"=1", "AGENT_RUNTIME_RUNTIME_DIR="+dir, "AGENT_RUNTIME_PYTHON=/usr/bin/python3", "PIP_NO_INDEX=1"), more...)
}

// startRuntime starts `serve` on a free port, in a terminal of its own unless
// an option says otherwise, and ends it with the test.
func startRuntime(t testing.TB, options ...runtimeOption) *testRuntime {
	t.Helper()
	master, slave := openPTY(t)
	rt := &testRuntime{t: t, dir: filepath.Join(t.TempDir(), "data"), keys: master, screen: newConsole(), listens: `http://127\.0\.0\.1:\d+`, ended: make(chan struct{})}
	for _, option := range options {
		option(rt)
	}
	argv := append(slices.Clone(rt.through), os.Args[0], "serve", "--port", "0")
	rt.cmd = exec.Command(argv[0], argv[1:]...)
	rt.cmd.Env = programEnv(rt.dir, rt.env...)
	if rt.keys != nil {
		rt.cmd.Stdin, rt.cmd.Stdout, rt.cmd.Stderr = slave, slave, slave
		rt.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		go func() { _, _ = io.Copy(rt.screen, master) }() // ends when the test closes the terminal
	} else {
		rt.cmd.Stdout, rt.cmd.Stderr = rt.screen, rt.screen
		rt.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if err := rt.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the program
		rt.waitErr = rt.cmd.Wait()
		close(rt.ended)
	}()
	t.Cleanup(func() {
		rt.end(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("the runtime wrote:\n%s", rt.screen)
		}
	})
	groups, _ := rt.screen.await(t, 0, `listens on (`+rt.listens+`)`)
	rt.addr = groups[1]
	return rt
}

// end sends a signal and waits for the runtime's end.
func (rt *testRuntime) end(signal syscall.Signal) {
	rt.t.Helper()
	_ = rt.cmd.Process.Signal(signal)
	select {
	case <-rt.ended:
	case <-time.After(patience):
		_ = rt.cmd.Process.Kill()
		rt.t.Errorf("the runtime did not end after %v", signal)
	}
}

// again starts another runtime on the same data folder.
func (rt *testRuntime) again(options ...runtimeOption) *testRuntime {
	rt.t.Helper()
	return startRuntime(rt.t, append([]runtimeOption{withDir(rt.dir), withEnv(rt.env...)}, options...)...)
}

// command runs another command of the program on the same data folder.
func (rt *testRuntime) command(args ...string) (stdout string, code int) {
	rt.t.Helper()
	return runProgram(rt.t, programEnv(rt.dir, rt.env...), args...)
}

// program is another command of the program on the same data folder, ready
// to run.
func (rt *testRuntime) program(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(rt.t.Context(), os.Args[0], args...)
	cmd.Env = programEnv(rt.dir, rt.env...)
	return cmd
}

// runProgram runs the program to its end and returns all that it wrote.
func runProgram(t testing.TB, env []string, args ...string) (output string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// site is a page of one origin, or a local program, that calls the runtime.
type site struct {
	rt     *testRuntime
	origin string
	token  string
}

// reply is an answer of the runtime.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// json reads the body into a T.
func asJSON[T any](t testing.TB, r reply) T {
	t.Helper()
	var v T
	if r.err != nil {
		t.Fatal(r.err)
	}
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("status %d, body %q: %v", r.status, r.body, err)
	}
	return v
}

func (r reply) detail() string {
	var body struct{ Detail string }
	_ = json.Unmarshal(r.body, &body)
	return body.Detail
}

// call makes a request. A body that is not nil is sent as JSON.
func (s site) call(ctx context.Context, method, path string, body any) reply {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return reply{err: err}
		}
		content = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.rt.addr+path, content)
	if err != nil {
		return reply{err: err}
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.origin != "" {
		r.Header.Set("Origin", s.origin)
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	return send(r)
}

// testClient keeps as many connections as tests use at once: a new one for
// each request would be measured with it.
var testClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

func send(r *http.Request) reply {
	answer, err := testClient.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return reply{status: answer.StatusCode, header: answer.Header, body: data, err: err}
}

// want is call that must get a status.
func (s site) want(status int, method, path string, body any) reply {
	s.rt.t.Helper()
	r := s.call(s.rt.t.Context(), method, path, body)
	if r.err != nil || r.status != status {
		s.rt.t.Fatalf("%s %s: status %d, %v, body %.300s; want %d", method, path, r.status, r.err, r.body, status)
	}
	return r
}

// later makes a request in the background.
func (s site) later(method, path string, body any) <-chan reply {
	answer := make(chan reply, 1)
	go func() { answer <- s.call(s.rt.t.Context(), method, path, body) }()
	return answer
}

// promptPattern is the end of a question in the terminal.
const promptPattern = `yes[^\n]*: ?$`

// answerNext waits for the next question in the terminal, answers it, and
// returns what was asked.
func (rt *testRuntime) answerNext(from int, keys string) (question string) {
	rt.t.Helper()
	_, end := rt.screen.await(rt.t, from, promptPattern)
	question = rt.screen.String()[from:end]
	rt.press(keys)
	return question
}

func (rt *testRuntime) press(keys string) {
	rt.t.Helper()
	if _, err := io.WriteString(rt.keys, keys); err != nil {
		rt.t.Fatal(err)
	}
}

// shown is how much the terminal has shown so far.
func (rt *testRuntime) shown() int { return len(rt.screen.String()) }

// pair pairs a site, with the person saying yes.
func (rt *testRuntime) pair(origin string, scope scope) site {
	rt.t.Helper()
	s := site{rt: rt, origin: origin}
	from := rt.shown()
	answer := s.later("POST", "/pairing/request", map[string]any{"scope": scope})
	rt.answerNext(from, "y\n")
	r := <-answer
	if r.err != nil || r.status != http.StatusOK {
		rt.t.Fatalf("pairing of %s: status %d, %v, %s", origin, r.status, r.err, r.body)
	}
	s.token = asJSON[struct{ Token string }](rt.t, r).Token
	return s
}

// prepared is the answer to a prepare.
type prepared struct {
	LabID   string `json:"lab_id"`
	Commit  string `json:"commit"`
	Path    string `json:"path"`
	Actions []struct {
		Name, Label, Description string
		Steps                    []string
		Timeout                  int
	} `json:"actions"`
	Modified []string `json:"modified"`
	Notices  []string `json:"notices"`
}

// prepare prepares a lab, with the person saying yes.
func (s site) prepare(repo, commit string) prepared {
	s.rt.t.Helper()
	from := s.rt.shown()
	answer := s.later("POST", "/labs/prepare", map[string]string{"repo": repo, "commit": commit})
	s.rt.answerNext(from, "yes\n")
	r := <-answer
	if r.err != nil || r.status != http.StatusOK {
		s.rt.t.Fatalf("prepare: status %d, %v, %s", r.status, r.err, r.body)
	}
	return asJSON[prepared](s.rt.t, r)
}

// runState is a run as the API tells it.
type runState struct {
	RunID      string  `json:"run_id"`
	LabID      string  `json:"lab_id"`
	Commit     string  `json:"commit"`
	Action     string  `json:"action"`
	Status     string  `json:"status"`
	ExitCode   *int    `json:"exit_code"`
	StartedAt  string  `json:"started_at"`
	EndedAt    *string `json:"ended_at"`
	Output     string  `json:"output"`
	NextOffset int     `json:"next_offset"`
	Truncated  bool    `json:"truncated"`
}

// start starts an action.
func (s site) start(lab prepared, action string) runState {
	s.rt.t.Helper()
	return asJSON[runState](s.rt.t, s.want(http.StatusOK, "POST", "/labs/runs",
		map[string]string{"lab_id": lab.LabID, "commit": lab.Commit, "action": action}))
}

// follow reads a run until done says so, and returns it with all its output.
func (s site) follow(id string, done func(runState) bool) runState {
	s.rt.t.Helper()
	var output strings.Builder
	for offset, late := 0, time.Now().Add(patience); ; {
		r := asJSON[runState](s.rt.t, s.want(http.StatusOK, "GET", fmt.Sprintf("/labs/runs/%s?offset=%d&wait=10", id, offset), nil))
		output.WriteString(r.Output)
		offset = r.NextOffset
		r.Output = output.String()
		if done(r) {
			return r
		}
		if r.Status != "running" || time.Now().After(late) {
			s.rt.t.Fatalf("run %s is %s and wrote:\n%s", id, r.Status, r.Output)
		}
	}
}

// finish follows a run to its end.
func (s site) finish(id string) runState {
	s.rt.t.Helper()
	return s.follow(id, func(r runState) bool { return r.Status != "running" })
}

// run runs an action to its end.
func (s site) run(lab prepared, action string) runState {
	s.rt.t.Helper()
	return s.finish(s.start(lab, action).RunID)
}
