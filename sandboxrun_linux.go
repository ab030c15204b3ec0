package main

// Running a command in a sandbox. One run is: start bubblewrap, which makes the
// sandbox and then waits; take hold of the sandbox's first process, whose end is
// the end of all others; let the command go; watch it; wait until all has gone.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	// setupPatience is how long bubblewrap may take to make a sandbox.
	setupPatience = 4 * time.Second
	// goneWithin is how long the processes of a killed sandbox may take to go:
	// much memory takes a while to be given back.
	goneWithin = 5 * time.Second
	// corePatience is how long a command waits for one of others to end where
	// as many run as there are cores.
	corePatience = 10 * time.Second
	// madeAhead is how many sandboxes a core may have in the making.
	madeAhead = 2
	// sandboxNice is how much a command steps back behind everything else.
	sandboxNice = 5
)

// Statuses of a command that was ended, as shells have them.
const (
	exitTimedOut = 124
	exitKilled   = 137
)

// Numbers of system calls that package syscall does not name.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
)

var memfdCreate = map[string]uintptr{"amd64": 319, "arm64": 279}

// enclosure is one running sandbox.
type enclosure struct {
	tools   *sandboxTools
	command sandboxCommand

	cmd     *exec.Cmd
	status  *os.File // where bubblewrap says what becomes of it
	lines   *bufio.Reader
	barrier *os.File // the command starts when a byte is written here; closing it would do the same
	init    int      // process id of the sandbox's first process
	handle  int      // pidfd of it, -1 before it is known

	stdout, stderr cappedOutput
	outputs        []*os.File
	drained        sync.WaitGroup
}

// run runs a command and returns when nothing of it is left. The end of ctx
// ends the command and is then the error. An *isolationFault says that the
// command was not started because it could not be isolated.
func (t *sandboxTools) run(ctx context.Context, c sandboxCommand) (result sandboxResult, err error) {
	patience := time.NewTimer(corePatience)
	defer patience.Stop()
	if err := take(ctx, t.making, patience.C); err != nil {
		return result, err
	}
	made := sync.OnceFunc(func() { <-t.making })
	defer made()
	// Bubblewrap dies with the thread that started it, so that must be one
	// that lives as long.
	err = t.withView(c.folder, func(seen string) error {
		result, err = t.runSeen(ctx, c, seen, func() error {
			defer made()
			return take(ctx, t.cores, patience.C)
		})
		return err
	})
	return result, err
}

// runSeen is run on a thread that sees the sandbox's folder as seen. It calls
// takeCore once the sandbox is ready.
func (t *sandboxTools) runSeen(ctx context.Context, c sandboxCommand, seen string, takeCore func() error) (sandboxResult, error) {
	e, err := t.enclose(c, seen)
	if err != nil {
		return sandboxResult{}, fmt.Errorf("start bubblewrap: %w", err)
	}
	defer e.close()
	if err := e.takeHold(); err != nil {
		e.abandon()
		return sandboxResult{}, errors.Join(printedFault(string(e.stderr.kept)), err)
	}
	if err := takeCore(); err != nil {
		e.abandon()
		return sandboxResult{}, err
	}
	defer func() { <-t.cores }()
	done := make(chan struct{})
	limit := make(chan string, 1)
	begin := time.Now()
	w := sandboxWatch{command: c, init: e.init, kill: e.kill, newest: t.newest}
	go func() { limit <- w.run(ctx, done) }() // ends with done
	_, _ = e.barrier.Write([]byte{1})         // nobody is there when the making failed, as the status will tell
	_ = e.cmd.Wait()
	close(done)
	ended := <-limit
	if err := e.gone(); err != nil {
		return sandboxResult{}, err
	}
	return e.result(ctx, ended, time.Since(begin))
}

// take waits for room in slots, at most until patience has run out. Commands
// run on as many cores as there are; a few more sandboxes are made ahead of
// that, since most of the making is waiting for the kernel, but not so many
// that they get in each other's way.
func take(ctx context.Context, slots chan<- struct{}, patience <-chan time.Time) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-patience:
		return problemf(kindNoCapacity, "Other sandboxes keep all processors busy: try again.").after(corePatience)
	}
}

