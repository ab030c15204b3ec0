package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// recheckAfter is how long a machine that could not isolate is taken to be
	// one that cannot.
	recheckAfter = time.Minute
	// probePatience is how long a whole trial may take.
	probePatience = 4 * time.Second
)

// isolator runs commands in sandboxes, where this machine can isolate them,
// which it finds out by trying.
type isolator struct {
	ps     *processes
	folder string // of all sandboxes
	cfg    sandboxConfig
	newest newestFirst
	making chan struct{} // holds a token for each sandbox that is made or waits for a core
	cores  chan struct{} // holds a token for each command that runs

	trying chan struct{} // holds one token while nobody tries

	mu      sync.Mutex // guards the rest
	tools   *sandboxTools
	fault   *isolationFault
	checked time.Time
}

// newIsolator returns an isolator for the sandboxes in a folder. It tries
// nothing yet. Files that this program was started with are kept from commands
// from here on. When the program runs as root, commands run as cfg.uid.
func newIsolator(ps *processes, folder string, cfg sandboxConfig) *isolator {
	closeOnExec()
	cores := runtime.NumCPU()
	i := &isolator{
		ps: ps, folder: folder, cfg: cfg, trying: make(chan struct{}, 1),
		making: make(chan struct{}, madeAhead*cores), cores: make(chan struct{}, cores),
	}
	i.trying <- struct{}{}
	return i
}

// owner is the user that commands run as where that is not our own.
func (i *isolator) owner() *owner {
	if os.Geteuid() != 0 {
		return nil
	}
	return &owner{uid: i.cfg.uid, gid: i.cfg.uid}
}

// check reports why this machine cannot isolate commands; nil when it can. It
// tries for real, once, and again when the last try failed and is a while ago.
func (i *isolator) check(ctx context.Context) *isolationFault {
	_, fault := i.ready(ctx)
	return fault
}

// run runs a command as sandboxTools.run does, or fails with the reason why
// this machine cannot isolate it.
func (i *isolator) run(ctx context.Context, c sandboxCommand) (sandboxResult, error) {
	tools, fault := i.ready(ctx)
	if err := ctx.Err(); err != nil {
		return sandboxResult{}, context.Cause(ctx)
	}
	if fault != nil {
		return sandboxResult{}, fault.problem()
	}
	result, err := tools.run(ctx, c)
	if fault, ok := errors.AsType[*isolationFault](err); ok {
		i.forget(tools)
		return result, fault.problem().because(err)
	}
	return result, err
}

func (i *isolator) ready(ctx context.Context) (*sandboxTools, *isolationFault) {
	if tools, fault, known := i.known(); known {
		return tools, fault
	}
	select {
	case <-i.trying:
	case <-ctx.Done():
		return nil, printedFault(ctx.Err().Error())
	}
	defer func() { i.trying <- struct{}{} }()
	if tools, fault, known := i.known(); known {
		return tools, fault
	}
	tools, fault := i.find()
	if fault == nil {
		fault = i.try(tools)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tools, i.fault, i.checked = tools, fault, time.Now()
	if fault != nil && fault.reason == reasonBusy {
		i.checked = time.Time{} // it passes
	}
	return tools, fault
}

func (i *isolator) known() (_ *sandboxTools, _ *isolationFault, known bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	known = !i.checked.IsZero() && (i.fault == nil || time.Since(i.checked) < recheckAfter)
	return i.tools, i.fault, known
}

// forget makes the next caller try again, after what worked has failed.
func (i *isolator) forget(tools *sandboxTools) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.tools == tools {
		i.checked = time.Time{}
	}
}

