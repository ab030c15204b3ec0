//go:build unix

package main

import (
	"archive/zip"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// kernelFixture is kernels of real ipykernel in an environment that uses the
// system's packages.
type kernelFixture struct {
	*testing.T
	*kernels
	data string
	site principal
}

const kernelTestPython = "/usr/bin/python3"

// newKernelFixture skips the test where the system has no ipykernel.
func newKernelFixture(t *testing.T, change ...func(*kernelSettings)) kernelFixture {
	t.Helper()
	if err := exec.Command(kernelTestPython, "-c", "import ipykernel").Run(); err != nil {
		t.Skip("no ipykernel for " + kernelTestPython)
	}
	data := t.TempDir()
	sockets, err := os.MkdirTemp("", "ark")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	settings := kernelSettings{
		sockets: sockets, dir: data, startup: time.Minute, environ: os.Environ(),
		checkout: func(principal, string) string { return "" },
	}
	for _, f := range change {
		f(&settings)
	}
	ps := newProcesses()
	envs := newEnvironments(data, config{python: kernelTestPython, systemSitePackages: true}, ps, log)
	ks := newKernels(settings, ps, envs, log)
	t.Cleanup(func() {
		ks.close()
		if left, _ := os.ReadDir(sockets); len(left) > 0 {
			t.Errorf("kernels left %v in the folder of sockets", left)
		}
		os.RemoveAll(sockets)
	})
	f := kernelFixture{t, ks, data, "https://site.example"}
	f.makeEnv("lab")
	return f
}

// makeEnv makes the environment of a lab quickly, without pip.
func (f kernelFixture) makeEnv(lab string, args ...string) {
	f.Helper()
	args = append([]string{"-m", "venv", "--without-pip", "--system-site-packages"}, args...)
	out, err := exec.Command(kernelTestPython, append(args, f.starter.envs.path(lab))...).CombinedOutput()
	if err != nil || !f.starter.envs.ready(lab) {
		f.Fatalf("make environment: %v %s", err, out)
	}
}

func (f kernelFixture) submit(code string) *cell {
	f.Helper()
	c, err := f.kernels.run(f.Context(), f.site, "lab", "", code)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

// do runs a cell to its end.
func (f kernelFixture) do(code string) cellResult {
	f.Helper()
	return f.finish(f.submit(code))
}

func (f kernelFixture) finish(c *cell) cellResult {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	if err := c.wait(ctx); err != nil {
		f.Fatalf("cell %s: %v", c.id, err)
	}
	return c.result()
}

// overBoth runs a test over Unix sockets and over TCP.
func overBoth(t *testing.T, test func(f kernelFixture)) {
	t.Helper()
	for name, tcp := range map[string]bool{"unix": false, "tcp": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newKernelFixture(t, func(s *kernelSettings) { s.tcp = tcp }))
		})
	}
}

func TestFirstCellOfAFreshKernelLosesNothing(t *testing.T) {
	t.Parallel()
	overBoth(t, func(f kernelFixture) {
		for range 3 {
			if got := shown(f.do("print('A')")); got != "A\n" {
				f.Errorf("first cell gave %q", got)
			}
			if err := f.restart(f.Context(), f.site, "lab"); err != nil {
				f.Fatal(err)
			}
			if got := shown(f.do("print('B')")); got != "B\n" {
				f.Errorf("first cell after a restart gave %q", got)
			}
			if err := f.shutdown(f.Context(), f.site, "lab"); err != nil {
				f.Fatal(err)
			}
		}
	})
}

func TestKernelFilesAreTheRuntimesAlone(t *testing.T) {
	t.Parallel()
	overBoth(t, func(f kernelFixture) {
		f.do("1")
		found := 0
		err := filepath.WalkDir(f.starter.settings.sockets, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == f.starter.settings.sockets {
				return err
			}
			info, err := d.Info()
			found++
			if d.IsDir() && info.Mode().Perm() != 0o700 || d.Type().IsRegular() && info.Mode().Perm() != 0o600 {
				f.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		})
		if err != nil || found < 2 {
			f.Errorf("found %d files, %v", found, err)
		}
	})
}

