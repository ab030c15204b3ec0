package main

import (
	"archive/zip"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// writeWheel writes a package that pip can install without an index.
func writeWheel(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "sample-1.0-py3-none-any.whl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for name, text := range map[string]string{
		"sample.py":                             "def main(): print('sample runs')\n",
		"sample-1.0.dist-info/METADATA":         "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n",
		"sample-1.0.dist-info/WHEEL":            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"sample-1.0.dist-info/RECORD":           "",
		"sample-1.0.dist-info/entry_points.txt": "[console_scripts]\nsample = sample:main\n",
	} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEnvironmentWorksWhereItWasMovedTo(t *testing.T) {
	t.Parallel()
	home, elsewhere := t.TempDir(), t.TempDir()
	target, injected := filepath.Join(elsewhere, "target"), filepath.Join(elsewhere, "injected")
	putFile(t, filepath.Join(home, ".config/pip/pip.conf"), "[global]\nuser = true\ntarget = "+target+"\n[install]\nprefix = "+target+"\n")
	putFile(t, filepath.Join(injected, "sitecustomize.py"), "print('INJECTED')\n")
	environ := []string{"PATH=/usr/bin:/bin", "HOME=" + home, "PYTHONPATH=" + injected, "PYTHONHOME=/nonexistent",
		"VIRTUAL_ENV=/other", "CONDA_PREFIX=/conda", "LD_LIBRARY_PATH=/nonexistent", "PIP_TARGET=" + target, "PIP_USER=1",
		"PIP_NO_INDEX=1", "PIP_DISABLE_PIP_VERSION_CHECK=1"}
	e := testEnvironments(t, systemPython)
	e.setEnviron(environ)
	e.dir = filepath.Join(t.TempDir(), "with a space", "envs")
	spare, err := e.spare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e.ready("hello") {
		t.Error("the environment is ready before it is there")
	}
	begun := time.Now()
	if err := e.adopt(t.Context(), spare, "hello"); err != nil {
		t.Fatal(err)
	}
	t.Logf("adopting took %v", time.Since(begun))
	wantLeft(t, e, "lab-hello")
	if !e.ready("hello") {
		t.Fatalf("the environment is not ready: %s", e.fault("hello"))
	}
	venv := e.path("hello")
	run := func(name string, args ...string) string {
		t.Helper()
		env := childEnvironment(environ, venv)
		path, err := lookPath(name, env)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "INJECTED") {
			t.Fatalf("%s %q = %v\n%s", path, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := run("pip", "--version"); !strings.Contains(got, venv) {
		t.Errorf("pip --version = %q, want it to be of %s", got, venv)
	}
	run("python", "-m", "pip", "install", writeWheel(t, t.TempDir()))
	if got := run("sample"); got != "sample runs" {
		t.Errorf("the installed program says %q", got)
	}
	if got := run("python", "-c", "import sys, sample; print(sys.prefix)"); got != venv {
		t.Errorf("sys.prefix = %q, want %q", got, venv)
	}
	if got := run("sh", "-c", `. "$VIRTUAL_ENV/bin/activate"; command -v python`); got != e.python("hello") {
		t.Errorf("activation finds %q, want %q", got, e.python("hello"))
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("pip installed outside the environment")
	}
	for _, file := range []string{"pyvenv.cfg", "bin/pip", "bin/activate", "bin/activate.csh", "bin/activate.fish"} {
		data, err := os.ReadFile(filepath.Join(venv, file))
		if err != nil || strings.Contains(string(data), makingPrefix) {
			t.Errorf("%s still holds the path it was made at, or cannot be read: %v", file, err)
		}
	}
}

func TestEnvironmentIsMadeOnceHoweverManyAsk(t *testing.T) {
	t.Parallel()
	for _, inPlace := range []bool{false, true} {
		dir := t.TempDir()
		e := testEnvironments(t, scriptedPython(t, dir, "python3", "/bin/sleep 0.2\n"+fakeVenv))
		e.inPlace = inPlace
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if created, err := e.create(t.Context(), "hello", ""); !created || err != nil {
					t.Errorf("create = %v, %v, want true, nil", created, err)
				}
			})
		}
		wg.Wait()
		if created, err := e.create(t.Context(), "hello", ""); created || err != nil {
			t.Errorf("create of a ready one = %v, %v, want false, nil", created, err)
		}
		if got := madeBy(t, dir); got != 1 {
			t.Errorf("in place %v: the environment was made %d times, want once", inPlace, got)
		}
		wantLeft(t, e, "lab-hello")
		if entries, _ := os.ReadDir(e.folder("hello")); len(entries) != 1 {
			t.Errorf("in place %v: the environment's folder holds %v, want %s alone", inPlace, entries, venvName)
		}
	}
}

func TestEnvironmentIsWholeOrNotThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, venv string
		kind       kind
		want       string
	}{
		{"Python's own words", "mkdir -p $3/bin; echo first; echo 'Error: no wheel' >&2; echo; exit 1", kindMissingTool, "it said: Error: no wheel: "},
		{"nothing said", "mkdir -p $3/bin; exit 4", kindMissingTool, "exit status 4"},
		{"success without an interpreter", "mkdir -p $3/bin; echo > $3/pyvenv.cfg", kindMissingTool, "its interpreter is gone"},
		{"success without anything", "exit 0", kindMissingTool, "it has no pyvenv.cfg"},
		{"full disk", "mkdir -p $3/bin; echo 'OSError: [Errno 28] No space left on device' >&2; exit 1", kindFull, "32 MB must be free"},
	} {
		for _, inPlace := range []bool{false, true} {
			e := testEnvironments(t, scriptedPython(t, t.TempDir(), "python3", c.venv))
			e.inPlace = inPlace
			created, err := e.create(t.Context(), "hello", "")
			if !isKind(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: create = %v, %v, want kind %d and %q", c.name, created, err, c.kind, c.want)
			}
			if e.ready("hello") || e.broken("hello") {
				t.Errorf("%s: a half-made environment is taken for one", c.name)
			}
			wantLeft(t, e)
		}
	}
}

func TestIncompletePythonLeavesNoEnvironmentAndACompleteOneWorks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := testEnvironments(t, "python3")
	e.setEnviron([]string{"PATH=" + dir + ":/usr/bin:/bin"})
	refuses := writeScript(t, dir, "python3", `case "$*" in *ensurepip*|*venv*) exit 1;; esac; exec `+systemPython+` "$@"`)
	_, err := e.create(t.Context(), "hello", "")
	if !isKind(err, kindMissingTool) || !strings.Contains(err.Error(), installHint("python3-venv")) {
		t.Errorf("create = %v, want the package to install", err)
	}
	wantLeft(t, e)
	if err := os.Remove(refuses); err != nil {
		t.Fatal(err)
	}
	scriptedPython(t, dir, "python3", fakeVenv)
	if created, err := e.create(t.Context(), "hello", ""); !created || err != nil {
		t.Errorf("create with a complete Python = %v, %v, want true, nil", created, err)
	}
}

func TestFullDiskIsSaidAndLeavesNothing(t *testing.T) {
	t.Parallel()
	e := testEnvironments(t, scriptedPython(t, t.TempDir(), "python3", "mkdir $3; dd if=/dev/zero of=$3/filler bs=1M count=40 2>/dev/null"))
	small := t.TempDir()
	mount := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m", "none", small)
	if out, err := mount.CombinedOutput(); err != nil {
		t.Skipf("no small disk can be made: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", small).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	e.dir = filepath.Join(small, "envs")
	_, err := e.create(t.Context(), "hello", "")
	if !isKind(err, kindFull) || !strings.Contains(err.Error(), "MB must be free") {
		t.Errorf("create on a full disk = %v, want that it is full", err)
	}
	wantLeft(t, e)
}

func TestCancelledEnvironmentLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, inPlace := range []bool{false, true} {
		dir := t.TempDir()
		begun := filepath.Join(dir, "begun")
		e := testEnvironments(t, scriptedPython(t, dir, "python3",
			`mkdir -p $3/bin; echo > $3/pyvenv.cfg; mkfifo `+begun+`.new; mv `+begun+`.new `+begun+`
(while :; do echo > $3/bin/a$((n+=1)); done) & wait`))
		e.inPlace = inPlace
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := e.create(ctx, "hello", ""); !errors.Is(err, context.Canceled) {
				t.Errorf("create = %v, want context.Canceled", err)
			}
		})
		awaitSeen(t, func() bool { _, err := os.Stat(begun); return err == nil })
		if e.ready("hello") {
			t.Error("a half-made environment is ready")
		}
		cancel()
		wg.Wait()
		e.close()
		wantLeft(t, e)
		if _, err := e.create(t.Context(), "hello", ""); !isKind(err, kindNoCapacity) {
			t.Errorf("create after close = %v, want that the program is shutting down", err)
		}
	}
}

