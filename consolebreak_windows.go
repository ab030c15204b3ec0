package main

// Ctrl-Break for a child. Each child has a console of its own, without a
// window, so that it can neither read what is typed at ours nor be ended with
// it. Only a process on a console can send a break to others there, and a
// process is on one console at most: so a second copy of this program goes to
// the child's console and sends it.

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Numbers of the system's own headers that package syscall does not name.
const (
	createSuspended       = 0x00000004
	createNewProcessGroup = 0x00000200
	createNoWindow        = 0x08000000
	detachedProcess       = 0x00000008
	ctrlBreakEvent        = 1
)

const (
	// breakRole as the first argument makes this program the sender. The
	// second argument is the number of the process that leads the group.
	breakRole = "send-ctrl-break"

	// breakPatience is how long the sender may take.
	breakPatience = 2 * time.Second

	// Exit statuses of the sender.
	breakUnreachable = 1 // the process is gone, or has no console
	breakNotSent     = 2 // the system sent no break
)

// sendBreak sends Ctrl-Break to the process group of leader. It fails when
// that has no console: then nobody can ask it to end.
func sendBreak(leader int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), breakPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, breakRole, strconv.Itoa(leader))
	cmd.Env = []string{} // what the system itself needs is added to it
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: detachedProcess}
	return cmd.Run()
}

// playSender makes this program the sender of a break when args say so, and
// reports whether it was, and the exit status.
func playSender(args []string) (played bool, status int) {
	if len(args) != 2 || args[0] != breakRole {
		return false, 0
	}
	leader, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil || leader == 0 {
		return true, breakUnreachable
	}
	if _, err := kernel32("AttachConsole", uintptr(leader)); err != nil {
		return true, breakUnreachable
	}
	if _, err := kernel32("GenerateConsoleCtrlEvent", ctrlBreakEvent, uintptr(leader)); err != nil {
		return true, breakNotSent
	}
	return true, 0
}
