package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestACommandEndsWithItsClientHoweverEarly(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		mustExec(t, s, sb.id, "true")
		word := fmt.Sprintf("8%d.%d", os.Getpid(), time.Now().UnixNano()%1e6)
		for i := range 40 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*300*time.Microsecond)
			_, err := s.exec(ctx, pageA, sb.id, []string{"sleep", word}, nil)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("exec = %v, want the client's end", err)
			}
			if n := runningWith(word); n != 0 {
				t.Fatalf("%d processes are left after an end at %d00 microseconds", n, 3*i)
			}
		}
	})
}

func TestDeletingASandboxEndsWhatRunsInIt(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		word := fmt.Sprintf("9%d.%d", os.Getpid(), time.Now().UnixNano()%1e6)
		var wg sync.WaitGroup
		for range 3 { // one runs, two wait
			wg.Go(func() {
				if _, err := s.exec(t.Context(), pageA, sb.id, []string{"sh", "-c", "touch running; sleep " + word}, nil); !isKind(err, kindConflict) {
					t.Errorf("exec = %v, want that the sandbox was deleted", err)
				}
			})
		}
		waitForFile(t, s, sb.id, "running")
		if err := s.delete(pageA, sb.id); err != nil {
			t.Fatal(err)
		}
		if n := runningWith(word); n != 0 {
			t.Errorf("%d processes are left after the delete", n)
		}
		wg.Wait()
		if _, err := s.exec(t.Context(), pageA, sb.id, []string{"true"}, nil); !isKind(err, kindNotFound) {
			t.Errorf("exec in a deleted sandbox = %v, want not found", err)
		}
		if err := s.delete(pageA, sb.id); !isKind(err, kindNotFound) {
			t.Errorf("second delete = %v, want not found", err)
		}
	})
}

// waitForFile waits until a command has made a file.
func waitForFile(t *testing.T, s *sandboxes, id, name string) {
	t.Helper()
	for range 500 {
		if _, err := s.read(pageA, id, name); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%s did not appear", name)
}

// untilGo is a shell command that lasts until letGo.
const untilGo = "until [ -e go ]; do sleep 0.02; done"

func letGo(t *testing.T, s *sandboxes, id string) {
	t.Helper()
	if err := s.write(pageA, id, "go", nil); err != nil {
		t.Fatal(err)
	}
}

func TestClosingEndsRunningCommands(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		done := make(chan error, 1)
		go func() {
			_, err := s.exec(t.Context(), pageA, sb.id, []string{"sh", "-c", "touch running; sleep 60"}, nil)
			done <- err
		}()
		waitForFile(t, s, sb.id, "running")
		s.close()
		if err := <-done; !isKind(err, kindNoCapacity) {
			t.Errorf("exec = %v, want that the runtime shuts down", err)
		}
		if _, err := s.exec(t.Context(), pageA, sb.id, []string{"true"}, nil); !isKind(err, kindNoCapacity) {
			t.Errorf("exec after the end = %v, want a refusal", err)
		}
	})
}

// crashVariable makes this program the runtime that TestACrash kills. It holds
// a data folder.
const crashVariable = "SANDBOX_TEST_CRASH"

