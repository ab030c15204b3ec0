package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const systemPython = "/usr/bin/python3"

// writeScript writes a shell script called name in dir, and returns its path.
func writeScript(t testing.TB, dir, name, body string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	// A child started meanwhile would hold the file open for writing, and
	// then it cannot be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func needSystemPython(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(systemPython); err != nil {
		t.Skip(err)
	}
}

// scriptedPythons sees dir alone on PATH, and asks each interpreter for at
// most a short while.
func scriptedPythons(dir, configured string) *pythons {
	p := newPythons(newProcesses(), []string{"PATH=" + dir}, configured)
	p.limit = time.Minute
	return p
}

func TestUnusablePythonIsNamedWithWhatToInstall(t *testing.T) {
	t.Parallel()
	needSystemPython(t)
	for _, c := range []struct{ name, body, want string }{
		{"silent", "exit 0", "printed nothing"},
		{"failing", "echo 'Python was not found; run it from the store' >&2; exit 9", "it said: Python was not found; run it from the store"},
		{"failing silently", "exit 3", "exit status 3"},
		{"another program", "echo hello", "it said: hello"},
		{"too old", `case "$1" in -I) exit 2;; esac; echo 'agent-runtime-python {"version": [2, 7, 18]}'`, "too old: 3.8"},
		{"old", `echo 'agent-runtime-python {"version": [3, 7, 1], "missing": []}'`, "Python 3.7.1"},
		{"garbled", `echo 'agent-runtime-python {"version": "x'`, "is not usable as Python"},
		{"not a program", "exec /nonexistent/python", "is not usable as Python"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeScript(t, dir, "python3", c.body)
			_, err := scriptedPythons(dir, "").choose(t.Context(), "")
			if !isKind(err, kindMissingTool) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), installHint("python3")) {
				t.Errorf("choose = %v, want a missing tool, %q and %q", err, c.want, installHint("python3"))
			}
		})
	}
}

func TestPythonThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeScript(t, dir, "python3", "/bin/sleep 600 & /bin/sleep 600")
	p := scriptedPythons(dir, "")
	p.limit = 100 * time.Millisecond
	begun := time.Now()
	_, err := p.choose(t.Context(), "")
	if !isKind(err, kindMissingTool) || !strings.Contains(err.Error(), "did not answer within 100ms") {
		t.Errorf("choose = %v, want that it did not answer", err)
	}
	if took := time.Since(begun); took > probeLimit {
		t.Errorf("choose took %v, want less than %v", took, probeLimit)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.choose(ctx, ""); err != context.Canceled {
		t.Errorf("choose after the caller left = %v, want context.Canceled", err)
	}
}

func TestPythonWithoutVenvIsIncomplete(t *testing.T) {
	t.Parallel()
	needSystemPython(t)
	dir := t.TempDir()
	refuse := `case "$*" in *ensurepip*|*venv*) exit 1;; esac; exec ` + systemPython + ` "$@"`
	for _, name := range []string{"python3", "python3.11"} {
		writeScript(t, dir, name, refuse)
	}
	writeScript(t, dir, "python3.9", `echo 'agent-runtime-python {"version": [3, 9, 2], "missing": ["ensurepip"]}'`)
	p := scriptedPythons(dir, "")
	for _, c := range []struct{ python, lacks, pkg string }{
		{"python3", "venv or ensurepip", "python3-venv"},
		{"python3.9", "ensurepip", "python3.9-venv"},
	} {
		found, err := p.choose(t.Context(), c.python)
		if err != nil {
			t.Errorf("choose(%s) = %v", c.python, err)
			continue
		}
		err = found.incomplete()
		if !isKind(err, kindMissingTool) || !strings.Contains(err.Error(), "lacks "+c.lacks) || !strings.Contains(err.Error(), installHint(c.pkg)) {
			t.Errorf("incomplete(%s) = %v, want what it lacks and %q", c.python, err, installHint(c.pkg))
		}
	}
}

