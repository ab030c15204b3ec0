package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// memberPatience is how long a member of a family may take for what it is to do.
const memberPatience = 20 * time.Second

// memberSleeps is longer than any test.
const memberSleeps = 5 * time.Minute

// breakAway asks for a child that is in none of its parent's jobs.
const breakAway = 0x01000000

// playMember makes the test binary a member of a family that does what role
// says, and reports whether it was one.
func playMember(role string) bool {
	switch role {
	case "sleep":
		time.Sleep(memberSleeps)
	case "leave":
		startSleeper(0)
	case "hold":
		startSleeper(0, os.Stdout)
	case "fail":
		os.Exit(4)
	case "tree":
		startSleeper(0)
		startSleeper(detachedProcess | createNewProcessGroup)
		time.Sleep(memberSleeps)
	case "break away":
		startSleeper(breakAway)
		time.Sleep(memberSleeps)
	case "break":
		broken := make(chan os.Signal, 1)
		signal.Notify(broken, os.Interrupt)
		fmt.Println("ready")
		<-broken
		fmt.Println("cleaned up")
		os.Exit(3)
	case "console":
		var others [8]uint32
		n, err := kernel32("GetConsoleProcessList", uintptr(unsafe.Pointer(&others)), uintptr(len(others)))
		fmt.Println(n, others[0] == uint32(os.Getpid()), err)
		time.Sleep(memberSleeps)
	case "terminal":
		playConsole()
	case "runtime":
		playDyingRuntime()
	}
	return role != ""
}

// startSleeper starts a child that sleeps and holds output, if any is given,
// and prints its number.
func startSleeper(flags uint32, output ...*os.File) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberVariable+"=sleep")
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: flags}
	if len(output) > 0 {
		cmd.Stdout = output[0]
	}
	if err := cmd.Start(); err != nil {
		fmt.Println("not started:", err)
		return
	}
	fmt.Println(cmd.Process.Pid)
}

// playDyingRuntime is a runtime with an ended action that left a process
// running, until it is killed.
func playDyingRuntime() {
	f, err := newProcesses().newFamily("test/dying")
	if err != nil {
		fmt.Println(err)
		return
	}
	cmd := memberCommand("leave")
	cmd.Stdout = os.Stdout
	p, err := f.start(cmd)
	if err != nil {
		fmt.Println(err)
		return
	}
	<-p.done
	f.close()
	time.Sleep(memberSleeps)
}

func memberCommand(role string) *exec.Cmd {
	return &exec.Cmd{Path: os.Args[0], Args: os.Args[:1], Env: append(os.Environ(), memberVariable+"="+role)}
}

func testFamily(t *testing.T) *family {
	t.Helper()
	f, err := newProcesses().newFamily("test/" + t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.kill()
		f.close()
	})
	return f
}

// startMember starts a member of f and returns what it prints.
func startMember(t *testing.T, f *family, role string) (*process, *bufio.Reader) {
	t.Helper()
	output, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = output.Close() })
	cmd := memberCommand(role)
	cmd.Stdout, cmd.Stderr = input, input
	p, err := f.start(cmd)
	_ = input.Close()
	if err != nil {
		t.Fatal(err)
	}
	return p, bufio.NewReader(output)
}

// readLine reads a line of what a member prints.
func readLine(t *testing.T, output *bufio.Reader) string {
	t.Helper()
	line, err := output.ReadString('\n')
	if err != nil {
		t.Fatalf("a member printed %q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

// watched is a process whose end can be waited for, whoever started it.
type watched struct{ handle syscall.Handle }

// watch reads the number of a process that a member printed.
func watch(t *testing.T, output *bufio.Reader) watched {
	t.Helper()
	line := readLine(t, output)
	pid, err := strconv.ParseUint(line, 10, 32)
	if err != nil {
		t.Fatalf("a member printed %q, want the number of a process", line)
	}
	h, err := syscall.OpenProcess(syscall.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.CloseHandle(h) })
	return watched{h}
}

// endsWithin reports whether the process ends in that time.
func (w watched) endsWithin(d time.Duration) bool {
	event, err := syscall.WaitForSingleObject(w.handle, uint32(d.Milliseconds()))
	return err == nil && event == syscall.WAIT_OBJECT_0
}

// onWine reports whether the system is Wine, which does part of what Windows does.
func onWine() bool { return syscall.NewLazyDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil }

func TestWindowsEndReachesTheWholeTree(t *testing.T) {
	t.Parallel()
	f := testFamily(t)
	p, output := startMember(t, f, "tree")
	child, detached := watch(t, output), watch(t, output)
	if n := f.alive(); n != 3 {
		t.Errorf("alive() = %d, want the member and two that it started", n)
	}
	f.end(nil, p, 10*time.Millisecond)
	if !child.endsWithin(memberPatience) || !detached.endsWithin(memberPatience) {
		t.Error("a process outlived the end of its family")
	}
	if n := f.alive(); n != 0 {
		t.Errorf("%d members are left", n)
	}
}

func TestWindowsMemberCannotLeaveItsJob(t *testing.T) {
	t.Parallel()
	f := testFamily(t)
	_, output := startMember(t, f, "break away")
	if line := readLine(t, output); strings.HasPrefix(line, "not started") {
		return // as it should be
	}
	if n := f.alive(); n != 2 {
		t.Errorf("alive() = %d: a process left the job of its family", n)
	}
}

func TestWindowsWhatIsLeftIsCountedAndKilled(t *testing.T) {
	t.Parallel()
	for range 5 { // what it starts at once must not be faster than the job
		f := testFamily(t)
		p, output := startMember(t, f, "leave")
		left := watch(t, output)
		<-p.done
		if n := f.alive(); n != 1 {
			t.Errorf("alive() = %d, want 1", n)
		}
		f.kill()
		if !left.endsWithin(memberPatience) || f.alive() != 0 {
			t.Errorf("what was left is alive after kill, %d members", f.alive())
		}
	}
}

// What an action left running stays while the runtime runs, and ends with it,
// also when the runtime is killed. The runtime is in a job itself here.
func TestWindowsWhatIsLeftEndsWithTheRuntime(t *testing.T) {
	t.Parallel()
	f := testFamily(t)
	runtime, output := startMember(t, f, "runtime")
	left := watch(t, output)
	if left.endsWithin(100 * time.Millisecond) {
		t.Fatal("what an action left running ended with the action")
	}
	if err := runtime.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !left.endsWithin(memberPatience) {
		t.Error("what an action left running outlived the runtime")
	}
}

func TestWindowsToolEndsWithItsTree(t *testing.T) {
	t.Parallel()
	output, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env, cmd.Stdout = memberCommand("tree").Env, input
	ended := make(chan error, 1)
	go func() { ended <- newProcesses().run(cmd) }() // ends with cancel
	lines := bufio.NewReader(output)
	child, detached := watch(t, lines), watch(t, lines)
	cancel()
	if err := <-ended; err == nil {
		t.Error("a killed tool reports success")
	}
	_ = input.Close()
	if !child.endsWithin(memberPatience) || !detached.endsWithin(memberPatience) {
		t.Error("what a tool started outlived it")
	}
}

func TestWindowsToolReportsHowItEnded(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], breakRole, "0")
	if err := newProcesses().run(cmd); err == nil || cmd.ProcessState.ExitCode() != breakUnreachable {
		t.Errorf("a break for nobody: %v, %v; want exit status 1", err, cmd.ProcessState)
	}
}

