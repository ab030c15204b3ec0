package main

// A whole lab, as a learner goes through it.

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// testWheel is a small package that pip can install without a network.
func testWheel(t testing.TB, name string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	info := name + "-1.0.dist-info/"
	for _, file := range []struct{ path, text string }{
		{name + ".py", "answer = 42\n"},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		f, err := w.Create(file.path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(file.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// silentIndex accepts connections and never answers.
func silentIndex(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	var conns []net.Conn
	t.Cleanup(func() {
		_ = l.Close()
		group.Wait()
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	group.Go(func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
		}
	})
	return "http://" + l.Addr().String() + "/simple"
}

// TestLabOfACourse follows a learner through a whole lab, with a real
// environment and a person's settings that would lead pip astray.
func TestLabOfACourse(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	home, astray := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".config", "pip"), 0o700); err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf("[global]\nuser = true\ntarget = %s/conf\n[install]\nuser = true\n", astray)
	if err := os.WriteFile(filepath.Join(home, ".config", "pip", "pip.conf"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	rt := startRuntime(t, withGit(git), withEnv("HOME="+home, "XDG_CONFIG_HOME=", "PIP_TARGET="+astray+"/target", "PIP_PREFIX="+astray+"/prefix",
		"AGENT_RUNTIME_LAB_STOP_GRACE=2", "PIP_NO_INDEX=", "PIP_INDEX_URL="+silentIndex(t), "PIP_DISABLE_PIP_VERSION_CHECK=1"))
	page := rt.pair("https://course.example", scopeActions)

	const server = `import http.server, os, sys
class Model(http.server.BaseHTTPRequestHandler):
    calls = 0
    def do_GET(self):
        Model.calls += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"model call {Model.calls}".encode())
s = http.server.HTTPServer(("127.0.0.1", 0), Model)
open("port", "w").write(str(s.server_port))
print("serving", flush=True)
s.serve_forever()
`
	const demo = `import sys, time, urllib.request
print("\x1b[32m== agent ==\x1b[0m")
for i in range(0, 101, 10):
    print(f"\r{i:3d}% [{'#' * (i // 10):10}]", end="", flush=True)
    time.sleep(0.01)
print()
for _ in range(3):
    print(urllib.request.urlopen("http://127.0.0.1:" + open("port").read()).read().decode())
`
	const interrupted = `import time
try:
    print("thinking", flush=True)
    time.sleep(300)
except KeyboardInterrupt:
    print("interrupted, state saved", flush=True)
    raise SystemExit(1)
`
	python := func(argv ...string) [][]string { return [][]string{append([]string{"python"}, argv...)} }
	actions := []testAction{
		{name: "containers", steps: [][]string{{"docker", "compose", "up", "-d"}, {"echo", "never"}}},
		{name: "setup", steps: [][]string{{"pip", "install", "--no-index", "./tools-1.0-py3-none-any.whl"}, {"python", "-c", "import tools; print(tools.answer, tools.__file__)"}}},
		{name: "serve", steps: [][]string{shell("python server.py & while [ ! -s port ]; do sleep 0.02; done; echo $! >server.pid")}},
		{name: "demo", steps: python("demo.py")},
		{name: "again", steps: python("demo.py")},
		{name: "ask", timeout: 60, steps: python("think.py")},
		{name: "slow", timeout: 1, steps: python("think.py")},
		{name: "download", steps: [][]string{{"pip", "install", "--retries", "0", "no-such-package"}}},
		{name: "crash", steps: python("-c", "raise ValueError('no')")},
		{name: "teardown", steps: [][]string{shell("kill $(cat server.pid); rm -f port server.pid; echo removed")}},
	}
	files := map[string]string{
		manifestName: labManifest(t, "course", actions...), "server.py": server, "demo.py": demo, "think.py": interrupted,
		"tools-1.0-py3-none-any.whl": testWheel(t, "tools"), "docker-compose.yml": "services: {}\n",
	}
	repo, commit := git.addRepo("course.git", files)
	lab := page.prepare(repo, commit)
	if len(lab.Actions) != len(actions) || lab.Actions[1].Steps[0] != "pip install --no-index ./tools-1.0-py3-none-any.whl" {
		t.Errorf("prepared %+v", lab)
	}
	page.want(http.StatusOK, "POST", "/labs/prepare", source1(repo, commit)) // asks nothing

	if r := page.run(lab, "containers"); r.Status != "failed" || !strings.Contains(r.Output, "docker") || strings.Contains(r.Output, "$ echo") {
		t.Errorf("without a container engine: %+v", r)
	}
	venv := filepath.Join(rt.dir, "envs", "lab-course", venvName)
	if r := page.run(lab, "setup"); r.Status != "succeeded" || !strings.Contains(r.Output, "\n42 "+venv+"/") {
		t.Errorf("setup: %+v", r)
	}
	if entries, _ := os.ReadDir(astray); len(entries) > 0 {
		t.Errorf("pip installed into %v", entries)
	}
	if r := page.run(lab, "serve"); r.Status != "succeeded" || !strings.HasSuffix(r.Output, "\n[1 process left running]\n") {
		t.Errorf("serve: %+v", r)
	}
	for i, name := range []string{"demo", "again"} {
		r := page.run(lab, name)
		want := fmt.Sprintf("\x1b[32m== agent ==\x1b[0m\n\r  0%% [          ]\r 10%% [#         ]")
		if r.Status != "succeeded" || !strings.Contains(r.Output, want) || !strings.Contains(r.Output, fmt.Sprintf("\nmodel call %d\n[done", 3*i+3)) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	r := page.start(lab, "ask")
	page.wrote(r.RunID, "\nthinking\n")
	if r := page.stop(r.RunID); r.Status != "stopped" || !strings.Contains(r.Output, "\ninterrupted, state saved\n[stopped") {
		t.Errorf("ask: %+v", r)
	}
	if r := page.run(lab, "slow"); r.Status != "timed_out" {
		t.Errorf("slow: %+v", r)
	}
	r = page.start(lab, "download") // the index never answers
	page.wrote(r.RunID, "\n.+ [^\n]*(index|no-such-package)")
	begun := time.Now()
	if r := page.stop(r.RunID); r.Status != "stopped" || time.Since(begun) > 10*time.Second {
		t.Errorf("download: stopped after %v: %+v", time.Since(begun), r)
	}
	if r := page.run(lab, "crash"); *r.ExitCode != 1 || !strings.Contains(r.Output, "ValueError: no") {
		t.Errorf("crash: %+v", r)
	}
	if r := page.run(lab, "teardown"); r.Status != "succeeded" || !strings.HasSuffix(untimed(r.Output), "\nremoved\n[done · T s]\n") {
		t.Errorf("teardown: %+v", r)
	}
	if list := page.list(""); len(list) != len(actions) {
		t.Errorf("%d runs are listed", len(list))
	}
	await(t, "the server's end", func() bool { all, _ := childrenOf(rt.cmd.Process.Pid); return all == 0 })
}