// find looks for what is needed, without trying it.
func (i *isolator) find() (*sandboxTools, *isolationFault) {
	filter, ok := seccompFilter(runtime.GOARCH)
	if !ok {
		return nil, faultMachine(runtime.GOARCH)
	}
	who := i.owner()
	if who != nil && who.uid == 0 {
		return nil, faultUID()
	}
	path, err := exec.LookPath("bwrap")
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, faultMissing("bwrap", "bubblewrap")
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode()&os.ModeSetuid != 0 {
		return nil, faultSetuid(path)
	}
	if _, err := os.Stat(sandboxPrlimit); err != nil {
		return nil, faultMissing("prlimit", "util-linux")
	}
	if bad := slices.IndexFunc(i.cfg.runtimeDirs, revealing); bad >= 0 {
		return nil, faultRuntimeDir(i.cfg.runtimeDirs[bad])
	}
	return &sandboxTools{
		ps:              i.ps,
		bwrap:           path,
		filter:          filter,
		system:          systemFolders(),
		runtimes:        i.cfg.runtimeDirs,
		countsNamespace: kernelAtLeast(5, 14),
		owner:           who,
		newest:          &i.newest,
		making:          i.making,
		cores:           i.cores,
	}, nil
}

// try runs a command that does nothing in a sandbox like any other.
func (i *isolator) try(tools *sandboxTools) *isolationFault {
	ctx, cancel := context.WithTimeout(context.Background(), probePatience)
	defer cancel()
	if version, old := i.version(ctx, tools.bwrap); old {
		return faultOld(version)
	}
	if ctx.Err() != nil {
		return printedFault("it does not answer")
	}
	folder, err := os.MkdirTemp(i.folder, tryPrefix+"*")
	if err != nil {
		return printedFault(err.Error())
	}
	defer os.RemoveAll(folder)
	if err := makeSandboxFolders(folder, tools.owner); err != nil {
		if tools.owner != nil && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM)) {
			return faultOwner(tools.owner.uid)
		}
		return printedFault(err.Error())
	}
	quota := treeSize{1 << 20, 100}
	result, err := tools.run(ctx, sandboxCommand{folder: folder, argv: []string{"/usr/bin/true"}, timeout: probePatience, quota: quota})
	if fault, ok := errors.AsType[*isolationFault](err); ok {
		return fault
	}
	if err != nil {
		return printedFault(err.Error())
	}
	if result.status != 0 {
		return printedFault(result.stderr)
	}
	return nil
}

// version asks for bubblewrap's version and reports whether it is one that
// lacks what is needed. One that does not say is left to the trial.
func (i *isolator) version(ctx context.Context, bwrap string) (version string, old bool) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, bwrap, "--version")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.Stdout = &out
	if err := i.ps.run(cmd); err != nil {
		return "", false
	}
	version = strings.TrimSpace(strings.TrimPrefix(out.String(), "bubblewrap "))
	numbers := strings.SplitN(version, ".", 3)
	if len(numbers) < 2 {
		return version, false
	}
	major, err1 := strconv.Atoi(numbers[0])
	minor, err2 := strconv.Atoi(numbers[1])
	return version, err1 == nil && err2 == nil && major == 0 && minor < 8
}

// systemFolders are the folders of the root that programs and libraries are
// found by, as this system has them.
func systemFolders() []systemFolder {
	var folders []systemFolder
	for _, path := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if target, err := os.Readlink(path); err == nil {
			folders = append(folders, systemFolder{path, target})
		} else if info.IsDir() {
			folders = append(folders, systemFolder{path: path})
		}
	}
	return folders
}

// kernelAtLeast reports whether the running kernel has at least this version.
func kernelAtLeast(major, minor int) bool {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return false
	}
	numbers := strings.SplitN(string(release), ".", 3)
	if len(numbers) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(numbers[0])
	b, err2 := strconv.Atoi(strings.TrimRight(numbers[1], "\n"))
	return errors.Join(err1, err2) == nil && (a > major || a == major && b >= minor)
}

// revealing reports whether a folder holds, or is, what no command may see.
func revealing(dir string) bool {
	for _, secret := range []string{"/home", "/root", "/etc", "/run", "/var", "/proc", "/sys", "/dev", "/tmp"} {
		if rel, err := filepath.Rel(dir, secret); err != nil || filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}