// awaitSeen waits until what another process does is seen.
func awaitSeen(t *testing.T, seen func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		if seen() {
			return
		}
		<-tick.C
	}
	t.Fatal("it did not happen within 10 s")
}

func TestSpareIsAdoptedOrDiscarded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := testEnvironments(t, scriptedPython(t, dir, "python3", fakeVenv))
	spare := func() *spareEnv {
		t.Helper()
		s, err := e.spare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := spare()
	if got := len(filepath.Base(s.folder)); got != len(envPrefix)+64 {
		t.Errorf("a spare's folder name has %d bytes, want as many as the longest environment's", got)
	}
	s.discard()
	s.discard()
	(*spareEnv)(nil).discard()
	wantLeft(t, e)

	if err := e.adopt(t.Context(), spare(), "a"); err != nil {
		t.Fatal(err)
	}
	putFile(t, filepath.Join(e.path("a"), "mine"), "kept")
	if err := e.adopt(t.Context(), spare(), "a"); err != nil {
		t.Errorf("adopt where one is ready = %v, want nil", err)
	}
	if _, err := os.Stat(filepath.Join(e.path("a"), "mine")); err != nil {
		t.Errorf("the ready environment was replaced: %v", err)
	}
	if err := e.adopt(t.Context(), spare(), "../b"); !isKind(err, kindInvalid) {
		t.Errorf("adopt under a bad name = %v, want it refused", err)
	}
	if err := e.adopt(t.Context(), nil, "c"); err != nil || !e.ready("c") {
		t.Errorf("adopt of nothing = %v, want the environment made", err)
	}
	wantLeft(t, e, "lab-a", "lab-c")

	e.inPlace = true
	made := madeBy(t, dir)
	s = spare()
	wantLeft(t, e, "lab-a", "lab-c")
	if err := e.adopt(t.Context(), s, "d"); err != nil || !e.ready("d") || madeBy(t, dir) != made+1 {
		t.Errorf("adopt where environments cannot be moved = %v, want it made in its place", err)
	}
}

func TestSpareFailsEarlyWhereThereIsNoPython(t *testing.T) {
	t.Parallel()
	for _, inPlace := range []bool{false, true} {
		e := testEnvironments(t, "")
		e.inPlace = inPlace
		e.setEnviron([]string{"PATH=" + t.TempDir()})
		if _, err := e.spare(t.Context()); !isKind(err, kindMissingTool) {
			t.Errorf("spare = %v, want that Python is missing", err)
		}
		wantLeft(t, e)
	}
}

func TestBrokenEnvironmentIsNotReadyAndIsRebuilt(t *testing.T) {
	t.Parallel()
	for _, inPlace := range []bool{false, true} {
		for _, breakIt := range []struct{ name, shell string }{
			{"interpreter gone", "ln -sfn /nonexistent/python3 bin/python"},
			{"no settings", "rm pyvenv.cfg"},
			{"all gone", "rm -r bin lib pyvenv.cfg"},
			{"another version", "mv lib/python3* lib/python3.1"},
			{"a dangling link in its place", `cd ..; rm -r .venv; ln -s /nonexistent .venv`},
		} {
			e := testEnvironments(t, scriptedPython(t, t.TempDir(), "python3", fakeVenv))
			e.inPlace = inPlace
			if _, err := e.create(t.Context(), "hello", ""); err != nil {
				t.Fatal(err)
			}
			putFile(t, filepath.Join(e.folder("hello"), "beside"), "kept")
			cmd := exec.Command("/bin/sh", "-ec", breakIt.shell)
			cmd.Dir = e.path("hello")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v %s", breakIt.name, err, out)
			}
			if e.ready("hello") || !e.broken("hello") {
				t.Errorf("%s: ready, broken = %v, %v, want false, true", breakIt.name, e.ready("hello"), e.broken("hello"))
			}
			if created, err := e.create(t.Context(), "hello", ""); !created || err != nil {
				t.Errorf("%s: create = %v, %v, want true, nil", breakIt.name, created, err)
			}
			if !e.ready("hello") || e.broken("hello") {
				t.Errorf("%s: the rebuilt environment is not ready: %s", breakIt.name, e.fault("hello"))
			}
			wantLeft(t, e, "lab-hello")
			if _, err := os.Stat(filepath.Join(e.folder("hello"), "beside")); err != nil {
				t.Errorf("%s: what stood beside the environment is gone: %v", breakIt.name, err)
			}
		}
	}
}

