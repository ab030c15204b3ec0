package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

const (
	// quoteLimit is how many characters of a tool's last line are told to a
	// person.
	quoteLimit = 300

	// toolTail is how much of a tool's output is kept for the log.
	toolTail = 64 << 10
)

// toolError is a tool that did not do what it was started for. Its text is
// for the log; saidBy is for people.
type toolError struct {
	argv   []string
	output string // the end of what it wrote
	err    error  // nil when it ended well and still gave no answer
}

func (e *toolError) Error() string {
	text := fmt.Sprintf("run %q: no answer", e.argv)
	if e.err != nil {
		text = fmt.Sprintf("run %q: %v", e.argv, e.err)
	}
	if e.output != "" {
		text += "\n" + e.output
	}
	return text
}

func (e *toolError) Unwrap() error { return e.err }

// saidBy is the end of a sentence about what a failed tool said.
func saidBy(err error) string {
	fault, ok := errors.AsType[*toolError](err)
	if !ok {
		return "it could not be started"
	}
	exit, exited := errors.AsType[*exec.ExitError](fault.err)
	if fault.err != nil && !exited {
		return "it could not be started"
	}
	said := ""
	for line := range strings.Lines(fault.output) {
		if line = strings.TrimSpace(line); line != "" {
			said = line
		}
	}
	if runes := []rune(said); len(runes) > quoteLimit {
		said = string(runes[:quoteLimit]) + "..."
	}
	switch {
	case said != "":
		return "it said: " + visible(strings.TrimRight(said, "."))
	case exited:
		return "it ended with " + exit.ProcessState.String() + " and said nothing"
	}
	return "it printed nothing"
}

// runTool runs argv to its end with an empty input, and returns the end of
// what it wrote to its output and error output. dir "" is this program's own
// folder. A tool that fails is a *toolError.
func runTool(ctx context.Context, ps *processes, dir string, env, argv []string) (string, error) {
	var out tail
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = env
	cmd.Stdout = &out
	cmd.Stderr = &out
	if err := ps.run(cmd); err != nil {
		return "", &toolError{argv: argv, output: out.String(), err: err}
	}
	return out.String(), nil
}

// tail keeps the last toolTail bytes written to it.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	n, err := t.Buffer.Write(p)
	if extra := t.Len() - toolTail; extra > 0 {
		t.Next(extra)
	}
	return n, err
}
