package main

// Carrying out the steps of one action: echo, output, closing lines, exit
// status, stop and timeout. Pages and `lab run` get the same.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// runStatus is how a run is going or ended.
type runStatus string

const (
	statusRunning   runStatus = "running"
	statusSucceeded runStatus = "succeeded"
	statusFailed    runStatus = "failed"
	statusStopped   runStatus = "stopped"
	statusTimedOut  runStatus = "timed_out"
)

// runStatuses are all that there are.
var runStatuses = []runStatus{statusRunning, statusSucceeded, statusFailed, statusStopped, statusTimedOut}

const (
	exitNotFound      = 127 // as shells say it
	exitNotExecutable = 126
	exitSignalled     = 128 // plus the signal's number

	// outputDrain is how long the output of an ended step may be held open by
	// a process it left behind.
	outputDrain = time.Second

	// readSize is how much output is read at once: what a pipe holds.
	readSize = 64 << 10
)

// errStopped and errTimedOut are why a run's context ended.
var (
	errStopped  = errors.New("stopped")
	errTimedOut = errors.New("timed out")
)

// outcome is how an action ended. exitCode is nil when it was stopped or
// timed out.
type outcome struct {
	status   runStatus
	exitCode *int
	left     int // processes it left running
}

// execution is one action to be carried out in a folder.
type execution struct {
	family  *family
	dir     string
	env     []string // the whole environment of the steps
	steps   [][]string
	timeout time.Duration   // for all steps together
	grace   time.Duration   // from the interrupt to the kill
	force   <-chan struct{} // closed when no grace is to be given any more; nil for never
}

// run carries out the steps and writes their output to out. It ends early
// when ctx does, which counts as stopped.
func (e *execution) run(ctx context.Context, out io.Writer) outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, errTimedOut)
	defer cancel()
	t := &transcript{out: out, lineStart: true}
	result := outcome{status: statusSucceeded, exitCode: new(0)}
	for _, argv := range e.steps {
		t.line("$ %s", shellQuote(argv))
		started := time.Now()
		code := e.step(ctx, argv, t)
		result = outcomeOf(ctx, code)
		t.line("[%s · %.1f s]", closing(result), time.Since(started).Seconds())
		if result.status != statusSucceeded {
			break
		}
	}
	if result.status == statusStopped || result.status == statusTimedOut {
		e.family.kill()
		return result
	}
	result.left = e.family.alive()
	switch {
	case result.left == 1:
		t.line("[1 process left running]")
	case result.left > 1:
		t.line("[%d processes left running]", result.left)
	}
	return result
}

func outcomeOf(ctx context.Context, code int) outcome {
	switch {
	case ctx.Err() != nil && context.Cause(ctx) == errTimedOut:
		return outcome{status: statusTimedOut}
	case ctx.Err() != nil:
		return outcome{status: statusStopped}
	case code != 0:
		return outcome{status: statusFailed, exitCode: &code}
	}
	return outcome{status: statusSucceeded, exitCode: &code}
}

func closing(o outcome) string {
	switch o.status {
	case statusTimedOut:
		return "timed out"
	case statusStopped:
		return "stopped"
	case statusFailed:
		return fmt.Sprintf("exit %d", *o.exitCode)
	}
	return "done"
}

// step runs one command and returns its exit status.
func (e *execution) step(ctx context.Context, argv []string, t *transcript) int {
	if ctx.Err() != nil {
		return 0
	}
	path, err := e.program(argv[0])
	if err != nil {
		return notStarted(t, argv[0], "", err)
	}
	output, input, err := newOutputPipe()
	if err != nil {
		return notStarted(t, argv[0], path, err)
	}
	cmd := &exec.Cmd{Path: path, Args: argv, Dir: e.dir, Env: inFolder(e.env, e.dir), Stdout: input, Stderr: input}
	p, err := e.family.start(cmd)
	_ = input.Close()
	if err != nil {
		_ = output.Close()
		return notStarted(t, argv[0], path, err)
	}
	copied := make(chan error, 1)
	go func() { // ends when the output does, or at the deadline set below
		_, err := io.CopyBuffer(t, onlyReader{output}, make([]byte, readSize))
		copied <- err
	}()
	select {
	case <-p.done:
	case <-ctx.Done():
		e.family.end(e.force, p, e.grace)
	}
	_ = output.SetReadDeadline(time.Now().Add(outputDrain))
	dropOutput(output, <-copied)
	code := exitStatus(p.state())
	if code == exitNotFound && endsWithReturn(firstLine(path)) {
		t.line("%s: %s", argv[0], returnInFirstLine)
	}
	return code
}

