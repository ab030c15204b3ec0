package main

// All child processes are started here. Two kinds exist: tools (git, python's
// venv), which run to their end for one caller, and families, whose processes
// a learner started and which may leave others behind.
//
// Every child leads a session of its own (on Windows it has a console of its
// own), so it can neither read nor write the terminal and a Ctrl-C there does
// not reach it. It inherits its three standard files and nothing else.

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	// markVariable carries a family's mark to all its descendants, which is
	// how those that left the process group are found again.
	markVariable = "AGENT_RUNTIME_MARK"

	// toolDrain is how long the output of an ended tool may be held open by
	// something it left behind.
	toolDrain = time.Second

	// familyPoll is how often an ending family is looked at. Its members are
	// not our children, so nothing tells us of their end.
	familyPoll = 20 * time.Millisecond
)

// processes knows the direct children of this program. They are reaped by
// whoever started them; everything else that becomes our child was orphaned
// and is reaped by adoptOrphans.
type processes struct {
	toolMark string // the mark of tools, by which endMarked finds those of a crashed runtime; "" for none

	mu      sync.Mutex // held while a child is started, so that it is known before it can be an orphan
	direct  map[int]bool
	claimed map[procID]bool // members of families, so that no other takes one for its own
}

// familyPrefix is what the marks of all families and tools of a data folder
// begin with, so that the next runtime finds what a crashed one left running.
func familyPrefix(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:8]) + "/"
}

func newProcesses() *processes {
	return &processes{direct: make(map[int]bool), claimed: make(map[procID]bool)}
}

// run starts cmd, which was made with exec.CommandContext, and waits for it.
// When the context ends, cmd and what it started are killed. The error is
// that of exec.Cmd.Wait, except that output held open by a process left
// behind is not an error.
func (ps *processes) run(cmd *exec.Cmd) error {
	ownSession(cmd)
	if ps.toolMark != "" {
		cmd.Env = append(cmd.Environ(), markVariable+"="+ps.toolMark)
	}
	tree, err := newToolTree()
	if err != nil {
		return err
	}
	defer tree.close()
	cmd.Cancel = func() error { return tree.kill(cmd.Process) }
	cmd.WaitDelay = toolDrain
	if err := ps.startJoined(cmd, tree.join); err != nil {
		return err
	}
	defer ps.forget(cmd.Process.Pid)
	err = cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// startJoined starts cmd and has join take it in, which on some systems lets
// it run only then. One that cannot join is ended.
func (ps *processes) startJoined(cmd *exec.Cmd, join func(*os.Process) error) error {
	if err := ps.startDirect(cmd); err != nil {
		return err
	}
	err := join(cmd.Process)
	if err != nil {
		_ = killGroup(cmd.Process.Pid)
		err = errors.Join(err, cmd.Wait())
		ps.forget(cmd.Process.Pid)
	}
	return err
}

func (ps *processes) startDirect(cmd *exec.Cmd) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	ps.direct[cmd.Process.Pid] = true
	return nil
}

func (ps *processes) forget(pid int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.direct, pid)
}

// family is a learner's processes with one fate: the steps of one run, or one
// kernel, and all that they started.
type family struct {
	ps   *processes
	mark string // unique; a prefix of it names the data folder, see endMarked
	kin  kin    // what this system needs to find the members again
}

// newFamily returns a family without members. Its mark must be unique; the
// caller calls close once it no longer needs to find the members.
func (ps *processes) newFamily(mark string) (*family, error) {
	f := &family{ps: ps, mark: mark}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

// process is a child that leads its own group within a family.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and is reaped

	mu     sync.Mutex // guards reaped: a signal is sent only while the number is still the child's
	reaped bool
	kill   bool // the group is to be killed once the leader has ended
}

// start starts cmd, whose standard files are *os.File or nil and whose Env is
// set, as a member of f. The process is reaped when it ends; done then closes.
func (f *family) start(cmd *exec.Cmd) (*process, error) {
	ownSession(cmd)
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], markVariable+"="+f.mark)
	if err := f.ps.startJoined(cmd, f.join); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go p.reap(f) // ends with the process
	return p, nil
}

func (p *process) reap(f *family) {
	pid := p.cmd.Process.Pid
	waitExit(pid)
	p.mu.Lock()
	if p.kill {
		_ = killGroup(pid)
	}
	_ = p.cmd.Wait()
	p.reaped = true
	p.mu.Unlock()
	f.ps.forget(pid)
	f.leaderEnded()
	close(p.done)
}

// state is how the process ended; nil before done is closed.
func (p *process) state() *os.ProcessState {
	select {
	case <-p.done:
		return p.cmd.ProcessState
	default:
		return nil
	}
}

// interrupt sends what Ctrl-C sends to the process and its group, if the
// process has not ended.
func (p *process) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = interruptGroup(p.cmd.Process.Pid)
	}
}

// killNow kills the process and its group, now and once more when the process
// has ended, so that a member forked meanwhile is caught too.
func (p *process) killNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.kill = true
		_ = killGroup(p.cmd.Process.Pid)
	}
}

// end interrupts p and its group, waits until the group has gone or grace is
// over or now is closed, and then kills all that is left of the family. It
// returns when p has ended and no member is left.
func (f *family) end(now <-chan struct{}, p *process, grace time.Duration) {
	over := time.NewTimer(grace)
	defer over.Stop()
	f.remember()
	p.interrupt()
	f.waitGroup(now, over.C, p)
	p.killNow()
	<-p.done
	f.kill()
}

// waitGroup returns when p has ended and its group is empty, or at one of the
// other events.
func (f *family) waitGroup(now <-chan struct{}, over <-chan time.Time, p *process) {
	select {
	case <-p.done:
	case <-now:
		return
	case <-over:
		return
	}
	tick := time.NewTicker(familyPoll)
	defer tick.Stop()
	for f.groupAlive(p.cmd.Process.Pid) {
		select {
		case <-tick.C:
		case <-now:
			return
		case <-over:
			return
		}
	}
}

// kill kills every living member and returns when none is left, or after a
// second for one that the kernel does not let go.
func (f *family) kill() {
	tick := time.NewTicker(familyPoll)
	defer tick.Stop()
	for range int(time.Second / familyPoll) {
		if f.killMembers() == 0 {
			return
		}
		<-tick.C
	}
}