// enclose starts bubblewrap, which sees the sandbox's folder as seen.
func (t *sandboxTools) enclose(c sandboxCommand, seen string) (_ *enclosure, err error) {
	e := &enclosure{tools: t, command: c, handle: -1}
	var inherited []*os.File
	defer func() {
		for _, f := range inherited {
			f.Close()
		}
		if err != nil {
			e.close()
		}
	}()
	const first = 3 // the number of the first inherited file
	data := [][]byte{[]byte(sandboxPasswd), []byte(sandboxGroup), []byte(sandboxHosts), t.filter}
	plan := sandboxPlan{
		workspace: filepath.Join(seen, workspaceFolder),
		tmp:       filepath.Join(seen, tmpFolder),
		shm:       filepath.Join(seen, shmFolder),
		system:    t.system,
		runtimes:  t.runtimes,
		passwd:    first + 1, group: first + 2, hosts: first + 3, filter: first + 4,
		status: first + 5, block: first + 6,
	}
	var list bytes.Buffer
	for _, arg := range plan.args() {
		list.WriteString(arg + "\x00")
	}
	for _, content := range append([][]byte{list.Bytes()}, data...) {
		f, err := memoryFile(content)
		if err != nil {
			return nil, err
		}
		inherited = append(inherited, f)
	}
	files, err := e.pipes()
	inherited = append(inherited, files...)
	if err != nil {
		return nil, err
	}
	e.cmd = t.bubblewrap(c, inherited)
	if err := t.ps.startDirect(e.cmd); err != nil {
		return nil, err
	}
	e.lines = bufio.NewReader(e.status)
	for i, out := range []*cappedOutput{&e.stdout, &e.stderr} {
		e.drained.Go(func() { _, _ = io.Copy(out, e.outputs[i]) }) // ends with the last writer, or when close closes it
	}
	return e, nil
}

// pipes makes the pipes between us and the sandbox and returns the ends that
// are inherited: status, barrier, standard output and standard error.
func (e *enclosure) pipes() ([]*os.File, error) {
	var theirs []*os.File
	for i := range 4 {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		switch i {
		case 0:
			e.status, theirs = r, append(theirs, w)
		case 1:
			e.barrier, theirs = w, append(theirs, r)
		default:
			e.outputs, theirs = append(e.outputs, r), append(theirs, w)
		}
	}
	return theirs, nil
}

// bubblewrap is the command that makes a sandbox. The last two of files are its
// outputs. Its environment is not empty only because it could be read from
// inside, where the first process is bubblewrap's own.
func (t *sandboxTools) bubblewrap(c sandboxCommand, files []*os.File) *exec.Cmd {
	outputs := len(files) - 2
	limited := limitedCommand(c.argv, processLimits(t.countsNamespace, c.full()), hardLimit)
	cmd := exec.Command(t.bwrap, append([]string{"--args", "3", "--"}, limited...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.ExtraFiles = files[:outputs]
	cmd.Stdout, cmd.Stderr = files[outputs], files[outputs+1]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if t.owner != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(t.owner.uid), Gid: uint32(t.owner.gid)}
	}
	return cmd
}

// takeHold waits for the sandbox's first process and opens a handle of it.
func (e *enclosure) takeHold() error {
	var line struct {
		Child int `json:"child-pid"`
	}
	_ = e.status.SetReadDeadline(time.Now().Add(setupPatience))
	text, err := e.lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	handle, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(line.Child), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("pidfd_open", errno)
	}
	e.init, e.handle = line.Child, int(handle)
	syscall.CloseOnExec(e.handle)
	if entry, ok := readProcess(e.init); !ok || entry.parent != e.cmd.Process.Pid {
		return errors.New("the sandbox's first process has gone")
	}
	// What it is to inherit: first to go when memory runs out, last in the
	// queue for a processor. Neither is worth failing for.
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(e.init), "oom_score_adj"), []byte("1000"), 0)
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, e.init, sandboxNice)
	return nil
}

