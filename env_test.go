package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeVenv is the part of a scripted Python that makes a virtual environment
// quickly. Its last argument is where.
const fakeVenv = `for venv; do :; done
mkdir -p "$venv/bin" "$venv/lib/$(basename "$(readlink -f ` + systemPython + `)")" || exit 1
ln -s ` + systemPython + ` "$venv/bin/python"
echo "version = 3.11.2" > "$venv/pyvenv.cfg"
echo "command = python3 -m venv $venv" >> "$venv/pyvenv.cfg"
printf '#!/bin/sh\necho %s\n' "$venv" > "$venv/bin/pip"
chmod 755 "$venv/bin/pip"`

// scriptedPython writes a Python that answers for itself, notes in dir/calls
// what it is asked to do, and makes virtual environments as venv says.
func scriptedPython(t testing.TB, dir, name, venv string) string {
	t.Helper()
	return writeScript(t, dir, name, `echo "$0 $*" >> `+filepath.Join(dir, "calls")+`
case "$1" in -I|-c) echo 'agent-runtime-python {"version": [3, 11, 2], "missing": []}'; exit;; esac
`+venv)
}

// madeBy counts how often the interpreter in dir was asked for an environment.
func madeBy(t testing.TB, dir string) int {
	t.Helper()
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(calls), " -m venv ")
}

// testEnvironments are environments in a new data folder, made by python.
// Tools see no more of this machine than its usual folders.
func testEnvironments(t testing.TB, python string) *environments {
	t.Helper()
	needSystemPython(t)
	e := newEnvironments(t.TempDir(), config{python: python}, newProcesses(), slog.New(slog.DiscardHandler))
	e.setEnviron([]string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "PYTHONHOME=/nonexistent"})
	t.Cleanup(e.close)
	return e
}

func (e *environments) setEnviron(environ []string) {
	e.environ = cleanEnvironment(environ)
	e.pythons.env = e.environ
}

