package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startKernelRuntime starts the real program with the system's ipykernel.
func startKernelRuntime(t testing.TB, options ...runtimeOption) site {
	t.Helper()
	if err := exec.Command(kernelTestPython, "-c", "import ipykernel").Run(); err != nil {
		t.Skip("no ipykernel for " + kernelTestPython)
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte("[environment]\nsystem_site_packages = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rt := startRuntime(t, append([]runtimeOption{withDir(dir)}, options...)...)
	return site{rt: rt, origin: "http://localhost:4321"}
}

func (s site) cell(code string) reply {
	s.rt.t.Helper()
	return s.want(200, "POST", "/cell/run", map[string]any{"lab_id": "lab", "code": code, "stream": false})
}

func TestPageRunsCells(t *testing.T) {
	t.Parallel()
	page := startKernelRuntime(t)
	for _, c := range []struct{ code, want string }{
		{"print('a')\n1+1", `"success":true,"outputs":[` +
			`{"output_type":"stream","name":"stdout","text":"a\n","type":"stream","content":{"name":"stdout","text":"a\n"}},` +
			`{"output_type":"execute_result","execution_count":1,"data":{"text/plain": "2"},"metadata":{},"type":"result","content":{"data":{"text/plain": "2"}}}` +
			`],"error":null,"execution_count":1}`},
		{"from IPython.display import display, JSON\n_ = display(JSON({'a': [1, None]}))", `"success":true,"outputs":[` +
			`{"output_type":"display_data","data":{"text/plain": "<IPython.core.display.JSON object>", "application/json": {"a": [1, null]}},"metadata":{"application/json": {"expanded": false, "root": "root"}},` +
			`"type":"display_data","content":{"data":{"text/plain": "<IPython.core.display.JSON object>", "application/json": {"a": [1, null]}}}}` +
			`],"error":null,"execution_count":2}`},
		{"raise KeyError('k')", `"success":false,"outputs":[],"error":{"output_type":"error","ename":"KeyError","evalue":"'k'","traceback":[`},
	} {
		r := page.cell(c.code)
		body := asJSON[map[string]any](t, r)
		_, rest, _ := strings.Cut(string(r.body), ",")
		if !strings.HasPrefix(rest, c.want) || body["cell_id"] == "" {
			t.Errorf("%q gave %s, want %s", c.code, r.body, c.want)
		}
	}
	status := page.want(200, "GET", "/kernel/status?lab_id=lab", nil)
	if want := `{"lab_id":"lab","status":"running","kernel_name":"agent-runtime-lab","ready":true}` + "\n"; string(status.body) != want {
		t.Errorf("status = %s, want %s", status.body, want)
	}
	list := page.want(200, "GET", "/kernel/list", nil)
	if want := `{"kernels":[{"lab_id":"lab","kernel_name":"agent-runtime-lab","ready":true}]}` + "\n"; string(list.body) != want {
		t.Errorf("list = %s, want %s", list.body, want)
	}
	page.want(200, "POST", "/kernel/interrupt?lab_id=lab", nil)
	page.want(200, "POST", "/kernel/restart?lab_id=lab", nil)
	page.want(200, "DELETE", "/kernel?lab_id=lab", nil)
	for _, gone := range [][2]string{{"GET", "/kernel/status"}, {"POST", "/kernel/interrupt"}, {"POST", "/kernel/restart"}, {"DELETE", "/kernel"}} {
		page.want(404, gone[0], gone[1]+"?lab_id=lab", nil)
		page.want(422, gone[0], gone[1]+"?lab_id=-x", nil)
		page.want(422, gone[0], gone[1], nil)
	}
}

func TestKernelRequestsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	page := startKernelRuntime(t)
	for _, c := range []struct {
		status int
		path   string
		body   any
	}{
		{422, "/cell/run", map[string]any{"lab_id": "lab"}},
		{422, "/cell/run", map[string]any{"lab_id": "a/b", "code": ""}},
		{422, "/cell/run", map[string]any{"lab_id": "lab", "code": 1}},
		{422, "/cell/run", map[string]any{"lab_id": "lab", "code": "", "cell_id": strings.Repeat("x", 201)}},
		{413, "/cell/run", map[string]any{"lab_id": "lab", "code": strings.Repeat("x", 9<<20)}},
		{404, "/kernel/start", map[string]any{"lab_id": "lab", "create_env": false}},
		{404, "/kernel/packages/install", map[string]any{"lab_id": "lab", "packages": []string{"pandas"}}},
		{422, "/kernel/packages/install", map[string]any{"lab_id": "lab", "packages": []string{"--index-url=x"}}},
		{422, "/kernel/packages/install", map[string]any{"lab_id": "lab", "packages": []string{}}},
	} {
		if r := page.want(c.status, "POST", c.path, c.body); r.detail() == "" {
			t.Errorf("%s %.80v: no detail in %s", c.path, c.body, r.body)
		}
	}
	r := page.want(500, "POST", "/kernel/start", map[string]any{"lab_id": "lab", "python_version": "9.99"})
	if !strings.Contains(r.detail(), "3.") {
		t.Errorf("a Python that there is not: %s", r.detail())
	}
}

// streamEvent is an event of a cell's stream, with the time it came.
type streamEvent struct {
	CellID  string `json:"cell_id"`
	Type    string
	Name    string
	Text    string
	Success bool
	came    time.Time
}

// stream runs a cell and calls see with each event.
func (s site) stream(ctx context.Context, code, cellID string, see func(streamEvent)) error {
	body := fmt.Sprintf(`{"lab_id":"lab","code":%q,"cell_id":%q}`, code, cellID)
	r, err := http.NewRequestWithContext(ctx, "POST", s.rt.addr+"/cell/run/stream", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", s.origin)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		return fmt.Errorf("status %d, %v", answer.StatusCode, answer.Header)
	}
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		e := streamEvent{came: time.Now()}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		see(e)
	}
}

