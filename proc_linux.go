package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Numbers of the system's own headers that package syscall does not name.
const (
	prSetChildSubreaper = 36
	prGetChildSubreaper = 37
	closeRangeCloexec   = 4
	sysCloseRange       = 436
	idTypePID           = 1 // P_PID
	waitNoWait          = 0x01000000
)

// procID names a process for good: a number alone can be given again.
type procID struct {
	pid   int
	start string // in clock ticks since boot
}

// procEntry is one line of the process table.
type procEntry struct {
	procID
	parent, group int
	zombie        bool
}

// kin is how Linux finds the members of a family: by the mark in their
// environment, by the groups of the steps, by descent, and, for those that
// cleared their environment and outlived their parents, by having been seen
// before.
type kin struct {
	mu     sync.Mutex // guards the rest
	groups map[int]bool
	seen   map[procID]bool
}

func (f *family) open() error {
	f.kin.groups = make(map[int]bool)
	f.kin.seen = make(map[procID]bool)
	return nil
}

func (f *family) close() {}

func (f *family) join(p *os.Process) error {
	f.kin.mu.Lock()
	defer f.kin.mu.Unlock()
	f.kin.groups[p.Pid] = true
	return nil
}

// leaderEnded notes the orphans that the ended leader left to us, while they
// can still be told from those of others. Those that carry a mark tell
// themselves whose they are.
func (f *family) leaderEnded() {
	orphans, _ := f.ps.orphans()
	for pid := range orphans {
		e, ok := readProcess(pid)
		if ok && !e.zombie && f.ps.unclaimed(e) && environMark(pid) == "" && f.ps.claim(e.procID) {
			f.note(e.procID)
		}
	}
}

func (f *family) note(id procID) {
	f.kin.mu.Lock()
	defer f.kin.mu.Unlock()
	f.kin.seen[id] = true
}

// unclaimed reports whether no family has claimed e, and e is in no group
// whose leader, which is another's, still runs.
func (ps *processes) unclaimed(e procEntry) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return !ps.claimed[e.procID] && !ps.direct[e.group]
}

// claim reports whether id is now the caller's, and was nobody's before.
func (ps *processes) claim(id procID) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.claimed[id] {
		return false
	}
	ps.claimed[id] = true
	return true
}

// claimAll claims the members of a family that were found in table, and
// forgets those that have ended.
func (ps *processes) claimAll(table map[int]procEntry, members []procID) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	maps.DeleteFunc(ps.claimed, func(id procID, _ bool) bool { return table[id.pid].procID != id })
	for _, id := range members {
		ps.claimed[id] = true
	}
}

// anyGroupAlive reports whether a group of this family has members.
func (f *family) anyGroupAlive() bool {
	f.kin.mu.Lock()
	defer f.kin.mu.Unlock()
	for g := range f.kin.groups {
		if f.groupAlive(g) {
			return true
		}
	}
	return false
}

// forgetGroupsLocked forgets the leaderless groups that have no member in
// table, and those whose number a stranger was given since: no process is
// given a number while it is that of a group.
func (f *family) forgetGroupsLocked(table map[int]procEntry, leaderless []int) {
	inUse := make(map[int]bool)
	for _, e := range table {
		inUse[e.group] = true
	}
	for _, g := range leaderless {
		if _, stranger := table[g]; stranger || !inUse[g] {
			delete(f.kin.groups, g)
		}
	}
}

func (f *family) groupAlive(leader int) bool { return syscall.Kill(-leader, 0) == nil }

// alive counts the living members.
func (f *family) alive() int {
	if !f.mayLive() {
		return 0
	}
	return len(f.members())
}

// mayLive is a look that does not cost a walk through all processes: a member
// is in one of the family's groups, or is an orphan or descends from one.
func (f *family) mayLive() bool {
	orphans, ok := f.ps.orphans()
	if !ok || f.anyGroupAlive() {
		return true
	}
	f.kin.mu.Lock()
	defer f.kin.mu.Unlock()
	for pid := range orphans {
		if e, ok := readProcess(pid); ok && !e.zombie && f.hasLocked(e) {
			return true
		}
	}
	return false
}

// hasLocked reports whether e is a member by itself, whatever its parents.
func (f *family) hasLocked(e procEntry) bool {
	return f.kin.seen[e.procID] || f.kin.groups[e.group] || environMark(e.pid) == f.mark
}

// remember notes the present members, so that they are found again after
// their parents have gone.
func (f *family) remember() { f.members() }

// killMembers sends a kill to every living member and returns their number.
func (f *family) killMembers() int {
	members := f.members()
	for _, m := range members {
		killProcess(m)
	}
	return len(members)
}

func (f *family) members() []procID {
	leaderless := f.leaderless()
	table := candidates()
	found := f.findMembers(table, leaderless)
	f.ps.claimAll(table, found)
	return found
}

func (f *family) findMembers(table map[int]procEntry, leaderless []int) []procID {
	f.kin.mu.Lock()
	defer f.kin.mu.Unlock()
	f.forgetGroupsLocked(table, leaderless)
	found := withDescendants(table, f.hasLocked)
	clear(f.kin.seen)
	for _, m := range found {
		f.kin.seen[m] = true
	}
	return found
}

// candidates are the part of the process table where members can be: our own
// descendants, where orphans stay among them.
func candidates() map[int]procEntry {
	table := processTable()
	if !getsOrphans() {
		return table
	}
	self := os.Getpid()
	ours := withDescendants(table, func(e procEntry) bool { return e.parent == self })
	kept := map[int]procEntry{self: table[self]}
	for _, id := range ours {
		kept[id.pid] = table[id.pid]
	}
	return kept
}