func TestUvMakesEnvironmentsAndPythonWhereItFails(t *testing.T) {
	t.Parallel()
	const gone = "no Python"
	uvWorks := `echo "$*" >> "$(dirname "$0")/uv.calls"; ` + fakeVenv
	uvFails := `echo "$*" >> "$(dirname "$0")/uv.calls"; for venv; do :; done; mkdir -p "$venv/bin"; echo 'error: no network' >&2; exit 2`
	for _, c := range []struct {
		name, uv, python string
		system           bool
		call             string // what uv is called with, before the path
		byPython         int
		fault            string
	}{
		{"uv works", uvWorks, "", false, "venv --seed --python PYTHON ", 0, ""},
		{"system packages", uvWorks, "", true, "venv --seed --python PYTHON --system-site-packages ", 0, ""},
		{"uv fails", uvFails, "", false, "venv --seed --python PYTHON ", 1, ""},
		{"uv alone", uvWorks, gone, false, "venv --seed --python 3 ", 0, ""},
		{"uv alone fails", uvFails, gone, false, "venv --seed --python 3 ", 0, "error: no network"},
	} {
		dir := t.TempDir()
		writeScript(t, dir, "uv", c.uv)
		python := ""
		if c.python != gone {
			python = scriptedPython(t, dir, "python3", fakeVenv)
		}
		e := testEnvironments(t, "")
		e.systemSitePackages = c.system
		for _, tool := range []string{"mkdir", "ln", "chmod", "dirname", "basename", "readlink"} {
			if err := os.Symlink("/bin/"+tool, filepath.Join(dir, tool)); err != nil {
				t.Fatal(err)
			}
		}
		e.setEnviron([]string{"PATH=" + dir})
		_, err := e.create(t.Context(), "hello", "")
		if c.fault == "" && (err != nil || !e.ready("hello")) || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: create = %v, want %q", c.name, err, c.fault)
		}
		calls, _ := os.ReadFile(filepath.Join(dir, "uv.calls"))
		if want := strings.ReplaceAll(c.call, "PYTHON", python); !strings.HasPrefix(string(calls), want+e.dir) {
			t.Errorf("%s: uv was called with %q, want %q and a path", c.name, calls, want)
		}
		if got := madeBy(t, dir); got != c.byPython {
			t.Errorf("%s: Python made %d environments, want %d", c.name, got, c.byPython)
		}
	}
}

func TestSystemSitePackagesAreAskedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := testEnvironments(t, scriptedPython(t, dir, "python3", fakeVenv))
	e.systemSitePackages = true
	if _, err := e.create(t.Context(), "hello", ""); err != nil {
		t.Fatal(err)
	}
	calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
	if !strings.Contains(string(calls), "-m venv --system-site-packages "+e.dir) {
		t.Errorf("Python was called with %q, want --system-site-packages", calls)
	}
}

func TestSystemPythonIsOnlyAskedAndMakesEnvironments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	python := scriptedPython(t, dir, "python3", fakeVenv)
	e := testEnvironments(t, python)
	if _, err := e.create(t.Context(), "hello", ""); err != nil {
		t.Fatal(err)
	}
	calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
	allowed := regexp.MustCompile(`^` + regexp.QuoteMeta(python) + ` (-I -c import json, sys|-m venv /)`)
	for line := range strings.Lines(string(calls)) {
		if strings.HasPrefix(line, python) && !allowed.MatchString(line) {
			t.Errorf("the system's Python was called with %q", line)
		}
	}
}

func TestEnvironmentsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	slow := scriptedPython(t, t.TempDir(), "python3", "/bin/sleep 600")
	e := testEnvironments(t, scriptedPython(t, dir, "python3", fakeVenv))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = e.create(ctx, "slow", slow) })
	awaitSeen(t, func() bool { return madeBy(t, filepath.Dir(slow)) == 1 })
	if created, err := e.create(t.Context(), "quick", ""); !created || err != nil || !e.ready("quick") {
		t.Errorf("create beside a slow one = %v, %v, want true, nil", created, err)
	}
	cancel()
	wg.Wait()
}

// BenchmarkEnvironmentAdopt moves a real environment from one name to another.
func BenchmarkEnvironmentAdopt(b *testing.B) {
	e := testEnvironments(b, systemPython)
	spare, err := e.spare(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ids := []string{"one", "two"}
	for n := 0; b.Loop(); n++ {
		if err := e.adopt(b.Context(), spare, ids[n%2]); err != nil {
			b.Fatal(err)
		}
		spare = &spareEnv{folder: e.folder(ids[n%2]), unlock: func() {}}
	}
}
