package main

// Runs through the API of the real program: what pages see of an action, and
// what becomes of its processes.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// testAction is an action of a lab made for a test.
type testAction struct {
	name    string
	timeout int // 0: the default
	steps   [][]string
}

// shell is a step that runs a script.
func shell(script string) []string { return []string{"sh", "-c", script} }

// shellAction is an action of one script.
func shellAction(name, script string) testAction {
	return testAction{name: name, steps: [][]string{shell(script)}}
}

// labManifest writes a lab.toml.
func labManifest(t testing.TB, id string, actions ...testAction) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "schema = 1\nid = %q\ntitle = \"The lab %s\"\n", id, id)
	for _, a := range actions {
		steps, err := json.Marshal(a.steps)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n[actions.%s]\nlabel = \"Do %s\"\nsteps = %s\n", a.name, a.name, steps)
		if a.timeout > 0 {
			fmt.Fprintf(&b, "timeout = %d\n", a.timeout)
		}
	}
	return b.String()
}

// in is the site as a subtest uses it.
func (s site) in(t testing.TB) site {
	rt := *s.rt
	rt.t = t
	s.rt = &rt
	return s
}

// prepareNew makes a lab of these actions and files and has the site prepare it.
func (s site) prepareNew(git *gitServer, id string, files []gitServerFile, actions ...testAction) (lab prepared, repo string) {
	s.rt.t.Helper()
	repo, _ = git.addRepo(id+".git", map[string]string{"README": "a lab\n"})
	commit := git.commitFiles(id+".git", append(files, gitServerFile{path: manifestName, data: labManifest(s.rt.t, id, actions...)}))
	return s.prepare(repo, commit), repo
}

// ask prepares a lab that may or may not be approved, and gives the answer.
func (s site) ask(repo, commit string) reply {
	return s.call(s.rt.t.Context(), "POST", "/labs/prepare", map[string]string{"repo": repo, "commit": commit})
}

// tryStart starts an action that may be refused.
func (s site) tryStart(lab prepared, action string) reply {
	return s.call(s.rt.t.Context(), "POST", "/labs/runs", map[string]string{"lab_id": lab.LabID, "commit": lab.Commit, "action": action})
}

func (s site) stop(id string) runState {
	s.rt.t.Helper()
	return asJSON[runState](s.rt.t, s.want(http.StatusOK, "POST", "/labs/runs/"+id+"/stop", nil))
}

func (s site) list(query string) []runState {
	s.rt.t.Helper()
	return asJSON[struct{ Runs []runState }](s.rt.t, s.want(http.StatusOK, "GET", "/labs/runs"+query, nil)).Runs
}

// wrote follows a run until its output matches, and returns the groups.
func (s site) wrote(id, pattern string) []string {
	s.rt.t.Helper()
	re := regexp.MustCompile(pattern)
	var groups []string
	s.follow(id, func(r runState) bool {
		groups = re.FindStringSubmatch(r.Output)
		return groups != nil
	})
	return groups
}

// wrotePID follows a run until it has written the number of a process.
func (s site) wrotePID(id, name string) int {
	s.rt.t.Helper()
	pid, err := strconv.Atoi(s.wrote(id, name+"=([0-9]+)\n")[1])
	if err != nil {
		s.rt.t.Fatal(err)
	}
	return pid
}

var durations = regexp.MustCompile(`· [0-9]+\.[0-9] s\]`)

// untimed is output whose durations are the same in every run.
func untimed(output string) string { return durations.ReplaceAllString(output, "· T s]") }

func wantRun(t *testing.T, r runState, status string, code int, output string) {
	t.Helper()
	got := -1
	if r.ExitCode != nil {
		got = *r.ExitCode
	}
	if r.Status != status || got != code {
		t.Errorf("the run %s ended as %s with %d, want %s with %d", r.Action, r.Status, got, status, code)
	}
	if untimed(r.Output) != output {
		t.Errorf("the run %s wrote\n%q, want\n%q", r.Action, untimed(r.Output), output)
	}
}

func wantGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("process %d is still running", pid)
		}
	}
}

