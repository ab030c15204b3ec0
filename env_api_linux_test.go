package main

// Environments as pages and the command line see them.

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBrokenEnvironmentIsMadeAnewAndTold(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")))
	page := site{rt: rt, origin: "http://localhost:3000"}
	// An id that starts like the folders of environments is found again too.
	repo, commit := git.addRepo("dangling.git", map[string]string{manifestName: labManifest(t, "lab-lab-x", shellAction("which", "command -v python; python -c 'print(6*7)'"))})
	lab := page.prepare(repo, commit)
	venv := filepath.Join(rt.dir, "envs", "lab-lab-lab-x", venvName)
	if r := page.run(lab, "which"); !strings.Contains(r.Output, "\n"+venv+"/bin/python\n42\n") {
		t.Errorf("the run is %+v", r)
	}
	python := filepath.Join(venv, "bin", "python")
	if err := os.Remove(python); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere/python3", python); err != nil {
		t.Fatal(err)
	}
	if r := page.tryStart(lab, "which"); r.status != http.StatusConflict || !strings.Contains(r.detail(), "prepare the lab again") {
		t.Errorf("with a dangling interpreter: %d %s", r.status, r.body)
	}
	if out, code := rt.command("env", "list"); code != 0 || !strings.Contains(out, "lab-lab-x") || !strings.Contains(out, "broken") {
		t.Errorf("env list: %d\n%s", code, out)
	}
	again := asJSON[prepared](t, page.want(http.StatusOK, "POST", "/labs/prepare", source1(repo, commit)))
	if len(again.Notices) != 1 || again.Notices[0] != rebuiltNotice {
		t.Errorf("the notices are %q", again.Notices)
	}
	if r := page.run(lab, "which"); r.Status != "succeeded" {
		t.Errorf("the run is %+v", r)
	}
	if again := asJSON[prepared](t, page.want(http.StatusOK, "POST", "/labs/prepare", source1(repo, commit))); len(again.Notices) != 0 {
		t.Errorf("the next notices are %q", again.Notices)
	}
	rt.wantNothingHalfMade()
}

func TestYesIsKeptWhenTheEnvironmentFails(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	state := t.TempDir()
	hold, broken := filepath.Join(state, "hold"), filepath.Join(state, "broken")
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, fmt.Sprintf(
		"while [ -e %s ]; do sleep 0.02; done; if [ -e %s ]; then echo 'No module named ensurepip' >&2; exit 1; fi", hold, broken))))
	page := site{rt: rt, origin: "http://localhost:3000"}
	repo, commit := git.addRepo("fails.git", map[string]string{manifestName: labManifest(t, "fails", shellAction("a", "true"))})
	for _, path := range []string{hold, broken} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	from := rt.shown()
	answer := page.later("POST", "/labs/prepare", source1(repo, commit))
	rt.answerNext(from, "y\n")
	await(t, "the approval", func() bool { return strings.Contains(rt.screen.String()[from:], "lab approved") })
	page.want(http.StatusOK, "GET", "/labs/runs", nil) // the making is in nobody's way
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	if r := <-answer; r.status != http.StatusInternalServerError || !strings.Contains(r.detail(), "ensurepip") || r.header.Get("Access-Control-Allow-Origin") != page.origin {
		t.Errorf("an environment that fails: %d %v %s", r.status, r.header, r.body)
	}
	if entries, _ := os.ReadDir(filepath.Join(rt.dir, "envs")); len(entries) > 0 {
		t.Errorf("left of it is %v", entries)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	page.want(http.StatusOK, "POST", "/labs/prepare", source1(repo, commit)) // asks nothing

	// One that cannot be made needs no answer.
	other, otherCommit := git.addRepo("never.git", map[string]string{manifestName: labManifest(t, "never", shellAction("a", "true"))})
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := page.ask(other, otherCommit); r.status != http.StatusInternalServerError {
		t.Errorf("nobody answered, and it came to %d %s", r.status, r.body)
	}
}

func TestEnvironmentCommands(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	python := quickPython(t, "")
	env := programEnv(dir, "AGENT_RUNTIME_PYTHON="+python)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"env", "list"}, 0, "There is no environment."},
		{[]string{"env", "create", "one"}, 0, "Made " + filepath.Join(dir, "envs", "lab-one", venvName)},
		{[]string{"env", "create", "one"}, 0, "was there already"},
		{[]string{"env", "create", "two", "--python", python}, 0, "Made "},
		{[]string{"env", "list"}, 0, "one  "},
		{[]string{"env", "create", "three", "--python", "no-such-python"}, 1, "no-such-python"},
		{[]string{"env", "create", "four", "--python", "2.1"}, 1, "2.1"},
		{[]string{"env", "create", "a/b"}, 1, "letters"},
		{[]string{"env", "create"}, 2, "env create"},
		{[]string{"env", "delete", "one"}, 0, "Deleted"},
		{[]string{"env", "delete", "one"}, 1, "no environment"},
		{[]string{"env", "delete", "../one"}, 1, "letters"},
	} {
		out, code := runProgram(t, env, c.args...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%q: status %d, %q; want %d, %q", c.args, code, out, c.code, c.says)
		}
	}
	if found := halfMade(t, dir); len(found) > 0 {
		t.Errorf("half-made: %q", found)
	}
}
