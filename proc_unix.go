//go:build unix

package main

import (
	"maps"
	"os"
	"os/exec"
	"slices"
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

// toolTree is a tool and all that it started: its process group.
type toolTree struct{}

func newToolTree() (toolTree, error) { return toolTree{}, nil }

func (toolTree) join(*os.Process) error { return nil }

func (toolTree) kill(p *os.Process) error { return killGroup(p.Pid) }

func (toolTree) close() {}

// leaderless returns the groups of f whose leaders have ended.
func (f *family) leaderless() []int {
	f.kin.mu.Lock()
	groups := slices.Collect(maps.Keys(f.kin.groups))
	f.kin.mu.Unlock()
	f.ps.mu.Lock()
	defer f.ps.mu.Unlock()
	return slices.DeleteFunc(groups, func(g int) bool { return f.ps.direct[g] })
}

// deathSignal is the number of the signal that ended a process.
func deathSignal(state *os.ProcessState) (int, bool) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0, false
	}
	return int(status.Signal()), true
}