func TestActionRunsAsItsManifestSays(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "sitecustomize.py"), []byte("print('INJECTED')\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")), withEnv("PYTHONHOME=/nowhere", "PYTHONPATH="+foreign, "VIRTUAL_ENV=/other",
		"CONDA_PREFIX=/conda", "LD_LIBRARY_PATH=/conda/lib", "AGENT_RUNTIME_TOKEN=secret", "FORCE_COLOR=", "TERM="))
	page := site{rt: rt, origin: "http://localhost:5173"}
	files := []gitServerFile{
		{path: "tool.py", data: "print('tool')\n"},
		{path: "plain", data: "#!/bin/sh\n"},
		{path: "folder/file", data: ""},
		{path: "returns", mode: "100755", data: "#!/bin/sh\r\necho hello\r\n"},
		{path: "returns-env", mode: "100755", data: "#!/usr/bin/env python3\r\nprint(1)\r\n"},
		{path: "machine", mode: "100755", data: "\x7fELF\x02\x01\x01 of another machine"},
		{path: "orphan", mode: "100755", data: "#!/nowhere/python\nprint(1)\n"},
	}
	one := func(name string, argv ...string) testAction { return testAction{name: name, steps: [][]string{argv}} }
	lab, repo := page.prepareNew(git, "runs", files,
		testAction{name: "steps", steps: [][]string{shell("printf one"), {"echo", "two  three", "~", "$HOME", "*"}, {"true"}}},
		testAction{name: "failing", steps: [][]string{shell("echo out; echo err >&2; exit 3"), {"echo", "never"}}},
		shellAction("signal", "kill -9 $$"),
		one("missing", "no-such-program", "x"), one("missing-here", "./no-such-program"), one("a-plain", "./plain"),
		one("a-folder", "./folder"), one("returns", "./returns"), one("returns-env", "./returns-env"), one("machine", "./machine"),
		one("orphan", "./orphan"), one("refused", "refused"),
		one("reads", "python", "-c", "input()"),
		shellAction("variables", "env; ls /proc/self/fd | tr '\\n' ' '; command -v python; python -c 'import sys; print(sys.prefix)'"),
		one("folder", "env"),
		one("letters", "python", "-c", "import os, time\nfor b in 'é日😀\\n'.encode():\n  os.write(1, bytes([b])); time.sleep(0.02)"),
		shellAction("invalid", `printf 'a\377b\342\202'`),
		one("progress", "python", "-c", "import sys\nfor i in range(200000): sys.stdout.write(f'\\r{i:06d}')\nprint('FINISHED')"),
		shellAction("two-parts", "echo one; while [ ! -e go ]; do sleep 0.02; done; rm go; echo two"),
		one("tool", "python", "tool.py"),
		testAction{name: "vanish", steps: [][]string{shell(`rm -rf "$PWD"`), {"true"}}},
	)
	refused := filepath.Join(rt.dir, "envs", "lab-runs", venvName, "bin", "refused")
	if err := os.WriteFile(refused, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	t.Run("each step is echoed and closed", func(t *testing.T) {
		r := page.in(t).run(lab, "steps")
		wantRun(t, r, "succeeded", 0, "$ sh -c 'printf one'\none\n[done · T s]\n"+
			"$ echo 'two  three' '~' '$HOME' '*'\ntwo  three ~ $HOME *\n[done · T s]\n$ true\n[done · T s]\n")
		start, err1 := time.Parse(time.RFC3339, r.StartedAt)
		if r.EndedAt == nil {
			t.Fatal("the run has no end")
		}
		end, err2 := time.Parse(time.RFC3339, *r.EndedAt)
		if err1 != nil || err2 != nil || end.Before(start) || !strings.HasSuffix(r.StartedAt, "+00:00") {
			t.Errorf("the run lasted from %s to %s", r.StartedAt, *r.EndedAt)
		}
		if r.LabID != "runs" || r.Commit != lab.Commit || r.NextOffset != utf8.RuneCountInString(r.Output) || r.Truncated {
			t.Errorf("the run is %+v", r)
		}
	})
	t.Run("the first step that fails ends the action", func(t *testing.T) {
		wantRun(t, page.in(t).run(lab, "failing"), "failed", 3, "$ sh -c 'echo out; echo err >&2; exit 3'\nout\nerr\n[exit 3 · T s]\n")
		wantRun(t, page.in(t).run(lab, "signal"), "failed", 137, "$ sh -c 'kill -9 $$'\n[exit 137 · T s]\n")
	})
	t.Run("a program that does not start says why", func(t *testing.T) {
		for _, c := range []struct {
			action string
			code   int
			says   string
		}{
			{"missing", 127, "no-such-program: command not found."},
			{"missing-here", 127, "./no-such-program: command not found."},
			{"a-plain", 126, "./plain: not an executable program (a folder, or without the execute permission)."},
			{"a-folder", 126, "./folder: not an executable program (a folder, or without the execute permission)."},
			{"refused", 126, "refused: not an executable program (a folder, or without the execute permission)."},
			{"returns", 126, "./returns: its first line ends with a carriage return (Windows line ends), so its interpreter is not found; save it with LF line ends."},
			{"machine", 126, "./machine: not a program for this machine; a script needs a first line such as #!/bin/sh."},
			{"orphan", 126, `./orphan: the interpreter of its first line, "/nowhere/python", is not found.`},
		} {
			r := page.in(t).run(lab, c.action)
			echo, _, _ := strings.Cut(r.Output, "\n")
			wantRun(t, r, "failed", c.code, fmt.Sprintf("%s\n%s\n[exit %d · T s]\n", echo, c.says, c.code))
		}
		r := page.in(t).run(lab, "returns-env")
		if *r.ExitCode != 127 || !strings.Contains(r.Output, "./returns-env: its first line ends with a carriage return") {
			t.Errorf("a script for env with Windows line ends: %+v", r)
		}
	})
	t.Run("a program that reads gets the end of its input", func(t *testing.T) {
		if r := page.in(t).run(lab, "reads"); *r.ExitCode != 1 || !strings.Contains(r.Output, "EOFError") {
			t.Errorf("the run is %+v", r)
		}
	})
	t.Run("the lab's environment comes first and nothing leaks in", func(t *testing.T) {
		r := page.in(t).run(lab, "variables")
		venv := filepath.Join(rt.dir, "envs", "lab-runs", venvName)
		for _, want := range []string{"\nVIRTUAL_ENV=" + venv + "\n", "\nPYTHONUNBUFFERED=1\n", "\nTERM=xterm-256color\n", "\nCLICOLOR_FORCE=1\n",
			"\n0 1 2 3 " + venv + "/bin/python\n" + venv + "\n"} {
			if !strings.Contains(r.Output, want) {
				t.Errorf("the variables lack %q:\n%s", want, r.Output)
			}
		}
		for _, never := range []string{"INJECTED", "PYTHONHOME", "PYTHONPATH", "conda", "CONDA", "secret", "AGENT_RUNTIME_TOKEN", "AGENT_RUNTIME_RUNTIME_DIR"} {
			if strings.Contains(r.Output, never) {
				t.Errorf("%s reached the action:\n%s", never, r.Output)
			}
		}
	})
	t.Run("a program without a shell is told where it is", func(t *testing.T) {
		r := page.in(t).run(lab, "folder")
		if !strings.Contains(r.Output, "\nPWD="+lab.Path+"\n") || strings.Contains(r.Output, "\nOLDPWD=") {
			t.Errorf("output %q, want PWD=%s and no OLDPWD", r.Output, lab.Path)
		}
	})
	t.Run("letters arrive whole however they were written", func(t *testing.T) {
		page := page.in(t)
		r := page.run(lab, "letters")
		if !strings.HasSuffix(untimed(r.Output), "\né日😀\n[done · T s]\n") {
			t.Errorf("output %q", r.Output)
		}
		if r := page.run(lab, "invalid"); !strings.Contains(r.Output, "\na\ufffdb\ufffd\ufffd\n[done") {
			t.Errorf("output %q", r.Output)
		}
		all := asJSON[runState](t, page.want(200, "GET", "/labs/runs/"+r.RunID, nil))
		for from, i := 0, 0; i < len(all.Output); from++ {
			part := asJSON[runState](t, page.want(200, "GET", fmt.Sprintf("/labs/runs/%s?offset=%d", r.RunID, from), nil))
			if part.Output != all.Output[i:] || part.NextOffset != all.NextOffset {
				t.Fatalf("from offset %d: %q to %d, want %q to %d", from, part.Output, part.NextOffset, all.Output[i:], all.NextOffset)
			}
			_, size := utf8.DecodeRuneInString(all.Output[i:])
			i += size
		}
	})
	t.Run("the last million characters are kept", func(t *testing.T) {
		page := page.in(t)
		r := page.start(lab, "progress")
		page.finish(r.RunID)
		end := asJSON[runState](t, page.want(200, "GET", "/labs/runs/"+r.RunID, nil))
		if n := utf8.RuneCountInString(end.Output); n != 1_000_000 || !end.Truncated || !strings.HasSuffix(untimed(end.Output), "\r199999FINISHED\n[done · T s]\n") {
			t.Errorf("%d characters, truncated %v, the end is %q", n, end.Truncated, end.Output[len(end.Output)-50:])
		}
		first := end.NextOffset - 1_000_000
		for _, c := range []struct {
			offset, want int
			truncated    bool
		}{{first - 1, 1_000_000, true}, {first, 1_000_000, false}, {first + 1, 999_999, false}, {end.NextOffset, 0, false}, {end.NextOffset + 5, 0, false}} {
			part := asJSON[runState](t, page.want(200, "GET", fmt.Sprintf("/labs/runs/%s?offset=%d", r.RunID, c.offset), nil))
			if utf8.RuneCountInString(part.Output) != c.want || part.Truncated != c.truncated || part.NextOffset != end.NextOffset {
				t.Errorf("offset %d: %d characters to %d, truncated %v; want %d, %v", c.offset, len(part.Output), part.NextOffset, part.Truncated, c.want, c.truncated)
			}
		}
	})
	t.Run("wait holds the answer until there is more", func(t *testing.T) {
		page := page.in(t)
		r := page.start(lab, "two-parts")
		page.wrote(r.RunID, "\none\n")
		now := asJSON[runState](t, page.want(200, "GET", "/labs/runs/"+r.RunID, nil))
		if again := asJSON[runState](t, page.want(200, "GET", fmt.Sprintf("/labs/runs/%s?offset=%d", r.RunID, now.NextOffset), nil)); again.Output != "" || again.Status != "running" || again.EndedAt != nil || again.ExitCode != nil {
			t.Errorf("without wait: %+v", again)
		}
		later := page.later("GET", fmt.Sprintf("/labs/runs/%s?offset=%d&wait=30", r.RunID, now.NextOffset), nil)
		if err := os.WriteFile(filepath.Join(lab.Path, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if held := asJSON[runState](t, <-later); !strings.HasPrefix(held.Output, "two\n") {
			t.Errorf("with wait: %+v", held)
		}
		page.finish(r.RunID)
		for _, query := range []string{"offset=-1", "offset=x", "offset=1.5", "offset=", "wait=-1", "wait=31", "wait=x", "wait=", "wait=NaN"} {
			page.want(http.StatusUnprocessableEntity, "GET", "/labs/runs/"+r.RunID+"?"+query, nil)
		}
		page.want(http.StatusOK, "GET", "/labs/runs/"+r.RunID+"?offset=999999&wait=30", nil) // at once: the run has ended
	})
	t.Run("one action at a time", func(t *testing.T) {
		page := page.in(t)
		other := site{rt: page.rt, origin: "http://127.0.0.1:8080"}
		if r := other.tryStart(lab, "steps"); r.status != http.StatusForbidden {
			t.Errorf("a site that approved nothing gets %d %s", r.status, r.body)
		}
		other.prepare(repo, lab.Commit)
		r := page.start(lab, "two-parts")
		mine, theirs := page.tryStart(lab, "steps"), other.tryStart(lab, "steps")
		if mine.status != http.StatusConflict || !strings.Contains(mine.detail(), "two-parts") {
			t.Errorf("a second action gets %d %s", mine.status, mine.body)
		}
		if theirs.status != http.StatusConflict || strings.Contains(theirs.detail(), "two-parts") {
			t.Errorf("another site's action gets %d %s", theirs.status, theirs.body)
		}
		for method, path := range map[string]string{"GET": "/labs/runs/" + r.RunID, "POST": "/labs/runs/" + r.RunID + "/stop"} {
			other.want(http.StatusNotFound, method, path, nil)
		}
		if list := other.list(""); len(list) != 0 {
			t.Errorf("another site lists %+v", list)
		}
		page.stop(r.RunID)
		if list := page.list("?lab_id=other"); len(list) != 0 {
			t.Errorf("runs of a lab that has none: %+v", list)
		}
		list := page.list("?lab_id=runs")
		if list[0].Action != "steps" || list[len(list)-1].RunID != r.RunID || list[0].Output != "" || list[0].NextOffset != 0 {
			t.Errorf("the list goes from %+v to %+v", list[0], list[len(list)-1])
		}
		if r := page.tryStart(lab, "nothing"); r.status != http.StatusNotFound || !strings.Contains(r.detail(), "steps") {
			t.Errorf("an unknown action gets %d %s", r.status, r.body)
		}
		for _, l := range []prepared{{LabID: "runs", Commit: strings.Repeat("0", 40)}, {LabID: "other", Commit: lab.Commit}} {
			if r := page.tryStart(l, "steps"); r.status != http.StatusConflict {
				t.Errorf("a lab that is not prepared gets %d %s", r.status, r.body)
			}
		}
		page.want(http.StatusUnprocessableEntity, "POST", "/labs/runs", map[string]any{"lab_id": "runs", "commit": lab.Commit})
		page.want(http.StatusUnprocessableEntity, "POST", "/labs/runs", map[string]any{"lab_id": 1, "commit": lab.Commit, "action": "steps"})
	})
	t.Run("changed files are told before they run", func(t *testing.T) {
		page := page.in(t)
		if err := os.WriteFile(filepath.Join(lab.Path, "tool.py"), []byte("print('changed')\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		wantRun(t, page.run(lab, "tool"), "succeeded", 0, "[changed since the approved commit: tool.py]\n$ python tool.py\nchanged\n[done · T s]\n")
		again := asJSON[prepared](t, page.ask(repo, lab.Commit))
		if len(again.Modified) != 1 || again.Modified[0] != "tool.py" {
			t.Errorf("modified is %q", again.Modified)
		}
	})
	t.Run("a lab that removed its own folder is fetched again", func(t *testing.T) {
		page := page.in(t)
		r := page.run(lab, "vanish")
		if r.Status != "failed" || !strings.Contains(r.Output, "the folder it runs in") {
			t.Errorf("the run is %+v", r)
		}
		if r := page.tryStart(lab, "tool"); r.status != http.StatusConflict || !strings.Contains(r.detail(), "prepare the lab again") {
			t.Errorf("without its folder: %d %s", r.status, r.body)
		}
		page.list("")
		if err := os.WriteFile(lab.Path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := page.ask(repo, lab.Commit); r.status != http.StatusConflict || !strings.Contains(r.detail(), "in the way") {
			t.Errorf("with a file in its place: %d %s", r.status, r.body)
		}
		if err := os.Remove(lab.Path); err != nil {
			t.Fatal(err)
		}
		page.want(http.StatusOK, "POST", "/labs/prepare", map[string]string{"repo": repo, "commit": lab.Commit})
		wantRun(t, page.run(lab, "tool"), "succeeded", 0, "$ python tool.py\ntool\n[done · T s]\n")
	})
}

func TestStepAndStopEndWhatTheyShould(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")), withEnv("AGENT_RUNTIME_LAB_STOP_GRACE=1"))
	page := rt.pair("https://course.example", scopeActions)
	type check struct {
		name    string
		actions []testAction
		run     func(t *testing.T, page site, lab prepared)
	}
	checks := []check{
		{"deaf", []testAction{{name: "deaf", steps: [][]string{
			shell("trap '' INT TERM; sh -c 'trap \"\" INT TERM; echo child=$$; while :; do sleep 0.05; done' & echo leader=$$; while :; do sleep 0.05; done"), {"echo", "never"}}}},
			func(t *testing.T, page site, lab prepared) {
				r := page.start(lab, "deaf")
				child, leader := page.wrotePID(r.RunID, "child"), page.wrotePID(r.RunID, "leader")
				begun := time.Now()
				stopped := page.stop(r.RunID)
				if took := time.Since(begun); took < time.Second || took > 10*time.Second {
					t.Errorf("the stop took %v with a grace of 1 s", took)
				}
				wantGone(t, child, leader)
				if stopped.Status != "stopped" || stopped.ExitCode != nil || strings.Contains(stopped.Output, "never") || !strings.HasSuffix(untimed(stopped.Output), "\n[stopped · T s]\n") {
					t.Errorf("the run is %+v", stopped)
				}
				if again := page.stop(r.RunID); again.Status != "stopped" || *again.EndedAt != *stopped.EndedAt {
					t.Errorf("stopped again it is %+v", again)
				}
			}},
		{"polite", []testAction{shellAction("polite", "trap 'echo cleaned; exit 0' INT; echo ready; while :; do sleep 0.05; done")},
			func(t *testing.T, page site, lab prepared) {
				r := page.start(lab, "polite")
				page.wrote(r.RunID, "\nready\n")
				if r := page.stop(r.RunID); r.Status != "stopped" || !strings.Contains(r.Output, "\ncleaned\n[stopped") {
					t.Errorf("the run is %+v", r)
				}
			}},
		{"escaped", []testAction{shellAction("escaped", "setsid sh -c 'echo away=$$; exec sleep 300' & setsid env -i sh -c 'echo bare=$$; exec sleep 300' & wait")},
			func(t *testing.T, page site, lab prepared) {
				r := page.start(lab, "escaped")
				away, bare := page.wrotePID(r.RunID, "away"), page.wrotePID(r.RunID, "bare")
				page.stop(r.RunID)
				wantGone(t, away, bare)
			}},
		{"slow", []testAction{{name: "slow", timeout: 1, steps: [][]string{{"sleep", "0.5"}, shell("setsid sleep 300 & echo away=$!; sleep 300")}}},
			func(t *testing.T, page site, lab prepared) {
				r := page.run(lab, "slow")
				if r.Status != "timed_out" || r.ExitCode != nil || !regexp.MustCompile(`\n\[timed out · [0-9.]+ s\]\n$`).MatchString(r.Output) {
					t.Errorf("the run is %+v", r)
				}
				wantGone(t, page.wrotePID(r.RunID, "away"))
			}},
		{"background", []testAction{
			shellAction("one", "sleep 300 & echo left=$!; echo done"),
			shellAction("two", "setsid sleep 300 </dev/null >/dev/null 2>&1 & setsid sleep 301 & echo done; exit 4"),
			shellAction("none", "true")},
			func(t *testing.T, page site, lab prepared) {
				begun := time.Now()
				r := page.run(lab, "one")
				left := page.wrotePID(r.RunID, "left")
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("the step took %v", took)
				}
				if !strings.HasSuffix(untimed(r.Output), "\ndone\n[done · T s]\n[1 process left running]\n") || r.Status != "succeeded" {
					t.Errorf("the run is %+v", r)
				}
				if r := page.run(lab, "two"); !strings.HasSuffix(untimed(r.Output), "\ndone\n[exit 4 · T s]\n[2 processes left running]\n") || r.Status != "failed" {
					t.Errorf("the run is %+v", r)
				}
				if r := page.run(lab, "none"); !strings.HasSuffix(untimed(r.Output), "\n[done · T s]\n") {
					t.Errorf("an action that left nothing: %+v", r)
				}
				if !running(left) {
					t.Error("what a finished action left running has ended")
				}
			}},
		{"server", []testAction{
			shellAction("start", "python -c \"import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler); open('port', 'w').write(str(s.server_port)); s.serve_forever()\" & while [ ! -s port ]; do sleep 0.02; done"),
			{name: "use", steps: [][]string{{"python", "-c", "import urllib.request as u\nfor i in range(3): print(u.urlopen('http://127.0.0.1:' + open('port').read()).status)"}}}},
			func(t *testing.T, page site, lab prepared) {
				page.run(lab, "start")
				// The server writes a line about each request to the output of the step that started it.
				if r := page.run(lab, "use"); r.Status != "succeeded" || !strings.Contains(r.Output, "200\n200\n200\n") {
					t.Errorf("the server of the action before does not serve: %+v", r)
				}
			}},
	}
	labs := make([]prepared, len(checks))
	for i, c := range checks {
		labs[i], _ = page.prepareNew(git, c.name, nil, c.actions...)
	}
	t.Run("each", func(t *testing.T) {
		for i, c := range checks {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, page.in(t), labs[i])
			})
		}
	})
	// The end of the runtime ends what finished actions left.
	var left []int
	for _, r := range page.list("?lab_id=background") {
		if r.Action == "one" {
			left = append(left, page.wrotePID(r.RunID, "left"))
		}
	}
	rt.end(syscall.SIGTERM)
	wantGone(t, left...)
}

// childrenOf counts the children of a process, and those that have ended and
// were not waited for.
func childrenOf(pid int) (all, defunct int) {
	for _, e := range processTable() {
		if e.parent == pid {
			all++
			if e.zombie {
				defunct++
			}
		}
	}
	return all, defunct
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestManyRunsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")), withEnv("AGENT_RUNTIME_LAB_STOP_GRACE=5"))
	page := rt.pair("https://course.example", scopeActions)
	lab, _ := page.prepareNew(git, "many", nil,
		testAction{name: "ok", steps: [][]string{{"true"}}},
		testAction{name: "bad", steps: [][]string{{"false"}}},
		testAction{name: "nothing", steps: [][]string{{"no-such-program"}}},
		shellAction("orphan", "(sh -c 'sleep 0.01; exit 3' >/dev/null 2>&1 &) ; exit 0"),
		shellAction("long", "exec sleep 300"))
	bystander := exec.Command("sleep", "300")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = bystander.Process.Kill(), bystander.Wait() }()

	names := []string{"ok", "bad", "nothing", "orphan", "long"}
	round := func(n int) {
		for i := range n {
			name := names[i%len(names)]
			r := page.start(lab, name)
			if name == "long" || i%3 == 0 {
				first := page.later("POST", "/labs/runs/"+r.RunID+"/stop", nil)
				page.stop(r.RunID)
				<-first
			}
			page.finish(r.RunID)
		}
	}
	round(20)
	testClient.CloseIdleConnections()
	files := openFiles(t, rt.cmd.Process.Pid)
	round(200)
	if list := page.list(""); len(list) != 50 || list[49].Action != "long" || list[48].Action != "orphan" {
		t.Errorf("%d runs are kept, the last is %+v", len(list), list[len(list)-1])
	}
	saved, err := filepath.Glob(filepath.Join(rt.dir, "runs", "*"))
	if err != nil || len(saved) != 50 {
		t.Errorf("%d files of runs are kept, %v", len(saved), err)
	}
	for late := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		children, defunct := childrenOf(rt.cmd.Process.Pid)
		if children == 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("the runtime has %d children, %d defunct", children, defunct)
		}
	}
	if now := openFiles(t, rt.cmd.Process.Pid); now > files+8 { // connections come and go
		t.Errorf("the runtime had %d files open and has %d", files, now)
	}
	if !running(bystander.Process.Pid) {
		t.Error("a process that has nothing to do with the runs was ended")
	}
}

