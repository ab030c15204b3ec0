package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

// Numbers of the system's own headers that package syscall does not name.
const (
	createNewProcessGroup   = 0x00000200
	ctrlBreakEvent          = 1
	jobKillOnClose          = 0x00002000
	jobBasicAccounting      = 1
	jobExtendedLimits       = 9
	processSetQuota         = 0x0100
	processTerminate        = 0x0001
	processQueryInformation = 0x0400
	killedExitCode          = 137
)

// procID is of no use here: a job knows its members.
type procID struct{}

// kin is a job object: every descendant belongs to it, and all end when this
// program ends, however that happens.
type kin struct{ job syscall.Handle }

func (f *family) open() error {
	job, err := kernel32("CreateJobObjectW", 0, 0)
	if err != nil {
		return err
	}
	// JOBOBJECT_EXTENDED_LIMIT_INFORMATION; only the flags are set.
	var limits struct {
		times      [2]int64
		flags      uint32
		sizes      [2]uintptr
		active     uint32
		affinity   uintptr
		priorities [2]uint32
		io         [6]uint64
		memory     [4]uintptr
	}
	limits.flags = jobKillOnClose
	_, err = kernel32("SetInformationJobObject", job, jobExtendedLimits,
		uintptr(unsafe.Pointer(&limits)), unsafe.Sizeof(limits))
	f.kin.job = syscall.Handle(job)
	return err
}

// close gives up the job. While it has members it stays until the program
// ends, since its end is theirs.
func (f *family) close() {
	if f.alive() == 0 {
		_ = syscall.CloseHandle(f.kin.job)
	}
}

func (f *family) join(p *os.Process) error {
	h, err := syscall.OpenProcess(processSetQuota|processTerminate|processQueryInformation, false, uint32(p.Pid))
	if err != nil {
		return err
	}
	defer syscall.CloseHandle(h)
	_, err = kernel32("AssignProcessToJobObject", uintptr(f.kin.job), uintptr(h))
	return err
}

func (f *family) leaderEnded() {}

func (f *family) remember() {}

func (f *family) groupAlive(int) bool { return false }

// alive counts the living members.
func (f *family) alive() int {
	// JOBOBJECT_BASIC_ACCOUNTING_INFORMATION
	var info struct {
		times                     [4]int64
		faults, total, active, ko uint32
	}
	_, err := kernel32("QueryInformationJobObject", uintptr(f.kin.job), jobBasicAccounting,
		uintptr(unsafe.Pointer(&info)), unsafe.Sizeof(info), 0)
	if err != nil {
		return 0
	}
	return int(info.active)
}

func (f *family) killMembers() int {
	n := f.alive()
	if n > 0 {
		_, _ = kernel32("TerminateJobObject", uintptr(f.kin.job), killedExitCode)
	}
	return n
}

// endMarked has nothing to do: a job's members end with the program that
// holds it.
func endMarked(string) int { return 0 }

// ownSession gives cmd a process group of its own, which a break can be sent to.
func ownSession(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags |= createNewProcessGroup
	cmd.SysProcAttr.HideWindow = true
}

func interruptGroup(leader int) error {
	_, err := kernel32("GenerateConsoleCtrlEvent", ctrlBreakEvent, uintptr(leader))
	return err
}

func killGroup(leader int) error {
	p, err := os.FindProcess(leader)
	if err != nil {
		return err
	}
	defer p.Release()
	return errors.Join(p.Kill())
}

// waitExit does nothing: a handle keeps the number from being given again.
func waitExit(int) {}

// adoptOrphans waits for ctx: this system has no orphans to reap.
func (ps *processes) adoptOrphans(ctx context.Context) { <-ctx.Done() }

// closeOnExec has nothing to do: handles are inherited by name only.
func closeOnExec() {}

// deathSignal: this system has no signals.
func deathSignal(*os.ProcessState) (int, bool) { return 0, false }
