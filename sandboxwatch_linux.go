package main

// What no limit of a single process holds is watched while a command runs: the
// time, the processes and memory of all together, and the disk.

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// watchEvery is how often a running sandbox is looked at. A look costs
	// about a quarter of a millisecond.
	watchEvery = 50 * time.Millisecond
	// walkAtLeast is how often the disk's use is counted even when the file
	// system shows no change of its free space: some tell it late.
	walkAtLeast = 2 * time.Second
	// walkShare is how many times the duration of a count passes until the
	// next, so that counting takes a bounded share of a processor.
	walkShare = 5

	// countsMissed is how many counts in a row may fail because what is counted
	// changes meanwhile. More is a command that hides its files.
	countsMissed = 20

	// memoryFloor and memoryFloorShare are what must stay available on the
	// machine: bytes, and that share of all, whichever is more.
	memoryFloor      = 512 << 20
	memoryFloorShare = 10
)

// full reports whether the sandbox holds more than it may. Its commands can
// then delete, but not write.
func (c sandboxCommand) full() bool { return c.deep || !c.used.within(c.quota) }

// ceiling is what the command may let the sandbox grow to.
func (c sandboxCommand) ceiling() treeSize {
	return treeSize{max(c.quota.bytes, c.used.bytes), max(c.quota.entries, c.used.entries)}
}

// levels is how deep the command may let the sandbox become.
func (c sandboxCommand) levels() int {
	if c.deep {
		return treeDeepest
	}
	return treeDepth
}

// sandboxWatch watches one running command.
type sandboxWatch struct {
	command sandboxCommand
	init    int         // the sandbox's first process
	kill    func() bool // ends everything; false when all has ended by itself
	newest  *newestFirst

	available int64 // memory of the machine when the command started
	disk      diskWatch
}

// run watches until done is closed, and returns why it ended the command; ""
// when it did not, or did because ctx ended.
func (w *sandboxWatch) run(ctx context.Context, done <-chan struct{}) string {
	w.newest.enter(w)
	defer w.newest.leave(w)
	w.available, _ = memoryInfo()
	w.disk.start(w.command)
	over := time.NewTimer(w.command.timeout)
	defer over.Stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		limit := ""
		select {
		case <-done:
			return ""
		case <-ctx.Done():
			w.kill()
			<-done
			return ""
		case <-over.C:
			limit = endedByTime
		case <-tick.C:
			limit = w.look()
		}
		if limit == "" {
			continue
		}
		killed := w.kill()
		<-done
		if !killed {
			return ""
		}
		return limit
	}
}

// look reports which limit is passed; "" for none.
func (w *sandboxWatch) look() string {
	c := takeCensus(w.init)
	switch {
	case c.threads > limitProcesses:
		return endedByProcesses
	case c.memory > limitMemory && c.sharedMemory() > limitMemory:
		return endedByMemory
	case w.starving():
		return endedByMemory
	case w.disk.full():
		return endedByDisk
	}
	return ""
}

// starving reports whether the machine runs out of memory and this command is
// to blame as far as can be told: it came last, and much has gone since. That
// also counts what no process shows as its own, such as socket buffers.
func (w *sandboxWatch) starving() bool {
	const much = limitMemory / 4
	available, all := memoryInfo()
	if available == 0 || available > max(memoryFloor, all/memoryFloorShare) {
		return false
	}
	return w.available-available > much && w.newest.is(w)
}

// newestFirst knows the running commands in the order they came.
type newestFirst struct {
	mu      sync.Mutex // guards running
	running []*sandboxWatch
}

func (n *newestFirst) enter(w *sandboxWatch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = append(n.running, w)
}

func (n *newestFirst) leave(w *sandboxWatch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = slices.DeleteFunc(n.running, func(o *sandboxWatch) bool { return o == w })
}

func (n *newestFirst) is(w *sandboxWatch) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.running) > 0 && n.running[len(n.running)-1] == w
}

// census is what is in a sandbox at one moment, its first process left out.
type census struct {
	pids    []int
	threads int
	memory  int64 // bytes; what processes share is counted for each
}

func takeCensus(init int) census {
	var c census
	for _, pid := range descendants(init) {
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		if err != nil {
			continue // it has ended
		}
		c.pids = append(c.pids, pid)
		c.threads += int(procField(status, "Threads:"))
		c.memory += (procField(status, "RssAnon:") + procField(status, "RssShmem:")) << 10
	}
	return c
}