// left are the names in the folder of environments.
func left(t testing.TB, e *environments) []string {
	t.Helper()
	entries, err := os.ReadDir(e.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func wantLeft(t testing.TB, e *environments, want ...string) {
	t.Helper()
	if got := left(t, e); !slices.Equal(got, append([]string{}, want...)) {
		t.Errorf("the folder of environments holds %q, want %q", got, want)
	}
}

func putFile(t testing.TB, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestSweepRemovesWhatAKilledProgramLeft(t *testing.T) {
	t.Parallel()
	e := testEnvironments(t, scriptedPython(t, t.TempDir(), "python3", fakeVenv))
	if _, err := e.create(t.Context(), "whole", ""); err != nil {
		t.Fatal(err)
	}
	for _, half := range []string{makingPrefix + "LEFT/.venv/bin/python", gonePrefix + "LEFT/bin/pip",
		"lab-half/.unfinished", "lab-half/.venv/bin/python", "lab-barely/.unfinished", "lab-kept/.unfinished", "lab-kept/beside", "other/file"} {
		putFile(t, filepath.Join(e.dir, half), "")
	}
	if e.ready("half") {
		t.Error("an environment that is not finished is ready")
	}
	spare, err := e.spare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, filepath.Join(e.dir, "lab-busy", venvName, "bin", "python"), "")
	unlock, err := lockFile(filepath.Join(e.dir, "lab-busy", unfinishedName), 0)
	if err != nil {
		t.Fatal(err)
	}
	other := testEnvironments(t, "") // as a program started beside the first
	other.dir = e.dir
	other.sweep()
	wantLeft(t, e, filepath.Base(spare.folder), "lab-busy", "lab-kept", "lab-whole", "other")
	if err := e.adopt(t.Context(), spare, "adopted"); err != nil || !e.ready("adopted") {
		t.Errorf("adopt after another program has swept = %v", err)
	}
	unlock()
	other.sweep()
	wantLeft(t, e, "lab-adopted", "lab-kept", "lab-whole", "other")
	if !e.ready("whole") {
		t.Errorf("a whole environment was swept: %s", e.fault("whole"))
	}
}

func TestEnvironmentNamesMapToFoldersAndBack(t *testing.T) {
	t.Parallel()
	e := testEnvironments(t, scriptedPython(t, t.TempDir(), "python3", fakeVenv))
	if all, err := e.list(); len(all) != 0 || err != nil {
		t.Errorf("list without a folder = %v, %v, want none", all, err)
	}
	ids := []string{"B", "a", "a.", "a..b", "lab-a", "lab-lab-", "x_" + strings.Repeat("y", 62)}
	slices.Sort(ids)
	for _, id := range ids {
		if created, err := e.create(t.Context(), id, ""); !created || err != nil {
			t.Fatalf("create(%s) = %v, %v, want true, nil", id, created, err)
		}
	}
	if err := os.Remove(e.python("a")); err != nil {
		t.Fatal(err)
	}
	putFile(t, filepath.Join(e.dir, "lab-empty", "file"), "")
	putFile(t, filepath.Join(e.dir, "lab-.bad", venvName, "pyvenv.cfg"), "")
	all, err := e.list()
	if err != nil {
		t.Fatal(err)
	}
	for i, env := range all {
		if i >= len(ids) || env != (environment{id: ids[i], python: "3.11.2", ready: ids[i] != "a"}) {
			t.Errorf("entry %d of the list = %+v, want one of %q", i, env, ids)
		}
	}
	if len(all) != len(ids) {
		t.Errorf("the list has %d entries, want %d", len(all), len(ids))
	}
	for _, bad := range []string{"", ".", "..", ".a", "-a", "a/b", "../a", `a\b`, "a b", "a\n", "é", "a\x00", strings.Repeat("a", 65)} {
		if e.path(bad) != "" || e.python(bad) != "" || e.ready(bad) || e.broken(bad) {
			t.Errorf("%q is taken for an environment", bad)
		}
		if _, err := e.create(t.Context(), bad, ""); !isKind(err, kindInvalid) {
			t.Errorf("create(%q) = %v, want it refused", bad, err)
		}
		if err := e.remove(bad); !isKind(err, kindInvalid) {
			t.Errorf("remove(%q) = %v, want it refused", bad, err)
		}
	}
}

func TestFolderOfAnotherNameIsNotTaken(t *testing.T) {
	t.Parallel()
	e := testEnvironments(t, "")
	putFile(t, filepath.Join(e.dir, "lab-A", "file"), "")
	entries, err := os.ReadDir(e.dir)
	if err != nil {
		t.Fatal(err)
	}
	// A disk that does not tell them apart answers for lab-a with lab-A.
	if listed(entries, "lab-a") || !listed(entries, "lab-A") {
		t.Error("a name that differs in capitals is taken for the folder's")
	}
}

func TestRemoveTakesTheWholeEnvironment(t *testing.T) {
	t.Parallel()
	e := testEnvironments(t, scriptedPython(t, t.TempDir(), "python3", fakeVenv))
	if err := e.remove("hello"); !isKind(err, kindNotFound) {
		t.Errorf("remove of none = %v, want not found", err)
	}
	if _, err := e.create(t.Context(), "hello", ""); err != nil {
		t.Fatal(err)
	}
	if err := e.remove("hello"); err != nil || e.ready("hello") {
		t.Errorf("remove = %v, want it gone", err)
	}
	wantLeft(t, e)
	outside := t.TempDir()
	putFile(t, filepath.Join(outside, "file"), "")
	if err := errors.Join(os.MkdirAll(e.folder("link"), 0o700), os.Symlink(outside, e.path("link"))); err != nil {
		t.Fatal(err)
	}
	if err := e.remove("link"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Errorf("what a link pointed to was removed: %v", err)
	}
}