func TestDeathOfAKernelIsToldAndTheNextCellStartsANewOne(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	for _, c := range []struct{ name, code, why, says string }{
		{"exit status", "import os, time\nprint('before')\ntime.sleep(0.2)\nos._exit(3)", "exit status 3", ""},
		{"signal", "import os, signal, time\nprint('before')\ntime.sleep(0.2)\nos.kill(os.getpid(), signal.SIGKILL)", "signal: killed", ""},
		{"crash", "import ctypes, time\nprint('before')\ntime.sleep(0.2)\nctypes.string_at(0)", "signal: segmentation fault", "Segmentation fault"},
		{"overflow of the C stack", "import time, threading\nprint('before')\ntime.sleep(0.2)\nsys = __import__('sys'); sys.setrecursionlimit(10**9)\nclass A: pass\nA.__getattr__ = lambda s, n: getattr(s, n)\ngetattr(A(), 'x')", "signal: segmentation fault", "Segmentation fault"},
	} {
		dying, next := f.submit(c.code), f.submit("'alive'")
		start := time.Now()
		r := f.finish(dying)
		if shown(r) != "before\n!KernelDied" || !strings.Contains(r.failure.Value, c.why) {
			f.Errorf("%s: %q, %+v", c.name, shown(r), r.failure)
		}
		if said := strings.Join(r.failure.Traceback, "\n"); !strings.Contains(said, c.says) {
			f.Errorf("%s: its last lines are %q", c.name, said)
		}
		if took := time.Since(start); took > 10*time.Second {
			f.Errorf("%s: told after %v", c.name, took)
		}
		if got := shown(f.finish(next)); got != "<result 'alive'>" {
			f.Errorf("%s: the next cell gave %q", c.name, got)
		}
	}
}

func TestInterruptReachesTheCellAndItsChildren(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	for _, code := range []string{"import time; time.sleep(60)", "!sleep 60", "import subprocess; subprocess.run(['sleep', '60'])", "while True: pass", "import asyncio; await asyncio.sleep(60)"} {
		c := f.submit(code)
		<-c.begun // an interrupt right away must work too
		start := time.Now()
		if _, err := f.interrupt(f.site, "lab"); err != nil {
			t.Errorf("%s: interrupt = %v", code, err)
		}
		if r := f.finish(c); r.failure == nil && code[0] != '!' || time.Since(start) > 30*time.Second {
			t.Errorf("%s was interrupted and gave %q after %v", code, shown(r), time.Since(start))
		}
		if got := shown(f.do("1")); got != "<result 1>" {
			t.Errorf("%s: the next cell gave %q", code, got)
		}
	}
}

func TestCellThatSwallowsAnInterruptStaysBusy(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	c := f.submit("import time\nprint('in', flush=True)\nwhile True:\n  try: time.sleep(60)\n  except KeyboardInterrupt: print('no', flush=True)")
	<-c.begun
	waiting := f.submit("1")
	if busy, err := f.interrupt(f.site, "lab"); err != nil || !busy {
		t.Errorf("interrupt = %v, %v", busy, err)
	}
	if s, err := f.status(f.site, "lab"); err != nil || s.state != "busy" {
		t.Errorf("status = %+v, %v", s, err)
	}
	if waiting.isDone() {
		t.Error("the second cell did not wait")
	}
	if err := f.restart(f.Context(), f.site, "lab"); err != nil {
		t.Fatal(err)
	}
	if got := shown(f.finish(c)); !strings.HasSuffix(got, "!KernelDied") {
		t.Errorf("the restarted cell gave %q", got)
	}
	if got := shown(f.finish(waiting)); got != "!CellNotRun" {
		t.Errorf("the waiting cell gave %q", got)
	}
}

func TestKernelsOwnStreamsAreDrained(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	start := time.Now()
	r := f.do("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import sys; sys.stderr.write(\"z\"*(10<<20))'])\n'done'")
	if !strings.HasSuffix(shown(r), "<result CompletedProcess") && !strings.Contains(shown(r), "'done'") {
		t.Errorf("got the end %q after %v", shown(r)[max(0, len(shown(r))-80):], time.Since(start))
	}
}

func TestKernelThatCannotStartIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	f.makeEnv("broken")
	packages, err := filepath.Glob(filepath.Join(f.starter.envs.path("broken"), "lib", "python*", "site-packages"))
	if err != nil || len(packages) != 1 {
		t.Fatal(packages, err)
	}
	if err := os.Mkdir(filepath.Join(packages[0], "ipykernel"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(packages[0], "ipykernel", "__init__.py"), []byte("raise RuntimeError('broken on purpose')"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err = f.start(t.Context(), f.site, "broken", kernelWish{})
	p, ok := errors.AsType[*problem](err)
	if !ok || p.kind != kindMissingTool || !strings.Contains(p.detail, "broken on purpose") {
		t.Errorf("start = %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("said after %v", took)
	}
	if err := f.start(t.Context(), f.site, "none", kernelWish{}); !isKind(err, kindNotFound) {
		t.Errorf("start without an environment = %v", err)
	}
}

func TestPythonVersionIsThatOfTheEnvironment(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	out, err := exec.Command(kernelTestPython, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.start(t.Context(), f.site, "lab", kernelWish{python: strings.TrimSpace(string(out))}); err != nil {
		t.Errorf("its own version: %v", err)
	}
	for _, other := range []string{"3", "3.1"} {
		err := f.start(t.Context(), f.site, "lab", kernelWish{python: other})
		if want := other != "3"; isKind(err, kindConflict) != want {
			t.Errorf("%s: %v", other, err)
		}
	}
}

func TestIdleKernelEndsAndABusyOneDoesNot(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t, func(s *kernelSettings) { s.idle = time.Second })
	if got := shown(f.do("import time; time.sleep(2.5); 'whole'")); got != "<result 'whole'>" {
		t.Errorf("the busy kernel gave %q", got)
	}
	await(t, "the end of the idle kernel", func() bool { return len(f.list(f.site)) == 0 })
}

func TestKernelsOfOneSiteAreNotThereForAnother(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	c := f.submit("1")
	f.finish(c)
	other := principal("https://other.example")
	if got := f.list(other); len(got) != 0 {
		t.Errorf("list = %v", got)
	}
	if _, err := f.status(other, "lab"); !isKind(err, kindNotFound) {
		t.Errorf("status = %v", err)
	}
	if _, err := f.cell(other, "lab", c.id); !isKind(err, kindNotFound) {
		t.Errorf("cell = %v", err)
	}
	if err := f.shutdown(t.Context(), other, "lab"); !isKind(err, kindNotFound) {
		t.Errorf("shutdown = %v", err)
	}
	if _, err := f.cell(f.site, "lab", c.id); err != nil {
		t.Errorf("own cell = %v", err)
	}
}

func TestKernelsStartSideBySide(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t, func(s *kernelSettings) { s.tcp = true })
	var all sync.WaitGroup
	for i := range 5 {
		lab := "lab" + strconv.Itoa(i)
		f.makeEnv(lab)
		all.Go(func() {
			c, err := f.kernels.run(t.Context(), f.site, lab, "", "print('"+lab+"')")
			if err != nil {
				t.Error(err)
				return
			}
			<-c.ended
			if got := shown(c.result()); got != lab+"\n" {
				t.Errorf("%s gave %q", lab, got)
			}
		})
	}
	all.Wait()
	if got := f.list(f.site); len(got) != 5 || got[0].lab != "lab0" || !got[4].ready {
		t.Errorf("list = %v", got)
	}
}

func TestKernelListensOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t, func(s *kernelSettings) { s.tcp = true })
	got := shown(f.do("import psutil\nprint({c.laddr.ip for c in psutil.Process().connections() if c.status == 'LISTEN'})"))
	if got != "{'127.0.0.1'}\n" {
		t.Errorf("the kernel listens on %s", got)
	}
}

func TestMissingKernelPackageIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t, func(s *kernelSettings) { s.environ = append(slices.Clone(s.environ), "PIP_NO_INDEX=1") })
	out, err := exec.Command(kernelTestPython, "-m", "venv", "--without-pip", f.starter.envs.path("bare")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	err = f.start(t.Context(), f.site, "bare", kernelWish{})
	if !isKind(err, kindMissingTool) || !strings.Contains(sentence(err), "that of the system") {
		t.Errorf("start where the system's ipykernel is to serve = %v", err)
	}
	f.starter.envs.systemSitePackages = false
	start := time.Now()
	err = f.start(t.Context(), f.site, "bare", kernelWish{})
	if !isKind(err, kindMissingTool) || !strings.Contains(sentence(err), "has no ipykernel") || !strings.Contains(sentence(err), "No module named pip") {
		t.Errorf("start = %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("said after %v", took)
	}
}

func TestInstalledPackageIsThereForTheKernel(t *testing.T) {
	t.Parallel()
	if err := exec.Command(kernelTestPython, "-m", "pip", "--version").Run(); err != nil {
		t.Skip("no pip for " + kernelTestPython)
	}
	f := newKernelFixture(t, func(s *kernelSettings) { s.environ = append(slices.Clone(s.environ), "PIP_NO_INDEX=1") })
	if got := shown(f.do("import tinypackage")); got != "!ModuleNotFoundError" {
		t.Fatalf("before: %q", got)
	}
	output, err := f.install(t.Context(), "lab", []string{makeWheel(t)})
	if err != nil || !strings.Contains(output, "Successfully installed tinypackage") {
		t.Fatalf("install = %q, %v", output, err)
	}
	if got := shown(f.do("import tinypackage; tinypackage.value")); got != "<result 42>" {
		t.Errorf("after: %q", got)
	}
	_, err = f.install(t.Context(), "lab", []string{"no-such-package-anywhere"})
	if !isKind(err, kindMissingTool) || !strings.Contains(sentence(err), "No matching distribution found for no-such-package-anywhere") || strings.Contains(sentence(err), "\x1b") {
		t.Errorf("install of what there is not = %q, want pip's words without colour", err)
	}
}

// makeWheel makes a package that pip can install without a network.
func makeWheel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tinypackage-1.0-py3-none-any.whl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(file)
	for _, entry := range [][2]string{
		{"tinypackage.py", "value = 42\n"},
		{"tinypackage-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinypackage\nVersion: 1.0\n"},
		{"tinypackage-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"tinypackage-1.0.dist-info/RECORD", "tinypackage.py,,\n"},
	} {
		w, err := archive.Create(entry[0])
		if err == nil {
			_, err = w.Write([]byte(entry[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}
