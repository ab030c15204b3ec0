package main

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// procID is of no use here: a job knows its members.
type procID struct{}

// kin is a job that holds the whole family and ends it with this program,
// however that ends, and within it a job for each step.
type kin struct {
	all job

	mu     sync.Mutex // guards groups
	groups map[int]job
}

func (f *family) open() (err error) {
	f.kin.groups = make(map[int]job)
	f.kin.all, err = newJob(true)
	return err
}

// close gives up the jobs. That of the family stays while it has members,
// until the program ends, since its end is theirs.
func (f *family) close() {
	f.kin.mu.Lock()
	defer f.kin.mu.Unlock()
	for _, group := range f.kin.groups {
		group.close()
	}
	f.kin.groups = nil
	if f.alive() == 0 {
		f.kin.all.close()
	}
}

// join takes p, which has not run yet, into the family, and lets it run.
func (f *family) join(p *os.Process) error {
	group, err := newJob(false)
	if err != nil {
		return err
	}
	f.kin.mu.Lock()
	f.kin.groups[p.Pid] = group
	f.kin.mu.Unlock()
	if err := f.kin.all.add(p); err != nil {
		return err
	}
	if err := group.add(p); err != nil {
		return err
	}
	return letRun(p)
}

func (f *family) leaderEnded() {}

func (f *family) remember() {}

func (f *family) groupAlive(leader int) bool {
	f.kin.mu.Lock()
	defer f.kin.mu.Unlock()
	group, ok := f.kin.groups[leader]
	return ok && group.alive() > 0
}

// alive counts the living members.
func (f *family) alive() int { return f.kin.all.alive() }

func (f *family) killMembers() int { return f.kin.all.kill() }

// toolTree is a tool and all that it started.
type toolTree struct{ job }

func newToolTree() (toolTree, error) {
	j, err := newJob(true)
	return toolTree{j}, err
}

// join takes p, which has not run yet, into the tree, and lets it run.
func (t toolTree) join(p *os.Process) error {
	if err := t.add(p); err != nil {
		return err
	}
	return letRun(p)
}

// kill also ends a p that has not joined yet.
func (t toolTree) kill(p *os.Process) error {
	err := p.Kill()
	t.job.kill()
	return err
}

// endMarked has nothing to do: a job's members end with the program that
// holds it.
func endMarked(string) int { return 0 }

// ownSession gives cmd a console of its own, and a process group of its own
// there, which a break can be sent to. It starts suspended: join lets it run.
func ownSession(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.CreationFlags |= createNewProcessGroup | createNoWindow | createSuspended
}

func interruptGroup(leader int) error { return sendBreak(leader) }

// killGroup kills the leader. The rest of its group is in the family's job.
func killGroup(leader int) error {
	p, err := os.FindProcess(leader)
	if err != nil {
		return err
	}
	defer p.Release()
	return p.Kill()
}

// waitExit returns when the child has ended. The handle that its starter
// holds keeps its number its own.
func waitExit(pid int) {
	h, err := syscall.OpenProcess(syscall.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return
	}
	defer syscall.CloseHandle(h)
	_, _ = syscall.WaitForSingleObject(h, syscall.INFINITE)
}

// adoptOrphans waits for ctx: this system has no orphans to reap.
func (ps *processes) adoptOrphans(ctx context.Context) { <-ctx.Done() }

// closeOnExec has nothing to do: handles are inherited by name only.
func closeOnExec() {}

// deathSignal: this system has no signals.
func deathSignal(*os.ProcessState) (int, bool) { return 0, false }