// withDescendants returns the living processes for which is holds, and all
// that descend from them, except this process and its ancestors.
func withDescendants(table map[int]procEntry, is func(procEntry) bool) []procID {
	spared := make(map[int]bool)
	for pid := os.Getpid(); pid > 0 && !spared[pid]; pid = table[pid].parent {
		spared[pid] = true
	}
	verdict := make(map[int]bool)
	var belongs func(pid int) bool
	belongs = func(pid int) bool {
		e, ok := table[pid]
		if !ok || spared[pid] {
			return false
		}
		if v, known := verdict[pid]; known {
			return v
		}
		verdict[pid] = false // a parent loop cannot be, and does not matter
		v := is(e) || belongs(e.parent)
		verdict[pid] = v
		return v
	}
	var found []procID
	for pid, e := range table {
		if !e.zombie && belongs(pid) {
			found = append(found, e.procID)
		}
	}
	return found
}

// endMarked kills every process whose mark starts with prefix and returns
// how many there were. It is for what a runtime that crashed left behind. One
// that the kernel does not let go, or that became another account's, is given
// up after a second.
func endMarked(prefix string) int {
	is := func(e procEntry) bool { return strings.HasPrefix(environMark(e.pid), prefix) }
	tick := time.NewTicker(familyPoll)
	defer tick.Stop()
	count := 0
	for range int(time.Second / familyPoll) {
		found := withDescendants(processTable(), is)
		if len(found) == 0 {
			break
		}
		count = max(count, len(found))
		for _, id := range found {
			killProcess(id)
		}
		<-tick.C
	}
	return count
}

// killProcess kills id through a handle, so that a stranger who was given the
// number meanwhile is left alone.
func killProcess(id procID) {
	p, err := os.FindProcess(id.pid)
	if err != nil {
		return
	}
	defer p.Release()
	if e, ok := readProcess(id.pid); ok && e.procID == id {
		_ = p.Kill()
	}
}

// processTable reads the running processes. Those that end meanwhile are
// left out.
func processTable() map[int]procEntry {
	table := make(map[int]procEntry)
	dir, err := os.Open("/proc")
	if err != nil {
		return table
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if e, ok := readProcess(pid); ok {
			table[pid] = e
		}
	}
	return table
}

func readProcess(pid int) (procEntry, bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return procEntry{}, false
	}
	return parseProcStat(pid, string(data))
}

// parseProcStat reads /proc/PID/stat. The program's name stands in
// parentheses and may hold any character, so the fields are counted from the
// last one.
func parseProcStat(pid int, stat string) (procEntry, bool) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return procEntry{}, false
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 20 {
		return procEntry{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	group, err2 := strconv.Atoi(fields[2])
	if errors.Join(err1, err2) != nil {
		return procEntry{}, false
	}
	return procEntry{
		procID: procID{pid: pid, start: fields[19]},
		parent: parent,
		group:  group,
		zombie: fields[0] == "Z" || fields[0] == "X",
	}, true
}

// environMark returns the mark in a process's environment; "" when it has
// none or is not ours to read.
func environMark(pid int) string {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		if v, ok := bytes.CutPrefix(entry, []byte(markVariable+"=")); ok {
			return string(v)
		}
	}
	return ""
}

// waitExit returns when the child has ended, and leaves it unreaped so that
// its number stays its own.
func waitExit(pid int) {
	var info [128]byte // siginfo_t
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idTypePID, uintptr(pid),
			uintptr(unsafe.Pointer(&info)), syscall.WEXITED|waitNoWait, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// orphans returns the processes that became our children when their parents
// ended. They are handed to the program's first thread. ok is false when this
// kernel does not list them, and when none come to us, because nothing else
// tells them from children that were not started here.
func (ps *processes) orphans() (pids map[int]bool, ok bool) {
	if !getsOrphans() {
		return nil, false
	}
	self := strconv.Itoa(os.Getpid())
	ps.mu.Lock()
	defer ps.mu.Unlock()
	data, err := os.ReadFile(filepath.Join("/proc", self, "task", self, "children"))
	if err != nil {
		return nil, false
	}
	pids = make(map[int]bool)
	for field := range strings.FieldsSeq(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && !ps.direct[pid] {
			pids[pid] = true
		}
	}
	return pids, true
}

// getsOrphans reports whether adoptOrphans was called in this process.
func getsOrphans() bool {
	var set int32
	_, _, errno := syscall.Syscall(syscall.SYS_PRCTL, prGetChildSubreaper, uintptr(unsafe.Pointer(&set)), 0)
	return errno == 0 && set != 0
}

// adoptOrphans makes orphaned descendants our children rather than those of
// the system's first process, and reaps them until ctx ends. Only the
// long-running program does this; it also serves where it is itself the first
// process of a container.
func (ps *processes) adoptOrphans(ctx context.Context) {
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		select {
		case <-ended:
			ps.reapOrphans()
		case <-ctx.Done():
			return
		}
	}
}

func (ps *processes) reapOrphans() {
	orphans, _ := ps.orphans()
	for pid := range orphans {
		var status syscall.WaitStatus
		_, _ = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	}
}

// closeOnExec keeps files that this program was started with from reaching
// its children. Go opens its own that way.
func closeOnExec() {
	_, _, _ = syscall.Syscall(sysCloseRange, 3, uintptr(^uint32(0)), closeRangeCloexec)
}
