package main

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// testAction is one step that plays role.
func testAction(t *testing.T, role string) *execution {
	t.Helper()
	return &execution{
		family: testFamily(t), dir: t.TempDir(), env: append(os.Environ(), memberVariable+"="+role),
		steps: [][]string{{os.Args[0]}}, timeout: memberSleeps, grace: 10 * time.Millisecond,
	}
}

// promptly fails the test when do takes long.
func promptly(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { // ends with do
		defer close(done)
		do()
	}()
	if !waitFor(done, memberPatience) {
		t.Fatal("it did not end")
	}
}

func TestWindowsStepEndsThoughItsOutputIsHeld(t *testing.T) {
	t.Parallel()
	e := testAction(t, "hold")
	var out bytes.Buffer
	var got outcome
	promptly(t, func() { got = e.run(t.Context(), &out) })
	if got.status != statusSucceeded || got.left != 1 || !strings.Contains(out.String(), "[1 process left running]") {
		t.Errorf("outcome %+v, output %q", got, &out)
	}
	e.family.kill()
}

func TestWindowsStopEndsAnActionWithItsTree(t *testing.T) {
	t.Parallel()
	e := testAction(t, "tree")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	output, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	ended := make(chan outcome, 1)
	go func() { ended <- e.run(ctx, input) }() // ends with stop
	lines := bufio.NewReader(output)
	readLine(t, lines) // the command
	child, detached := watch(t, lines), watch(t, lines)
	stop(errStopped)
	promptly(t, func() {
		if got := <-ended; got.status != statusStopped {
			t.Errorf("outcome %+v, want stopped", got)
		}
	})
	if !child.endsWithin(memberPatience) || !detached.endsWithin(memberPatience) {
		t.Error("a process outlived the action that was stopped")
	}
	_ = input.Close()
}

func TestWindowsExitStatusIsTold(t *testing.T) {
	t.Parallel()
	e := testAction(t, "fail")
	var out bytes.Buffer
	got := e.run(t.Context(), &out)
	if got.status != statusFailed || *got.exitCode != 4 || !strings.Contains(out.String(), "[exit 4") {
		t.Errorf("outcome %+v, output %q; want that it failed with 4", got, &out)
	}
}

func TestWindowsProgramThatIsMissingIsTold(t *testing.T) {
	t.Parallel()
	e := testAction(t, "leave")
	e.steps = [][]string{{"no-such-program"}}
	var out bytes.Buffer
	got := e.run(t.Context(), &out)
	if got.status != statusFailed || *got.exitCode != exitNotFound || !strings.Contains(out.String(), "command not found") {
		t.Errorf("outcome %+v, output %q; want that it was not found", got, &out)
	}
}