// dropOutput closes the output of an ended step. Where a process left behind
// still holds it, it is read and dropped until that ends: a server would fail
// when it can no longer write its log.
func dropOutput(output *os.File, err error) {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = output.Close()
		return
	}
	_ = output.SetReadDeadline(time.Time{})
	go func() { // ends with the last process that holds the output
		defer output.Close()
		_, _ = io.Copy(io.Discard, onlyReader{output})
	}()
}

// program finds argv[0]: without a slash on the PATH of the steps, with one
// relative to the folder.
func (e *execution) program(name string) (string, error) {
	if !strings.ContainsRune(name, '/') && !strings.ContainsRune(name, filepath.Separator) {
		return lookPath(name, e.env)
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(e.dir, name)
	}
	if _, err := os.Stat(name); err != nil {
		return "", err
	}
	return name, nil
}

// notStarted writes why a program did not start, and returns the status that
// shells give then. path is empty when the program was not found.
func notStarted(t *transcript, name, path string, err error) int {
	switch {
	case errors.Is(err, fs.ErrPermission):
		t.line("%s: not an executable program (a folder, or without the execute permission).", name)
	case path == "":
		t.line("%s: command not found.", name)
		return exitNotFound
	case errors.Is(err, syscall.ENOEXEC):
		t.line("%s: not a program for this machine; a script needs a first line such as #!/bin/sh.", name)
	case errors.Is(err, fs.ErrNotExist):
		t.line("%s: %s", name, missingInterpreter(path))
	default:
		t.line("%s: could not be started: %v.", name, err)
	}
	return exitNotExecutable
}

const returnInFirstLine = "its first line ends with a carriage return (Windows line ends), so its interpreter is not found; save it with LF line ends."

// endsWithReturn reports whether the first line of a script ends as on Windows.
func endsWithReturn(line []byte) bool {
	return bytes.HasPrefix(line, []byte("#!")) && bytes.HasSuffix(line, []byte("\r"))
}

// missingInterpreter explains why a program that is there was not found.
func missingInterpreter(path string) string {
	line := firstLine(path)
	interpreter, isScript := bytes.CutPrefix(line, []byte("#!"))
	switch {
	case !isScript:
		return "the folder it runs in, or a file it needs to start, is missing."
	case endsWithReturn(line):
		return returnInFirstLine
	}
	return fmt.Sprintf("the interpreter of its first line, %q, is not found.", bytes.TrimSpace(interpreter))
}

// firstLine reads at most 256 bytes, which is what the system looks at.
func firstLine(path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(file, head)
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return line
}

// exitStatus is the status as a shell gives it.
func exitStatus(state *os.ProcessState) int {
	if code := state.ExitCode(); code >= 0 {
		return code
	}
	if signal, ok := deathSignal(state); ok {
		return exitSignalled + signal
	}
	return 1
}

// transcript writes output to out, and lines of our own that start at the
// beginning of a line. It is used by one goroutine at a time. What out does
// not take is dropped: a step must not hang because nobody reads it.
type transcript struct {
	out       io.Writer
	lineStart bool
}

func (t *transcript) Write(p []byte) (int, error) {
	if len(p) > 0 {
		t.lineStart = p[len(p)-1] == '\n'
	}
	_, _ = t.out.Write(p)
	return len(p), nil
}

func (t *transcript) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...) + "\n"
	if !t.lineStart {
		text = "\n" + text
	}
	_, _ = io.WriteString(t, text)
}

// onlyReader hides a file's other methods, so that io.CopyBuffer uses the
// buffer it is given.
type onlyReader struct{ io.Reader }
