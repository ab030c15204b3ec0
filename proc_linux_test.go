package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func testFamily(t *testing.T) *family {
	t.Helper()
	f, err := newProcesses().newFamily("test/" + t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.kill)
	return f
}

// startScript starts a shell script as a member of f.
func startScript(t *testing.T, f *family, script string) *process {
	t.Helper()
	p, err := f.start(&exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// readPID waits for a script to write a process's number into a file.
func readPID(t *testing.T, path string) int {
	t.Helper()
	for range 500 {
		if data, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(data), "\n") {
			pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s was not written within 5 s", path)
	return 0
}

func running(pid int) bool {
	e, ok := readProcess(pid)
	return ok && !e.zombie
}

func TestEndReachesWhatEscapedTheGroup(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, script string }{
		{"own session", "setsid sleep 300 >/dev/null 2>&1 & echo $! >PID; wait"},
		{"own session, parent gone", "(setsid sh -c 'echo $$ >PID; exec sleep 300' >/dev/null 2>&1 &); sleep 300"},
		{"own session without environment, parent alive", "setsid env -i /bin/sleep 300 & echo $! >PID; wait"},
		{"ignores the interrupt", "trap '' INT TERM; sleep 300 & echo $! >PID; wait; sleep 300"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := testFamily(t)
			file := filepath.Join(t.TempDir(), "pid")
			p := startScript(t, f, strings.ReplaceAll(test.script, "PID", file))
			pid := readPID(t, file)
			f.end(nil, p, 300*time.Millisecond)
			if running(pid) {
				t.Errorf("process %d outlived the end of its family", pid)
			}
			if n := f.alive(); n != 0 {
				t.Errorf("%d members are left", n)
			}
		})
	}
}

func TestEndGivesTheGroupItsGrace(t *testing.T) {
	t.Parallel()
	f := testFamily(t)
	file := filepath.Join(t.TempDir(), "cleaned")
	p := startScript(t, f, "trap 'sleep 0.2; echo yes >"+file+"; exit 3' INT; echo 1 >"+file+".ready; while :; do sleep 0.05; done")
	readPID(t, file+".ready")
	f.end(nil, p, 10*time.Second)
	if _, err := os.Stat(file); err != nil {
		t.Error("the process did not get to clean up after the interrupt")
	}
	if code := p.state().ExitCode(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
}

func TestFamilyCountsWhatIsLeft(t *testing.T) {
	t.Parallel()
	f := testFamily(t)
	p := startScript(t, f, "sleep 300 >/dev/null & setsid sleep 300 >/dev/null & exit 0")
	<-p.done
	if n := f.alive(); n != 2 {
		t.Errorf("alive() = %d, want 2", n)
	}
	f.kill()
	if n := f.alive(); n != 0 {
		t.Errorf("alive() after kill = %d, want 0", n)
	}
}

func TestInterruptAfterTheEndReachesNobody(t *testing.T) {
	t.Parallel()
	f := testFamily(t)
	p := startScript(t, f, "exit 0")
	<-p.done
	p.interrupt() // must not signal a group that was given the number since
	p.killNow()
	if code := p.state().ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestToolIsKilledWithItsGroup(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "sleep 300 & echo $! >"+file+"; wait")
	ended := make(chan error, 1)
	go func() { ended <- newProcesses().run(cmd) }()
	pid := readPID(t, file)
	cancel()
	if err := <-ended; err == nil {
		t.Error("a killed tool reports success")
	}
	for range 100 {
		if !running(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d of the tool's group is still running", pid)
}

func TestMarkedProcessesAreEndedByTheNextRuntime(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command("/bin/sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $! >"+file)
	cmd.Env = append(os.Environ(), markVariable+"=crashed-folder/some-run")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	pid := readPID(t, file)
	awaitSeen(t, func() bool { return environMark(pid) == "crashed-folder/some-run" }) // empty while a program is replaced by the next
	if n := endMarked("other-folder/"); n != 0 {
		t.Errorf("endMarked of another folder ended %d processes", n)
	}
	if n := endMarked("crashed-folder/"); n != 1 || running(pid) {
		t.Errorf("endMarked = %d, process running %v; want 1, false", n, running(pid))
	}
}

func TestChildrenLeadTheirOwnSessionAndInheritNothing(t *testing.T) {
	t.Parallel()
	f := testFamily(t)
	dir := t.TempDir()
	p := startScript(t, f, "ls /proc/self/fd >"+dir+"/fds; cut -d' ' -f1,5,6 /proc/$$/stat >"+dir+"/ids")
	<-p.done
	ids, err := os.ReadFile(filepath.Join(dir, "ids"))
	if err != nil {
		t.Fatal(err)
	}
	if f := strings.Fields(string(ids)); len(f) != 3 || f[0] != f[1] || f[0] != f[2] {
		t.Errorf("pid, group and session are %q, want three times the same", ids)
	}
	fds, err := os.ReadFile(filepath.Join(dir, "fds"))
	if err != nil {
		t.Fatal(err)
	}
	// 3 is the folder that ls itself reads.
	if got := strings.Join(strings.Fields(string(fds)), " "); got != "0 1 2 3" {
		t.Errorf("a child has the files %s, want 0 1 2 and ls's own 3", got)
	}
}

func TestProcStatWithAnyName(t *testing.T) {
	t.Parallel()
	tail := " S 7 8 9 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4711 1 1"
	for _, name := range []string{"sh", "a b", ") R 1 1", "(("} {
		e, ok := parseProcStat(42, "42 ("+name+")"+tail)
		if !ok || e.parent != 7 || e.group != 8 || e.start != "4711" || e.zombie {
			t.Errorf("parseProcStat with name %q = %+v, %v", name, e, ok)
		}
	}
	for _, bad := range []string{"", "42", "42 (sh", "42 (sh) S 1"} {
		if _, ok := parseProcStat(42, bad); ok {
			t.Errorf("parseProcStat(%q) is accepted", bad)
		}
	}
}

// A child that was not started through the same processes was once taken for
// an orphan of the family, and killed with it.
func TestFamilyLeavesOtherChildrenOfTheProgramAlone(t *testing.T) {
	t.Parallel()
	for range 8 { // a child may come from any thread, and the first was the one that mattered
		other := exec.CommandContext(t.Context(), "sleep", "300")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- other.Wait() }() // ends with the test's context
		f := testFamily(t)
		<-startScript(t, f, "exit 0").done
		f.kill()
		select {
		case err := <-ended:
			t.Fatalf("a child that is no member was killed: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