// sharedMemory is the memory of all together with shared pages counted once,
// which takes long to find out.
func (c census) sharedMemory() int64 {
	var sum int64
	for _, pid := range c.pids {
		rollup, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
		if errors.Is(err, os.ErrPermission) {
			return c.memory
		}
		sum += (procField(rollup, "Pss_Anon:") + procField(rollup, "Pss_Shmem:")) << 10
	}
	return sum
}

// descendants are those of a process. All processes of a process namespace
// descend from its first.
func descendants(init int) []int {
	var found []int
	for queue := []int{init}; len(queue) > 0; queue = queue[1:] {
		children, err := childProcesses(queue[0])
		if err != nil && queue[0] == init {
			return tableDescendants(init)
		}
		found = append(found, children...)
		queue = append(queue, children...)
	}
	return found
}

// childProcesses are the children of a process. Each of its threads has its own.
func childProcesses(pid int) ([]int, error) {
	tasks := filepath.Join("/proc", strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, thread := range threads {
		list, readErr := os.ReadFile(filepath.Join(tasks, thread.Name(), "children"))
		if readErr != nil {
			err = readErr
		}
		for field := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids, err
}

// tableDescendants finds descendants where the kernel does not list children.
func tableDescendants(init int) []int {
	var pids []int
	for _, id := range withDescendants(processTable(), func(e procEntry) bool { return e.pid == init }) {
		if id.pid != init {
			pids = append(pids, id.pid)
		}
	}
	return pids
}

// procField is the number behind a name in a file of /proc; 0 when it is not there.
func procField(text []byte, name string) int64 {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		fields := bytes.Fields(rest)
		if len(fields) == 0 {
			return 0
		}
		n, _ := strconv.ParseInt(string(fields[0]), 10, 64)
		return n
	}
	return 0
}

// memoryInfo is the machine's available memory and all of it, in bytes; zeros
// when the kernel does not tell.
func memoryInfo() (available, all int64) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	return procField(text, "MemAvailable:") << 10, procField(text, "MemTotal:") << 10
}

// diskWatch counts what a sandbox holds whenever the file system's free space
// shows that it may have passed its ceiling.
type diskWatch struct {
	folders []string
	keys    *folderKeys
	ceiling treeSize
	levels  int
	left    treeSize // below the ceiling, at the last count
	free    treeSize // of the file system, then
	next    time.Time
	latest  time.Time // count by then in any case
	missed  int       // counts in a row that failed
}

func (d *diskWatch) start(c sandboxCommand) {
	d.folders = []string{filepath.Join(c.folder, workspaceFolder), filepath.Join(c.folder, scratchFolder)}
	d.keys, d.ceiling, d.levels = c.keys, c.ceiling(), c.levels()
	d.left = treeSize{d.ceiling.bytes - c.used.bytes, d.ceiling.entries - c.used.entries}
	d.free = d.freeSpace()
	d.next = time.Now()
	d.latest = d.next.Add(walkAtLeast)
}

// full reports whether the sandbox has passed its ceiling, in size, in number
// of entries or in depth.
func (d *diskWatch) full() bool {
	now := time.Now()
	if now.Before(d.next) {
		return false
	}
	free := d.freeSpace()
	quiet := d.free.bytes-free.bytes < d.left.bytes && d.free.entries-free.entries < d.left.entries
	if quiet && now.Before(d.latest) {
		return false
	}
	used, err := measureTrees(d.keys, d.folders, d.levels, &d.ceiling)
	if errors.Is(err, errTreeFull) || errors.Is(err, errTreeDeep) {
		return true
	}
	took := time.Since(now)
	if d.missed++; err == nil {
		d.missed = 0
	}
	if d.missed > countsMissed {
		return true
	}
	d.left = treeSize{d.ceiling.bytes - used.bytes, d.ceiling.entries - used.entries}
	d.free = free
	d.next = now.Add(walkShare * took)
	d.latest = now.Add(max(walkAtLeast, walkShare*took))
	return false
}

func (d *diskWatch) freeSpace() treeSize {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(d.folders[0], &fs); err != nil {
		return treeSize{}
	}
	return treeSize{int64(fs.Bfree) * int64(fs.Bsize), int64(fs.Ffree)}
}

// measureTrees adds up several trees as measureTree does.
func measureTrees(keys *folderKeys, dirs []string, depth int, limit *treeSize) (treeSize, error) {
	var sum treeSize
	for _, dir := range dirs {
		size, err := measureTree(keys, dir, depth, limit)
		if sum = sum.plus(size); err != nil {
			return sum, err
		}
		if limit != nil && !sum.within(*limit) {
			return sum, errTreeFull
		}
	}
	return sum, nil
}
