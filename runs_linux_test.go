package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func testRuns(t testing.TB, dir string) *runs {
	t.Helper()
	rs, err := openRuns(dir, config{dir: dir, outputLimit: 1_000_000, stopGrace: time.Second}, nil, newProcesses(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rs.close)
	return rs
}

// TestRunsOpenWithMoreThanAreKept: forgetting runs while going through them
// ended the program at its start.
func TestRunsOpenWithMoreThanAreKept(t *testing.T) {
	t.Parallel()
	store := testStore(t)
	for i := range 2*runsKept + 9 {
		record := testRecord(fmt.Sprintf("RUN%03d", i), 0)
		record.StartedAt = record.StartedAt.Add(time.Duration(i) * time.Second)
		if i%2 == 1 {
			record.Principal = "https://other.example"
		}
		if err := store.save(record, nil); err != nil {
			t.Fatal(err)
		}
	}
	rs := testRuns(t, store.dir)
	for p, last := range map[principal]string{"https://course.example": "RUN108", "https://other.example": "RUN107"} {
		list := rs.list(p, "")
		if len(list) != runsKept || list[runsKept-1].ID != last {
			t.Errorf("%s has %d runs, want %d up to %s", p, len(list), runsKept, last)
		}
	}
	if left, err := os.ReadDir(store.dir); err != nil || len(left) != 2*runsKept {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

func TestEndedRunsAreBoundedInMemoryAndReadAgain(t *testing.T) {
	t.Parallel()
	store := testStore(t)
	text := []byte(strings.Repeat("é", 600_000))
	const count = 20
	for i := range count {
		if err := store.save(testRecord(fmt.Sprintf("RUN%02d", i), i), [][]byte{text}); err != nil {
			t.Fatal(err)
		}
	}
	rs := testRuns(t, store.dir)
	for i := range count {
		_, w, err := rs.view("https://course.example", fmt.Sprintf("RUN%02d", i))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := w.contents(); !bytes.Equal(bytes.Join(got, nil), text) {
			t.Fatalf("run %d has %d bytes of output, want %d", i, len(got), len(text))
		}
	}
	rs.mu.Lock()
	held := 0
	for _, r := range rs.order {
		if r.window != nil {
			held += r.window.size()
		}
	}
	rs.mu.Unlock()
	if held > windowsKept {
		t.Errorf("%d bytes of output are in memory, want at most %d", held, windowsKept)
	}
	store.remove("RUN00")
	if _, _, err := rs.view("https://course.example", "RUN00"); !isKind(err, kindNotFound) {
		t.Errorf("a run whose file is gone: %v", err)
	}
	if _, _, err := rs.view("https://other.example", "RUN01"); !isKind(err, kindNotFound) {
		t.Errorf("another site's run: %v", err)
	}
}

// TestClosedRunsStartNothing: an action admitted while the runtime closed was
// neither waited for nor refused.
func TestClosedRunsStartNothing(t *testing.T) {
	t.Parallel()
	rs := testRuns(t, testStore(t).dir)
	dir := t.TempDir()
	started := make(chan struct{}, 20)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 20 {
			spec := runSpec{principal: "p", labID: fmt.Sprint(i), dir: dir, env: os.Environ(),
				action: action{Name: "a", Steps: [][]string{{"sleep", "300"}}, Timeout: 600}}
			if _, err := rs.start(spec); err != nil {
				if !isKind(err, kindNoCapacity) {
					t.Errorf("start after close: %v", err)
				}
				return
			}
			started <- struct{}{}
		}
	}()
	<-started
	<-started
	rs.close()
	<-done
	for _, r := range rs.list("p", "") {
		if r.Status != statusStopped {
			t.Errorf("after close the run %s is %s", r.ID, r.Status)
		}
	}
}

func TestStopsReachNoBystander(t *testing.T) {
	t.Parallel()
	rs := testRuns(t, testStore(t).dir)
	dir := t.TempDir()
	var bystanders []*exec.Cmd
	for i := range 250 {
		record, err := rs.start(runSpec{principal: "p", labID: "lab", dir: dir, env: os.Environ(),
			action: action{Name: "a", Steps: [][]string{{"true"}}, Timeout: 600}})
		if err != nil {
			t.Fatal(err)
		}
		if i%25 == 0 {
			bystander := exec.Command("sleep", "300")
			bystander.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := bystander.Start(); err != nil {
				t.Fatal(err)
			}
			bystanders = append(bystanders, bystander)
		}
		var stops sync.WaitGroup
		for range 2 {
			stops.Go(func() {
				if err := rs.stop(t.Context(), "p", record.ID); err != nil {
					t.Errorf("stop: %v", err)
				}
			})
		}
		stops.Wait()
	}
	for _, bystander := range bystanders {
		if !running(bystander.Process.Pid) {
			t.Error("a process that has nothing to do with the runs was ended")
		}
		_, _ = bystander.Process.Kill(), bystander.Wait()
	}
}