func TestPythonIsTheConfiguredOneElseThatOnPath(t *testing.T) {
	t.Parallel()
	needSystemPython(t)
	dir, empty := t.TempDir(), t.TempDir()
	own := writeScript(t, dir, "mine", `exec `+systemPython+` "$@"`)
	usual := writeScript(t, dir, "python", `exec `+systemPython+` "$@"`)
	for _, c := range []struct{ name, dir, configured, asked, path, fault string }{
		{"on PATH", dir, "", "", usual, ""},
		{"configured by name", dir, "mine", "", own, ""},
		{"configured by path", empty, own, "", own, ""},
		{"asked for", dir, "mine", usual, usual, ""},
		{"none", empty, "", "", "", "Python was not found on PATH"},
		{"configured but missing", dir, "other", "", "", "The Python other was not found"},
		{"path that is gone", dir, "/nonexistent/python3", "", "", "could not be started"},
		{"relative", dir, "bin/python3", "", "", "not a full path"},
	} {
		found, err := scriptedPythons(c.dir, c.configured).choose(t.Context(), c.asked)
		switch {
		case c.fault == "" && (err != nil || found.path != c.path || found.version[0] != 3):
			t.Errorf("%s: choose = %v, %v, want %s", c.name, found, err, c.path)
		case c.fault != "" && (!isKind(err, kindMissingTool) || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: choose = %v, want %q", c.name, err, c.fault)
		}
	}
}

func TestPythonIsAskedOnceInAWhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := filepath.Join(dir, "record")
	writeScript(t, dir, "python3", `echo asked >> `+record+`; echo 'agent-runtime-python {"version": [3, 12, 1], "missing": []}'`)
	p := scriptedPythons(dir, "")
	now := time.Now()
	p.now = func() time.Time { return now }
	for range 3 {
		if _, err := p.choose(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(probeKept)
	if _, err := p.choose(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(record)
	if got := strings.Count(string(data), "asked"); got != 2 {
		t.Errorf("the interpreter was asked %d times, want 2", got)
	}
}

func TestPythonOfAVersionIsFoundOrThoseThereAreListed(t *testing.T) {
	t.Parallel()
	shims, dir := t.TempDir(), t.TempDir()
	says := func(version string) string {
		return `echo 'agent-runtime-python {"version": [` + strings.ReplaceAll(version, ".", ", ") + `], "missing": []}'`
	}
	usual := writeScript(t, dir, "python3", says("3.11.2"))
	writeScript(t, shims, "python3.12", "echo 'command not found' >&2; exit 127")
	twelve := writeScript(t, dir, "python3.12", says("3.12.7"))
	writeScript(t, dir, "python3.13", says("3.10.0")) // not what its name says
	p := scriptedPythons(shims+":"+dir, "")
	for _, c := range []struct {
		version, path string
		kind          kind
	}{
		{"3.11", usual, 0},
		{"3", usual, 0},
		{"3.11.2", usual, 0},
		{"3.12", twelve, 0},
		{"3.11.3", "", kindMissingTool},
		{"3.13", "", kindMissingTool},
		{"2.7", "", kindMissingTool},
		{"", "", kindInvalid},
		{"3.x", "", kindInvalid},
		{"3.11; true", "", kindInvalid},
		{"-3.11", "", kindInvalid},
		{"3.11\n", "", kindInvalid},
		{"3.11.2.1", "", kindInvalid},
	} {
		found, err := p.find(t.Context(), c.version)
		if c.path != "" && (err != nil || found.path != c.path) || c.path == "" && !isKind(err, c.kind) {
			t.Errorf("find(%q) = %v, %v, want %q", c.version, found, err, c.path)
		}
	}
	_, err := p.find(t.Context(), "3.14")
	for _, want := range []string{"Python 3.14 was not found", "3.11.2 (" + usual, "3.12.7 (" + twelve} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("find(3.14) = %v, want %q in it", err, want)
		}
	}
}