func TestACrashLeavesNoCommandAndKeepsTheSandbox(t *testing.T) {
	if dir := os.Getenv(crashVariable); dir != "" {
		runUntilKilled(t, dir)
		return
	}
	asBothUsers(t, func(t *testing.T) {
		dir := filepath.Join(reachableFolder(t), "data")
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), exe, "-test.run", "^TestACrashLeavesNoCommandAndKeepsTheSandbox$", "-test.v")
		cmd.Env = append(os.Environ(), crashVariable+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		id, word := "", ""
		for lines := bufio.NewScanner(out); id == "" && lines.Scan(); {
			if rest, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
				id, word, _ = strings.Cut(rest, " ")
			}
		}
		if runningWith(word) == 0 || id == "" {
			t.Fatal("the command does not run")
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		for range 100 {
			if runningWith(word) == 0 {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if n := runningWith(word); n != 0 {
			t.Errorf("%d processes are left two seconds after the crash", n)
		}
		s := openSandboxes(t, dir, testConfig())
		if got := s.list(pageA); len(got) != 1 || got[0].id != id || got[0].learnerID != adult {
			t.Errorf("list after the crash = %+v, want %s", got, id)
		}
		if got := s.list(pageB); len(got) != 0 {
			t.Errorf("list of another site = %+v, want none", got)
		}
		if got := mustExec(t, s, id, "cat", "running"); got.stdout != "kept\n" {
			t.Errorf("exec after the crash = %+v, want the file kept", got)
		}
	})
}

func runUntilKilled(t *testing.T, dir string) {
	s := openSandboxes(t, dir, testConfig())
	sb := mustCreate(t, s, sandboxOrder{})
	word := fmt.Sprintf("6%d.%d", os.Getpid(), time.Now().UnixNano()%1e6)
	go func() {
		waitForFile(t, s, sb.id, "running")
		fmt.Println("ready", sb.id, word)
	}()
	script := "echo kept > running; setsid sleep " + word + " & sleep " + word
	_, err := s.exec(t.Context(), pageA, sb.id, []string{"sh", "-c", script}, nil)
	t.Fatal("the command ended: ", err)
}

func TestExecsOfOneSandboxTakeTurnsInOrder(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		var wg sync.WaitGroup
		wg.Go(func() { mustExec(t, s, sb.id, "sh", "-c", "touch running; "+untilGo+"; echo 0 >> order") })
		waitForFile(t, s, sb.id, "running")
		for i := range 5 {
			wg.Go(func() {
				mustExec(t, s, sb.id, "sh", "-c", fmt.Sprintf("echo %d >> order", i+1))
			})
			waitForQueue(t, s, sb.id, i+1)
		}
		letGo(t, s, sb.id)
		wg.Wait()
		got, err := s.read(pageA, sb.id, "order")
		if err != nil || string(got) != "0\n1\n2\n3\n4\n5\n" {
			t.Errorf("order = %q, %v", got, err)
		}
	})
}

// waitForQueue waits until so many wait for their turn in a sandbox.
func waitForQueue(t *testing.T, s *sandboxes, id string, n int) {
	t.Helper()
	s.mu.Lock()
	sb := s.byID[id]
	s.mu.Unlock()
	for range 500 {
		sb.turn.mu.Lock()
		waiting := len(sb.turn.waiting)
		sb.turn.mu.Unlock()
		if waiting >= n {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%d do not wait", n)
}

func TestClientThatLeavesTheQueueRunsNothing(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		var wg sync.WaitGroup
		wg.Go(func() { mustExec(t, s, sb.id, "sh", "-c", "touch running; "+untilGo) })
		waitForFile(t, s, sb.id, "running")
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := s.exec(ctx, pageA, sb.id, []string{"touch", "ghost"}, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("exec = %v, want the client's end", err)
			}
		})
		waitForQueue(t, s, sb.id, 1)
		cancel()
		letGo(t, s, sb.id)
		wg.Wait()
		mustExec(t, s, sb.id, "true")
		if _, err := s.read(pageA, sb.id, "ghost"); !isKind(err, kindNotFound) {
			t.Errorf("read = %v, want that nothing ran", err)
		}
	})
}

func TestExecsOfManySandboxesRunSideBySide(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		var wg sync.WaitGroup
		for range 8 {
			sb := mustCreate(t, s, sandboxOrder{})
			wg.Go(func() {
				for i := range 4 {
					got := mustExec(t, s, sb.id, "sh", "-c", fmt.Sprintf("ls | wc -l; touch f%d", i))
					if got.stdout != fmt.Sprintf("%d\n", i) {
						t.Errorf("exec %d = %+v, want its own workspace alone", i, got)
					}
				}
			})
		}
		wg.Wait()
	})
}
