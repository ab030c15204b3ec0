//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// ownSession makes cmd lead a session, and so a process group, of its own.
func ownSession(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
}

func interruptGroup(leader int) error { return syscall.Kill(-leader, syscall.SIGINT) }

func killGroup(leader int) error { return syscall.Kill(-leader, syscall.SIGKILL) }

// deathSignal is the number of the signal that ended a process.
func deathSignal(state *os.ProcessState) (int, bool) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0, false
	}
	return int(status.Signal()), true
}