func TestWindowsBreakComesBeforeTheKill(t *testing.T) {
	t.Parallel()
	if onWine() {
		t.Skip("Wine delivers no Ctrl-Break")
	}
	f := testFamily(t)
	p, output := startMember(t, f, "break")
	if line := readLine(t, output); line != "ready" {
		t.Fatalf("the member printed %q, want ready", line)
	}
	f.end(nil, p, memberPatience)
	if line := readLine(t, output); line != "cleaned up" {
		t.Errorf("the member printed %q, want cleaned up", line)
	}
	if code := p.state().ExitCode(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
}

// A break can only be sent from the console that the child is on.
func TestWindowsSenderReachesTheConsoleOfAChild(t *testing.T) {
	t.Parallel()
	f := testFamily(t)
	p, output := startMember(t, f, "break")
	if line := readLine(t, output); line != "ready" {
		t.Fatalf("the member printed %q, want ready", line)
	}
	err := sendBreak(p.cmd.Process.Pid)
	exit, _ := errors.AsType[*exec.ExitError](err)
	if reached := err == nil || onWine() && exit != nil && exit.ExitCode() == breakNotSent; !reached {
		t.Errorf("the sender of a break ended with %v", err)
	}
}

func TestWindowsInterruptAfterTheEndReachesNobody(t *testing.T) {
	t.Parallel()
	f := testFamily(t)
	p, _ := startMember(t, f, "leave")
	<-p.done
	p.interrupt()
	p.killNow()
	if code := p.state().ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// A child that shared our console could read what is typed there.
func TestWindowsChildHasAConsoleOfItsOwn(t *testing.T) {
	t.Parallel()
	f := testFamily(t)
	_, output := startMember(t, f, "console")
	if line := readLine(t, output); line != "1 true <nil>" {
		t.Errorf("processes on its console, it is the first, error: %s; want 1 true <nil>", line)
	}
}

func TestWindowsChildInheritsNothingElse(t *testing.T) {
	t.Parallel()
	name, err := syscall.UTF16PtrFromString("agent-runtime-test-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	inheritable := syscall.SecurityAttributes{InheritHandle: 1}
	inheritable.Length = uint32(unsafe.Sizeof(inheritable))
	event, err := kernel32("CreateEventW", uintptr(unsafe.Pointer(&inheritable)), 0, 0, uintptr(unsafe.Pointer(name)))
	if err != nil {
		t.Fatal(err)
	}
	f := testFamily(t)
	startMember(t, f, "sleep")
	if err := syscall.CloseHandle(syscall.Handle(event)); err != nil {
		t.Fatal(err)
	}
	const modifyState = 2
	if h, err := kernel32("OpenEventW", modifyState, 0, uintptr(unsafe.Pointer(name))); err == nil {
		_ = syscall.CloseHandle(syscall.Handle(h))
		t.Error("a child holds a handle that it was not given")
	}
}

func TestWindowsConsoleHostsAreNotCounted(t *testing.T) {
	t.Parallel()
	if isConsoleHost(uintptr(os.Getpid())) {
		t.Error("the test is taken for the host of a console")
	}
	f := testFamily(t)
	p, _ := startMember(t, f, "sleep")
	if !slices.Contains(f.kin.all.members(), uintptr(p.cmd.Process.Pid)) {
		t.Errorf("members %v lack the one that was started, %d", f.kin.all.members(), p.cmd.Process.Pid)
	}
}