// kill ends all processes of the sandbox and reports whether there were any.
func (e *enclosure) kill() bool {
	_, _, errno := syscall.Syscall6(sysPidfdSendSignal, uintptr(e.handle), uintptr(syscall.SIGKILL), 0, 0, 0, 0)
	return errno == 0
}

// abandon ends a bubblewrap that did not get as far as it should.
func (e *enclosure) abandon() {
	if e.handle >= 0 {
		e.kill()
	}
	_ = killGroup(e.cmd.Process.Pid) // what it started is still in its group
	_ = e.cmd.Wait()
	if e.handle >= 0 {
		_ = e.gone()
	}
	e.drain()
}

// gone waits until the sandbox's first process, and so every other, has gone.
// Bubblewrap itself may end a moment before.
func (e *enclosure) gone() error {
	poll := struct {
		fd              int32
		events, revents int16
	}{fd: int32(e.handle), events: 1}
	for end := time.Now().Add(goneWithin); ; {
		patience := syscall.NsecToTimespec(max(int64(time.Until(end)), 0))
		n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1,
			uintptr(unsafe.Pointer(&patience)), 0, 0, 0)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 || n == 0 {
			return errors.New("processes of a sandbox do not end")
		}
		return nil
	}
}

// drain waits for the rest of the outputs, whose writers have gone.
func (e *enclosure) drain() {
	for _, f := range e.outputs {
		_ = f.SetReadDeadline(time.Now().Add(toolDrain))
	}
	e.drained.Wait()
}

// result is how the command ended, after everything has gone.
func (e *enclosure) result(ctx context.Context, limit string, took time.Duration) (sandboxResult, error) {
	e.drain()
	if err := ctx.Err(); err != nil {
		return sandboxResult{}, context.Cause(ctx)
	}
	status, started := e.exitStatus()
	if !started && limit == "" {
		return sandboxResult{}, printedFault(string(e.stderr.kept))
	}
	switch limit {
	case "":
	case endedByTime:
		status = exitTimedOut
	default:
		status = exitKilled
	}
	return sandboxResult{
		status:    status,
		stdout:    e.stdout.text(),
		stderr:    e.stderr.text(),
		truncated: e.stdout.cut || e.stderr.cut,
		duration:  took,
		limit:     limit,
	}, nil
}

// exitStatus is the status of the command. Bubblewrap tells it only when the
// command was started.
func (e *enclosure) exitStatus() (status int, started bool) {
	_ = e.status.SetReadDeadline(time.Now().Add(toolDrain))
	decoder := json.NewDecoder(e.lines)
	for {
		var line struct {
			Exit *int `json:"exit-code"`
		}
		if err := decoder.Decode(&line); err != nil {
			return 0, false
		}
		if line.Exit != nil {
			return *line.Exit, true
		}
	}
}

func (e *enclosure) close() {
	if e.cmd != nil && e.cmd.Process != nil {
		e.tools.ps.forget(e.cmd.Process.Pid)
	}
	for _, f := range append(e.outputs, e.status, e.barrier) {
		if f != nil {
			f.Close()
		}
	}
	if e.handle >= 0 {
		syscall.Close(e.handle)
	}
}

// memoryFile is an open file in memory with the given content, for a child to
// read from its beginning.
func memoryFile(content []byte) (*os.File, error) {
	name := []byte("sandbox\x00")
	fd, _, errno := syscall.Syscall(memfdCreate[runtime.GOARCH], uintptr(unsafe.Pointer(&name[0])), 1, 0) // MFD_CLOEXEC
	if errno != 0 {
		return nil, os.NewSyscallError("memfd_create", errno)
	}
	f := os.NewFile(fd, "memory")
	_, err := f.Write(content)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// hardLimit is this process's own hard limit of a resource.
func hardLimit(resource int) uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(resource, &l); err != nil {
		return ^uint64(0)
	}
	return l.Max
}
