package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// procID names a process.
type procID struct{ pid int }

// kin is how macOS finds the members of a family: by their mark, which ps
// shows for one's own processes, by the groups of the steps, and by descent.
type kin struct {
	mu     sync.Mutex // guards groups
	groups map[int]bool
}

func (f *family) open() error {
	f.kin.groups = make(map[int]bool)
	return nil
}

func (f *family) close() {}

func (f *family) join(p *os.Process) error {
	f.kin.mu.Lock()
	defer f.kin.mu.Unlock()
	f.kin.groups[p.Pid] = true
	return nil
}

func (f *family) leaderEnded() {}

func (f *family) remember() {}

func (f *family) groupAlive(leader int) bool { return syscall.Kill(-leader, 0) == nil }

// alive counts the living members.
func (f *family) alive() int { return len(f.members()) }

func (f *family) killMembers() int {
	members := f.members()
	for _, m := range members {
		_ = syscall.Kill(m.pid, syscall.SIGKILL)
	}
	return len(members)
}

func (f *family) members() []procID {
	leaderless := f.leaderless()
	f.kin.mu.Lock()
	defer f.kin.mu.Unlock()
	inUse := make(map[int]bool)
	found := markedProcesses(func(mark string, group int) bool {
		inUse[group] = true
		return mark == f.mark || f.kin.groups[group]
	})
	for _, group := range leaderless {
		if len(inUse) > 0 && !inUse[group] { // none when ps cannot be run
			delete(f.kin.groups, group) // its number may be given to a stranger now
		}
	}
	return found
}

// markedProcesses asks ps for the processes for which is holds, and their
// descendants.
func markedProcesses(is func(mark string, group int) bool) []procID {
	out, err := exec.Command("/bin/ps", "-axwwE", "-o", "pid=,ppid=,pgid=,stat=,command=").Output()
	if err != nil {
		return nil
	}
	parents := make(map[int]int)
	found := make(map[int]bool)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || strings.HasPrefix(fields[3], "Z") {
			continue
		}
		pid, _ := strconv.Atoi(fields[0])
		parent, _ := strconv.Atoi(fields[1])
		group, _ := strconv.Atoi(fields[2])
		mark := ""
		for _, word := range fields[4:] {
			if v, ok := strings.CutPrefix(word, markVariable+"="); ok {
				mark = v
			}
		}
		parents[pid] = parent
		found[pid] = is(mark, group)
	}
	var members []procID
	for pid := range parents {
		for up, depth := pid, 0; up > 1 && depth < 100; up, depth = parents[up], depth+1 {
			if up == os.Getpid() {
				break
			}
			if found[up] {
				members = append(members, procID{pid})
				break
			}
		}
	}
	return members
}

// endMarked kills every process whose mark starts with prefix and returns
// how many there were.
func endMarked(prefix string) int {
	found := markedProcesses(func(mark string, _ int) bool { return strings.HasPrefix(mark, prefix) })
	for _, id := range found {
		_ = syscall.Kill(id.pid, syscall.SIGKILL)
	}
	return len(found)
}

// waitExit returns when the child has ended, and leaves it unreaped so that
// its number stays its own.
func waitExit(pid int) {
	for !waitNoted(pid) {
		time.Sleep(familyPoll) // until a file is free again
	}
}

// waitNoted waits for the end of the process pid. It reports whether it could
// ask for it: a process that has ended is told at once.
func waitNoted(pid int) bool {
	queue, err := syscall.Kqueue()
	if err != nil {
		return false
	}
	defer syscall.Close(queue)
	syscall.CloseOnExec(queue)
	exit := []syscall.Kevent_t{{
		Ident: uint64(pid), Filter: syscall.EVFILT_PROC, Flags: syscall.EV_ADD | syscall.EV_ONESHOT, Fflags: syscall.NOTE_EXIT,
	}}
	for {
		_, err := syscall.Kevent(queue, exit, make([]syscall.Kevent_t, 1), nil)
		if !errors.Is(err, syscall.EINTR) {
			return err == nil || errors.Is(err, syscall.ESRCH)
		}
	}
}

// adoptOrphans waits for ctx: the system's first process adopts orphans here.
func (ps *processes) adoptOrphans(ctx context.Context) { <-ctx.Done() }

// closeOnExec has nothing to do: there is no call for it here.
func closeOnExec() {}
