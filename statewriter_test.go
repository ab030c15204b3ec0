package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// playStateWriter is that program.
func playStateWriter(dir string) {
	s, err := openState(dir, slog.New(slog.DiscardHandler))
	for n := 0; err == nil && (n < 40 || os.Getenv("STATE_TEST_FOREVER") != ""); n++ {
		err = addTestLearner(s, fmt.Sprintf("helper-%d", n))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func stateHelper(ctx context.Context, dir string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(os.Environ(), stateWriterVariable+"="+dir), env...)
	return cmd
}

func TestTwoProcessesNeverLoseEachOthersChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := stateHelper(t.Context(), dir)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for w := range 2 {
		s, _ := newTestState(t, dir)
		for g := range 2 {
			writers.Go(func() {
				for n := range 10 {
					if err := addTestLearner(s, fmt.Sprintf("store-%d-%d-%d", w, g, n)); err != nil {
						t.Error(err)
					}
					if _, err := s.current(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	writers.Wait()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("helper: %v\n%s", err, &output)
	}
	s, logged := newTestState(t, dir)
	if got := len(mustCurrent(t, s).Learners); got != 80 || logged.String() != "" {
		t.Errorf("learners = %d, want 80; log %q", got, logged)
	}
}

func TestKilledWriterLeavesAWholeFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := newTestState(t, dir)
	for id := range 200 { // a file that takes a while to write
		if err := s.update(func(d *stateData) error {
			d.Learners[fmt.Sprintf("%0128d", id)] = learner{AddedAt: time.Now().UTC()}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	had := 200
	for n := range 8 {
		cmd := stateHelper(t.Context(), dir, "STATE_TEST_FOREVER=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		before := mustCurrent(t, s)
		for mustCurrent(t, s).Learners["helper-3"] == before.Learners["helper-3"] {
			time.Sleep(time.Millisecond) // until the helper is at work
		}
		time.Sleep(time.Duration(n) * 700 * time.Microsecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		after, logged := newTestState(t, dir)
		got := len(mustCurrent(t, after).Learners)
		if got < had || logged.String() != "" {
			t.Fatalf("learners = %d, were %d; log %q", got, had, logged)
		}
		had = got
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"+unfinishedSuffix))
	if len(left) != 0 {
		t.Errorf("unfinished files are left: %v", left)
	}
}