func TestStreamTellsWhatHappensWhenItHappens(t *testing.T) {
	t.Parallel()
	page := startKernelRuntime(t)
	seen := filepath.Join(t.TempDir(), "seen")
	// The cell goes on only when the page has seen what it printed last.
	code := fmt.Sprintf("import os, time\nfor i in range(5):\n  print(i)\n  while not os.path.exists(%q + str(i)): time.sleep(0.01)\n1/0", seen)
	var got []string
	err := page.stream(t.Context(), code, "mine", func(e streamEvent) {
		got = append(got, e.Type+strings.TrimSpace(e.Text))
		if e.CellID != "mine" {
			t.Errorf("cell_id = %q", e.CellID)
		}
		if e.Type == "stream" {
			if err := os.WriteFile(seen+strings.TrimSpace(e.Text), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"stream0", "stream1", "stream2", "stream3", "stream4", "error", "complete"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStreamWhoseReaderPausesLosesNothing(t *testing.T) {
	t.Parallel()
	page := startKernelRuntime(t)
	lines, paused := 0, false
	err := page.stream(t.Context(), "for i in range(200000): print('line', i)", "", func(e streamEvent) {
		lines += strings.Count(e.Text, "\n")
		if !paused {
			paused = true
			time.Sleep(5 * time.Second) // the pause is what is tested
		}
	})
	if err != nil || lines != 200_000 {
		t.Errorf("got %d lines, %v", lines, err)
	}
}

func TestReloadedPageFindsWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	page := startKernelRuntime(t)
	page.cell("import os, time")
	goOn := filepath.Join(t.TempDir(), "go-on")
	ctx, leave := context.WithCancel(t.Context())
	code := fmt.Sprintf("print('first', flush=True)\nwhile not os.path.exists(%q): time.sleep(0.01)\nprint('second')", goOn)
	err := page.stream(ctx, code, "c 1", func(e streamEvent) { leave() })
	if err == nil {
		t.Fatal("the page did not leave")
	}
	type stored struct {
		Status  string
		Success bool
		Outputs []struct{ Text string }
	}
	running := asJSON[stored](t, page.want(200, "GET", "/cell/c%201?lab_id=lab", nil))
	if running.Status != "running" || len(running.Outputs) != 1 || running.Outputs[0].Text != "first\n" {
		t.Errorf("while it runs: %+v", running)
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	page.cell("1") // waits for it
	done := asJSON[stored](t, page.want(200, "GET", "/cell/c%201?lab_id=lab", nil))
	if done.Status != "done" || !done.Success || done.Outputs[0].Text != "first\nsecond\n" {
		t.Errorf("afterwards: %+v", done)
	}
	page.want(404, "GET", "/cell/other?lab_id=lab", nil)
}

func TestKernelEndsWithTheRuntime(t *testing.T) {
	t.Parallel()
	page := startKernelRuntime(t)
	pid := kernelPID(t, page)
	page.rt.end(syscall.SIGTERM)
	if e, ok := readProcess(pid); ok && !e.zombie {
		t.Errorf("the kernel %d outlives the runtime", pid)
	}
	left, err := filepath.Glob(filepath.Join(page.rt.dir, "run", "k-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestNextStartEndsTheKernelOfACrashedRuntime(t *testing.T) {
	t.Parallel()
	page := startKernelRuntime(t)
	pid := kernelPID(t, page)
	page.rt.end(syscall.SIGKILL)
	next := page.rt.again()
	awaitGone(t, pid)
	if left, err := filepath.Glob(filepath.Join(page.rt.dir, "run", "k-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	site{rt: next, origin: page.origin}.cell("1")
}

// awaitGone waits for a process to end; one that was killed takes a moment.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	for range 1000 {
		if e, ok := readProcess(pid); !ok || e.zombie {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the kernel %d is still there", pid)
}

func TestKernelOfARevokedSiteEnds(t *testing.T) {
	t.Parallel()
	rt := startKernelRuntime(t).rt
	page := rt.pair("https://course.example", scopeCode)
	pid := kernelPID(t, page)
	if out, code := rt.command("pairing", "revoke", page.origin); code != 0 {
		t.Fatal(out)
	}
	page.want(403, "GET", "/kernel/list", nil)
	awaitGone(t, pid)
}

func kernelPID(t *testing.T, page site) (pid int) {
	t.Helper()
	r := page.cell("import os\nprint(os.getpid())")
	answer := asJSON[struct{ Outputs []struct{ Text string } }](t, r)
	if _, err := fmt.Sscan(answer.Outputs[0].Text, &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestForeignPythonVariablesDoNotReachAKernel(t *testing.T) {
	t.Parallel()
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "sitecustomize.py"), []byte("print('INJECTED')\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	page := startKernelRuntime(t, withEnv("PYTHONHOME=/missing", "PYTHONPATH="+foreign, "VIRTUAL_ENV=/elsewhere",
		"CONDA_PREFIX=/conda", "JPY_PARENT_PID=1234567", "IPYTHONDIR="+foreign))
	r := page.cell("import os, sys\nos.environ.get('PYTHONHOME'), os.environ.get('CONDA_PREFIX'), os.environ.get('JPY_PARENT_PID'), os.environ['VIRTUAL_ENV'] == sys.prefix")
	if !strings.Contains(string(r.body), "(None, None, None, True)") || strings.Contains(string(r.body), "INJECTED") {
		t.Errorf("got %s", r.body)
	}
	if strings.Contains(page.rt.screen.String(), "INJECTED") {
		t.Error("the foreign folder's code ran")
	}
}

func TestRuntimeMayBeTheFirstProcess(t *testing.T) {
	t.Parallel()
	if err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").Run(); err != nil {
		t.Skip("no namespaces of processes here: ", err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	config := "[environment]\nsystem_site_packages = true\n"
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", os.Args[0], "serve", "--port", "0")
	cmd.Env = programEnv(dir)
	screen := newConsole()
	cmd.Stdout, cmd.Stderr = screen, screen
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	groups, _ := screen.await(t, 0, `listens on (http://127\.0\.0\.1:\d+)`)
	page := site{rt: &testRuntime{t: t, dir: dir, addr: groups[1]}, origin: "http://localhost:4321"}
	// A kernel that takes its parent for dead looks once a second.
	r := page.cell("import os, time\ntime.sleep(3)\nos.getppid()")
	if !strings.Contains(string(r.body), `"text/plain": "1"`) {
		t.Errorf("got %s", r.body)
	}
	if r := page.cell("'still here'"); !strings.Contains(string(r.body), "still here") {
		t.Errorf("got %s", r.body)
	}
}

func TestCellWithoutAKernelIsAnError(t *testing.T) {
	t.Parallel()
	page := startKernelRuntime(t, withEnv("AGENT_RUNTIME_PYTHON=/missing/python"))
	body := map[string]any{"lab_id": "lab", "code": "1", "cell_id": "mine"}
	for _, path := range []string{"/cell/run", "/cell/run/stream", "/kernel/start"} {
		if r := page.want(500, "POST", path, body); !strings.Contains(r.detail(), "/missing/python") {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	r := page.want(200, "GET", "/cell/mine?lab_id=lab", nil)
	if !strings.Contains(string(r.body), `"ename":"KernelNotStarted"`) || !strings.Contains(string(r.body), `"status":"done"`) {
		t.Errorf("the cell is kept as %s", r.body)
	}
}
