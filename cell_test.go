//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCellGivesWhatTheKernelGives(t *testing.T) {
	t.Parallel()
	overBoth(t, func(f kernelFixture) {
		for _, c := range []struct{ name, code, want string }{
			{"result", "1+1", "<result 2>"},
			{"text of both streams in order", "import sys\nprint('a'); print('b')\nsys.stdout.flush(); print('e', file=sys.stderr)", "a\nb\ne\n"},
			{"error after text", "print('x')\n1/0", "x\n!ZeroDivisionError"},
			{"syntax error", "1+", "!SyntaxError"},
			{"magic", "%env HOME_OF_NOBODY=1", "env: HOME_OF_NOBODY=1\n"},
			{"top-level await", "import asyncio\nawait asyncio.sleep(0.01)\n'slept'", "<result 'slept'>"},
			{"display", "from IPython.display import display, HTML\ndisplay(HTML('<b>x</b>'))", "<display <IPython.core.display.HTML object>>"},
			{"nothing", "", ""},
			{"unicode", "print('\\u00e4\\U0001f600')", "ä😀\n"},
			{"surrogate alone", "'\\ud800'", `<result '\ud800'>`},
		} {
			if got := shown(f.do(c.code)); got != c.want {
				f.Errorf("%s: %q gave %q, want %q", c.name, c.code, got, c.want)
			}
		}
		if got := shown(f.do("len?")); !strings.Contains(got, "Return the number of items") {
			f.Errorf("help gave %q", got)
		}
	})
}

func TestExitIsNoCrash(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	first, second := f.submit("x = 1\nexit()"), f.submit("'x' in globals()")
	if r := f.finish(first); r.failure != nil {
		t.Errorf("exit() gave %+v", r.failure)
	}
	if got := shown(f.finish(second)); got != "<result False>" {
		t.Errorf("the cell after exit() gave %q", got)
	}
	f.do("exit()")
	if err := f.restart(f.Context(), f.site, "lab"); err != nil {
		t.Errorf("restart after exit(): %v", err)
	}
}

// exit(0) and exit(1) once counted as cells that the kernel did not run.
func TestExitMayBeCalledWithAStatus(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	for _, c := range []struct{ code, next string }{
		{"x = 1\nexit(0)", "<result False>"},
		{"x = 1\nexit(1)", "<result True>"}, // which asks ipykernel to go on
		{"x = 1\nexit(keep_kernel=True)", "<result True>"},
	} {
		if r := f.do(c.code); r.failure != nil {
			t.Errorf("%s gave %+v", c.code, r.failure)
		}
		if got := shown(f.do("'x' in globals()")); got != c.next {
			t.Errorf("the cell after %s gave %q, want %q", c.code, got, c.next)
		}
	}
}

func TestCellThatAsksForInputFails(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	for _, code := range []string{"input('?')", "import getpass; getpass.getpass()", "import pdb\ndef f():\n  pdb.set_trace()\n  return 1\nf()", "breakpoint()", "def g():\n  breakpoint()\n  return 1\ng()"} {
		start := time.Now()
		r := f.do(code)
		if r.failure == nil || time.Since(start) > 10*time.Second {
			t.Errorf("%s gave %q after %v", code, shown(r), time.Since(start))
		}
	}
	if got := shown(f.do("1")); got != "<result 1>" {
		t.Errorf("the next cell gave %q", got)
	}
}

func TestAnErrorDoesNotKeepTheCellsBehindItFromRunning(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	cells := []*cell{f.submit("1/0"), f.submit("print(1)"), f.submit("print(2)")}
	for i, want := range []string{"!ZeroDivisionError", "1\n", "2\n"} {
		if got := shown(f.finish(cells[i])); got != want {
			t.Errorf("cell %d gave %q, want %q", i, got, want)
		}
	}
}

func TestFilesNamedLikeModulesDoNotStopTheKernel(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	dir := filepath.Join(f.data, "work", "lab")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"random.py": "raise SystemExit", "code.py": "", "email.py": "", "types.py": "", "ipykernel_launcher.py": "raise SystemExit", "answer.py": "value = 42",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := shown(f.do("import answer, random\nrandom.random() < 1, answer.value")); got != "<result (True, 42)>" {
		t.Errorf("got %q", got)
	}
}

func TestClearAndUpdateChangeWhatIsStored(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	f.do("from IPython.display import display, clear_output")
	for _, c := range []struct{ name, code, want string }{
		{"clear", "print('a'); clear_output(); print('b')", "b\n"},
		{"clear that waits", "print('a'); clear_output(wait=True); print('b')", "b\n"},
		{"clear that is told to wait in another way", "print('a'); clear_output(1); print('b')", "b\n"},
		{"update by number", "_ = display('old', display_id=7); _ = display('new', display_id=7, update=True)", "<display 'new'>"},
		{"clear that waits for nothing", "print('a'); clear_output(wait=True)", "a\n"},
		{"update", "h = display('old', display_id=True); h.update('new')", "<display 'new'>"},
	} {
		if got := shown(f.do(c.code)); got != c.want {
			t.Errorf("%s gave %q, want %q", c.name, got, c.want)
		}
	}
	first := f.submit("h = display('old', display_id='x')")
	f.finish(first)
	if got := shown(f.do("_ = display('newer', display_id='x', update=True)")); got != "" {
		t.Errorf("the updating cell shows %q", got)
	}
	if got := shown(first.result()); got != "<display 'newer'>" {
		t.Errorf("the updated cell shows %q", got)
	}
}

