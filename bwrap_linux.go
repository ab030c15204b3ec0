package main

// How bubblewrap is told to make a sandbox: lists of arguments, and nothing
// that touches the machine.

import (
	"strconv"
	"strings"
)

// What a command finds in its sandbox.
const (
	sandboxPath    = "/usr/local/bin:/usr/bin:/bin" // never the workspace: an allowed name must not be shadowed
	sandboxHome    = "/workspace"
	sandboxID      = "1000" // uid and gid inside, whatever they are outside
	sandboxPasswd  = "learner:x:1000:1000::/workspace:/bin/sh\n"
	sandboxGroup   = "learner:x:1000:\n"
	sandboxHosts   = "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 sandbox\n"
	sandboxPrlimit = "/usr/bin/prlimit"
)

// Bounds of one exec. Those that a process has of itself are set by prlimit
// inside the sandbox, right before the command; the others are watched.
const (
	limitMemory    = 1 << 30  // bytes, of one process and of all together
	limitAddresses = 16 << 30 // bytes; some runtimes reserve far more than they use
	limitProcesses = 64       // with threads; one above it ends the exec
	limitForks     = 96       // what the kernel stops at, between two looks
	limitOpenFiles = 128      // bounds the memory of socket buffers too
	limitFileSize  = 64 << 20 // bytes of one file
	limitLocked    = 64 << 10 // bytes of locked memory, and of message queues
	limitSignals   = 256
	limitStack     = 8 << 20 // bytes
)

// systemFolder is a folder of the root that holds programs or libraries: a
// link into /usr on most systems, a folder on others.
type systemFolder struct {
	path string
	link string // the link's target; "" for a real folder
}

// sandboxPlan is what one run of bubblewrap is told. The numbers are those of
// files that it inherits.
type sandboxPlan struct {
	workspace, tmp, shm string // host folders
	system              []systemFolder
	runtimes            []string // further host folders to read, each with its programs in bin

	passwd, group, hosts  int // generated files of /etc
	filter, status, block int
}

// args are the arguments that describe the sandbox, which bubblewrap reads from
// a file so that host paths are in nobody's list of processes.
func (p sandboxPlan) args() []string {
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup",
		"--disable-userns",
		"--uid", sandboxID, "--gid", sandboxID, "--hostname", "sandbox",
		"--cap-drop", "ALL",
		"--die-with-parent", "--new-session",
		"--clearenv",
		"--setenv", "PATH", p.path(),
		"--setenv", "HOME", sandboxHome,
		"--setenv", "LANG", "C.UTF-8",
		"--setenv", "TERM", "dumb",
		"--setenv", "TMPDIR", "/tmp",
		"--ro-bind", "/usr", "/usr",
	}
	for _, f := range p.system {
		if f.link != "" {
			args = append(args, "--symlink", f.link, f.path)
		} else {
			args = append(args, "--ro-bind", f.path, f.path)
		}
	}
	for _, path := range []string{"/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"} {
		args = append(args, "--ro-bind-try", path, path)
	}
	for _, dir := range p.runtimes {
		args = append(args, "--ro-bind", dir, dir)
	}
	return append(args,
		"--ro-bind-data", strconv.Itoa(p.passwd), "/etc/passwd",
		"--ro-bind-data", strconv.Itoa(p.group), "/etc/group",
		"--ro-bind-data", strconv.Itoa(p.hosts), "/etc/hosts",
		"--proc", "/proc",
		"--dev", "/dev",
		"--bind", p.shm, "/dev/shm",
		"--bind", p.tmp, "/tmp",
		"--bind", p.workspace, sandboxHome, "--chdir", sandboxHome,
		"--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/",
		"--seccomp", strconv.Itoa(p.filter),
		"--json-status-fd", strconv.Itoa(p.status),
		"--block-fd", strconv.Itoa(p.block),
	)
}

func (p sandboxPlan) path() string {
	var dirs []string
	for _, dir := range p.runtimes {
		dirs = append(dirs, dir+"/bin")
	}
	return strings.Join(append(dirs, sandboxPath), ":")
}

// processLimit is a limit that prlimit sets on itself and so on the command.
type processLimit struct {
	option   string
	resource int // the kernel's number
	value    uint64
}

// processLimits are the limits of a command. A kernel that counts processes by
// user rather than by namespace is not told a number of them, since it would
// count the learner's own programs; a workspace that is full may only shrink.
func processLimits(countsNamespace, full bool) []processLimit {
	limits := []processLimit{
		{"core", 4, 0},
		{"data", 2, limitMemory},
		{"as", 9, limitAddresses},
		{"nofile", 7, limitOpenFiles},
		{"fsize", 1, limitFileSize},
		{"memlock", 8, limitLocked},
		{"msgqueue", 12, limitLocked},
		{"sigpending", 11, limitSignals},
		{"stack", 3, limitStack},
	}
	if countsNamespace {
		limits = append(limits, processLimit{"nproc", 6, limitForks})
	}
	if full {
		limits[4].value = 0
	}
	return limits
}

// limitedCommand is argv behind prlimit. A limit above what hard says this
// process has itself cannot be set, and is lowered to it.
func limitedCommand(argv []string, limits []processLimit, hard func(resource int) uint64) []string {
	out := []string{sandboxPrlimit}
	for _, l := range limits {
		out = append(out, "--"+l.option+"="+strconv.FormatUint(min(l.value, hard(l.resource)), 10))
	}
	return append(append(out, "--"), argv...)
}