// TestOrphanOfOneRunIsNotAnothers: a process that hides its origin was counted,
// and ended, with whatever action ended next.
func TestOrphanOfOneRunIsNotAnothers(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")), withEnv("AGENT_RUNTIME_LAB_STOP_GRACE=1"))
	page := site{rt: rt, origin: "http://localhost:1"}
	server, _ := page.prepareNew(git, "server", nil, shellAction("leave", "(setsid env -i sh -c 'echo bare=$$; exec sleep 300' &); sleep 0.2"))
	other, _ := page.prepareNew(git, "other", nil, shellAction("quick", "true"), shellAction("long", "echo ready; sleep 300"))
	r := page.run(server, "leave")
	bare := page.wrotePID(r.RunID, "bare")
	if !strings.HasSuffix(r.Output, "[1 process left running]\n") {
		t.Errorf("the action that left it says %q", r.Output)
	}
	if r := page.run(other, "quick"); strings.Contains(r.Output, "left running") {
		t.Errorf("another action says %q", r.Output)
	}
	r = page.start(other, "long")
	page.wrote(r.RunID, "\nready\n")
	page.stop(r.RunID)
	if !running(bare) {
		t.Error("the stop of an action ended what another had left")
	}
	rt.end(syscall.SIGTERM)
	wantGone(t, bare)
}