func TestPrintedLinesArriveWhole(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	r := f.do("for i in range(200000): print(i)")
	text := shown(r)
	if got := strings.Count(text, "\n"); got != 200_000 || !strings.HasSuffix(text, "\n199999\n") {
		t.Errorf("got %d lines", got)
	}
	r = f.do("import sys\nfor i in range(20000): print(i, flush=True)")
	if got := strings.Count(shown(r), "\n"); got != 20_000 {
		t.Errorf("of 20000 lines flushed one by one came %d", got)
	}
}

func TestOutputBeyondTheLimitIsCounted(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	for _, code := range []string{
		"print('x' * (80 << 20))",
		"from IPython.display import HTML\nHTML('x' * (100 << 20))",
		"import sys\nfor i in range(70): print('y' * (1 << 20), flush=True)",
	} {
		r := f.do(code)
		if got := shown(r); !strings.Contains(got, "bytes were left out]") || len(got) > 65<<20 {
			t.Errorf("%s gave %d bytes, the last %q", code, len(got), got[max(0, len(got)-100):])
		}
	}
	if got := shown(f.do("1")); got != "<result 1>" {
		t.Errorf("the next cell gave %q", got)
	}
}

// A cell whose error was too large to be read once counted as one that the
// kernel did not run.
func TestErrorTooLargeToBeReadIsStillAnError(t *testing.T) {
	t.Parallel()
	failed := jupyterMessage{header: jupyterHeader{Type: "error"}, skipped: 100 << 20}
	reply := jupyterMessage{header: jupyterHeader{Type: "execute_reply"}, skipped: 100 << 20}
	idle := jupyterMessage{header: jupyterHeader{Type: "status"}, content: json.RawMessage(`{"execution_state": "idle"}`)}
	for name, deliver := range map[string]func(c *cell){
		"error first": func(c *cell) { c.published(failed); c.answered(reply); c.published(idle) },
		"reply first": func(c *cell) { c.answered(reply); c.published(failed); c.published(idle) },
	} {
		c := newCell("", "")
		c.take()
		deliver(c)
		if got := shown(c.result()); got != "!ErrorTooLarge" || !c.isDone() {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestProcessPoolPrintsIntoItsCell(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	r := f.do("import multiprocessing as mp\ndef f(i): print('line', i)\nwith mp.get_context('fork').Pool(4) as p: p.map(f, range(200), chunksize=50)")
	if r.failure != nil {
		t.Errorf("got %+v", r.failure)
	}
	if got := shown(f.do("'next'")); got != "<result 'next'>" {
		t.Errorf("the next cell gave %q", got)
	}
}

func TestWaitingCellIsGivenUpWhenItsClientLeaves(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	ctx, leave := context.WithCancel(t.Context())
	goOn := filepath.Join(t.TempDir(), "go-on")
	running, err := f.kernels.run(ctx, f.site, "lab", "", fmt.Sprintf("import os, time\nwhile not os.path.exists(%q): time.sleep(0.01)\nprint('ran on')", goOn))
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := f.kernels.run(ctx, f.site, "lab", "", "print('never')")
	if err != nil {
		t.Fatal(err)
	}
	<-running.begun
	leave()
	<-waiting.ended
	if r := waiting.result(); shown(r) != "!CellNotRun" {
		t.Errorf("the waiting cell gave %q", shown(r))
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := shown(f.finish(running)); got != "ran on\n" {
		t.Errorf("the running cell gave %q", got)
	}
}

func TestRichOutput(t *testing.T) {
	t.Parallel()
	f := newKernelFixture(t)
	r := f.do("from ipykernel.comm import Comm\nc = Comm(target_name='widget')\nc.send({'a': 1})\nc.close()\n'after the widget'")
	if got := shown(r); got != "<result 'after the widget'>" {
		t.Errorf("a widget: %q", got)
	}
	f.do("from IPython.display import display, Image, HTML")
	r = f.do("for i in range(3000): display(i)")
	if len(r.outputs) != 3000 {
		t.Errorf("of 3000 displays came %d", len(r.outputs))
	}
	r = f.do("display(Image(data=b'\\x89PNG\\r\\n\\x1a\\n', format='png'))")
	if len(r.outputs) != 1 || !strings.Contains(string(r.outputs[0].data), `"image/png": "iVBORw0KGgo=`) {
		t.Errorf("an image: %+v", r.outputs)
	}
	if f.do("import matplotlib").failure != nil {
		t.Skip("no matplotlib here")
	}
	r = f.do("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
	if r.failure != nil || !strings.Contains(string(r.outputs[len(r.outputs)-1].data), `"image/png": "iVBOR`) {
		t.Errorf("a plot: %+v", r.failure)
	}
}