func TestRunsSurviveTheRuntimesEnd(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")), withEnv("AGENT_RUNTIME_LAB_STOP_GRACE=30"))
	page := rt.pair("https://course.example", scopeActions)
	lab, repo := page.prepareNew(git, "lives", nil,
		shellAction("short", "echo é"),
		shellAction("long", "echo pid=$$; setsid sh -c 'echo away=$$; exec sleep 300' & trap 'echo bye; exit 0' INT; while :; do sleep 0.05; done"),
		shellAction("deaf", "trap '' INT; echo pid=$$; while :; do sleep 0.05; done"))
	short := page.run(lab, "short")
	begin := func(action string) (run string, pids []int) {
		r := page.start(lab, action)
		pids = append(pids, page.wrotePID(r.RunID, "pid"))
		if action == "long" {
			pids = append(pids, page.wrotePID(r.RunID, "away"))
		}
		return r.RunID, pids
	}
	restart := func() {
		t.Helper()
		rt = rt.again()
		page.rt = rt
		got := asJSON[runState](t, page.want(200, "GET", "/labs/runs/"+short.RunID, nil))
		if got.Output != short.Output || got.Status != "succeeded" || *got.ExitCode != 0 || *got.EndedAt != *short.EndedAt || got.NextOffset != short.NextOffset {
			t.Errorf("after a restart the run is %+v, want %+v", got, short)
		}
		if r := page.tryStart(lab, "short"); r.status != http.StatusConflict {
			t.Errorf("a lab that was not prepared since the start gets %d %s", r.status, r.body)
		}
		page.want(http.StatusOK, "POST", "/labs/prepare", map[string]string{"repo": repo, "commit": lab.Commit})
	}
	wantStopped := func(id, says string) {
		t.Helper()
		r := page.finish(id)
		if r.Status != "stopped" || r.ExitCode != nil || r.EndedAt == nil || !strings.Contains(untimed(r.Output), says) {
			t.Errorf("the run that was going on is %+v", r)
		}
	}

	id, pids := begin("long") // an orderly end
	held := page.later("GET", "/labs/runs/"+id+"?offset=100000&wait=30", nil)
	rt.end(syscall.SIGTERM)
	<-held
	wantGone(t, pids...)
	restart()
	wantStopped(id, "\nbye\n[stopped · T s]\n")

	id, pids = begin("long") // Ctrl-C in the terminal reaches the runtime alone
	rt.press("\x03")
	<-rt.ended
	if rt.waitErr != nil {
		t.Errorf("after Ctrl-C: %v", rt.waitErr)
	}
	wantGone(t, pids...)
	restart()
	wantStopped(id, "\nbye\n[stopped · T s]\n")

	id, pids = begin("deaf") // a second Ctrl-C does not wait for the grace
	begun := time.Now()
	rt.press("\x03")
	for r := page.tryStart(lab, "short"); r.err == nil && r.status == http.StatusConflict; {
		r = page.tryStart(lab, "short") // until it is shutting down
	}
	rt.press("\x03")
	<-rt.ended
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("two Ctrl-C took %v", took)
	}
	wantGone(t, pids...)
	restart()
	wantStopped(id, "\n[stopped · T s]\n")

	id, pids = begin("long") // a crash
	saved := filepath.Join(rt.dir, "runs", id+runSuffix)
	for late := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if data, _ := os.ReadFile(saved); strings.Contains(string(data), "away=") {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the output of a running action is not saved")
		}
	}
	rt.end(syscall.SIGKILL)
	for _, pid := range pids {
		if !running(pid) {
			t.Errorf("process %d ended by itself, so nothing is shown", pid)
		}
	}
	restart()
	wantGone(t, pids...)
	wantStopped(id, "away="+strconv.Itoa(pids[1])+"\n[stopped · T s]\n")
	if n := strings.Count(page.finish(id).Output, "[stopped"); n != 1 {
		t.Errorf("%d closing lines", n)
	}
	page.run(lab, "short")
}
