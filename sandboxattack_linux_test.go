package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// attackPrelude lets an attack say for each of its attempts that it was held
// off, or that it got through. The last line is HELD only when all were.
const attackPrelude = `
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
escapes = []
def refused(what, attempt, *errors):
    try:
        got = attempt()
    except OSError as e:
        if errors and e.errno not in errors:
            escapes.append(f"{what}: unexpected {e}")
        return
    escapes.append(f"{what}: {got!r}")
def call(number, *args):
    ctypes.set_errno(0)
    if libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in args]) == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return "the call went through"
def expect(what, ok):
    if not ok: escapes.append(what)
`

const attackEnd = `
print("\n".join(escapes) if escapes else "HELD")
`

// attacks are scripts run in a sandbox. %ADDRESS% is a listener of the host.
var attacks = map[string]string{
	"network": `
import socket
for host, port in (("127.0.0.1", %PORT%), ("8.8.8.8", 53), ("::1", %PORT%)):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(2)
    refused(f"connect {host}", lambda: s.connect((host, port)))
refused("abstract socket", lambda: socket.socket(socket.AF_UNIX).connect("\0%ABSTRACT%"))
refused("socket of the host", lambda: socket.socket(socket.AF_UNIX).connect("%SOCKET%"))
interfaces = [l.split(":")[0].strip() for l in open("/proc/net/dev").read().splitlines()[2:]]
expect(f"interfaces {interfaces}", interfaces == ["lo"])
routes = [l for l in open("/proc/net/route").read().splitlines()[1:]]
expect(f"routes {routes}", not routes)
for family in (16, 17, 38, 40, 31, 44):  # netlink, packet, alg, vsock, bluetooth, xdp
    refused(f"family {family}", lambda: socket.socket(family, socket.SOCK_RAW), errno.EAFNOSUPPORT)
refused("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
`,
	"host files": `
for path in ("/home", "/root", "/var", "/run", "/sys", "/boot", "/opt", "/srv", "/mnt", "/media", "/etc/shadow",
             "/etc/ssh", "%DATA%", "/proc/1/root%DATA%", "/proc/self/root%DATA%", "/workspace/../..%DATA%"):
    refused(path, lambda: os.listdir(path) if os.path.isdir(path) else open(path).read())
expect("etc " + repr(sorted(os.listdir("/etc"))),
       set(os.listdir("/etc")) <= {"passwd", "group", "hosts", "ld.so.cache", "alternatives", "localtime"})
expect("root " + repr(sorted(os.listdir("/"))),
       set(os.listdir("/")) <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr", "workspace"})
mounts = [l.split() for l in open("/proc/self/mountinfo")]
for m in mounts:
    expect("writable mount " + " ".join(m), "ro" in m[5].split(",") or m[4] in ("/workspace", "/tmp", "/dev/shm", "/dev/pts") or m[4].startswith("/dev/"))
for path in ("/usr/x", "/etc/x", "/x", "/dev/x", "/bin/x", "/proc/x"):
    refused("write " + path, lambda: open(path, "w"))
refused("hard link", lambda: os.link("/usr/bin/true", "/workspace/hard"))
refused("sysctl", lambda: open("/proc/sys/kernel/core_pattern", "w"))
refused("own score", lambda: open("/proc/self/oom_score_adj", "w"))
refused("trigger", lambda: open("/proc/sysrq-trigger", "w"))
refused("kernel memory", lambda: open("/proc/kcore", "rb").read(1))
`,
	"secrets": `
import glob
text = b""
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try: text += open(path, "rb").read()
    except OSError: pass
expect("environment", b"%SECRET%" not in text and b"HOME=/root" not in text)
expect("host paths in command lines", b"%DATA%" not in text)
expect("environment of ours " + repr(sorted(os.environ)), set(os.environ) <= {"PATH", "HOME", "LANG", "TERM", "TMPDIR", "PWD", "LC_CTYPE"})
`,
	"descriptors": `
fds = sorted(int(f) for f in os.listdir("/proc/self/fd"))
fds = [f for f in fds if os.path.exists(f"/proc/self/fd/{f}") or f < 3]
expect(f"open files {[(f, os.readlink(f'/proc/self/fd/{f}')) for f in fds if os.path.lexists(f'/proc/self/fd/{f}')]}", set(fds) <= {0, 1, 2})
expect("standard input " + os.readlink("/proc/self/fd/0"), sys.stdin.read() == "")
for pid in [p for p in os.listdir("/proc") if p.isdigit() and p != str(os.getpid())]:
    try: names = os.listdir(f"/proc/{pid}/fd")
    except OSError: continue
    for name in names:
        try: target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError: continue
        expect(f"file of {pid}: {target}", not target.startswith("%DATA%") and "socket" not in target)
`,
	"terminal": `
import fcntl, termios
refused("open the terminal", lambda: os.open("/dev/tty", os.O_RDWR))
for fd in (0, 1, 2):
    expect(f"terminal on {fd}", not os.isatty(fd))
    refused(f"push on {fd}", lambda: fcntl.ioctl(fd, termios.TIOCSTI, b"x"))
main, sub = os.openpty()
refused("push on own", lambda: fcntl.ioctl(sub, termios.TIOCSTI, b"x"), errno.EPERM)
refused("push, high bits", lambda: call({"x86_64": 16, "aarch64": 29}[os.uname().machine], sub, 0x100005412, 0), errno.EPERM)
refused("paste", lambda: fcntl.ioctl(sub, 0x541c, b"x"), errno.EPERM)
`,
	"capabilities": `
status = dict(l.rstrip("\n").split(":\t", 1) for l in open("/proc/self/status"))
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    expect(f"{name} {status[name]}", int(status[name], 16) == 0)
expect("no_new_privs", status["NoNewPrivs"] == "1")
expect("filter", status["Seccomp"] == "2")
expect("groups", os.getuid() == 1000 and os.getgid() == 1000)
for uid in (0, 65534): refused(f"setuid {uid}", lambda: os.setuid(uid))
refused("device", lambda: os.mknod("/workspace/disk", 0o60666, os.makedev(8, 0)))
refused("chown", lambda: os.chown("/workspace", 0, 0))
import resource
for limit in (resource.RLIMIT_DATA, resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    soft, hard = resource.getrlimit(limit)
    expect(f"limit {limit}", hard != resource.RLIM_INFINITY)
    try:
        resource.setrlimit(limit, (hard + 1, hard + 1))
        escapes.append(f"raised limit {limit}")
    except (ValueError, OSError): pass
`,
	"namespaces": `
NEW = {"user": 0x10000000, "mount": 0x20000, "net": 0x40000000, "pid": 0x20000000, "cgroup": 0x02000000, "time": 0x80}
x86 = os.uname().machine == "x86_64"
unshare, clone, clone3, setns, mount, chroot = (272, 56, 435, 308, 165, 161) if x86 else (97, 220, 435, 268, 40, 51)
for name, flag in NEW.items():
    refused("unshare " + name, lambda: call(unshare, flag), errno.EPERM)
    refused("clone " + name, lambda: call(clone, flag | 17, 0, 0, 0, 0), errno.EPERM)
refused("clone3", lambda: call(clone3, 0, 0), errno.ENOSYS)
refused("setns", lambda: call(setns, os.open("/proc/1/ns/net", os.O_RDONLY), 0), errno.EPERM, errno.EACCES)
refused("mount", lambda: call(mount, 0, 0, 0, 0, 0), errno.EPERM)
refused("chroot", lambda: os.chroot("/workspace"), errno.EPERM)
for number in (428, 429, 430, 431, 432, 433, 442): refused(f"mount call {number}", lambda: call(number, 0, 0, 0, 0, 0), errno.ENOSYS)
`,
	"other processes": `
import signal
pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
expect(f"processes {pids}", len(pids) <= 4)
refused("kill the host", lambda: os.kill(%PID%, 0) if %PID% > 10 else os.kill(99999, 0), errno.ESRCH)
x86 = os.uname().machine == "x86_64"
refused("ptrace", lambda: call(101 if x86 else 117, 0, 0, 0, 0), errno.EPERM)
refused("read memory", lambda: call(310 if x86 else 270, 1, 0, 0, 0, 0, 0), errno.EPERM)
refused("memory of the first process", lambda: open("/proc/1/mem", "rb").read(1))
expect("host name " + os.uname().nodename, os.uname().nodename == "sandbox")
`,
	"system calls": `
x86 = os.uname().machine == "x86_64"
EPERM, ENOSYS = errno.EPERM, errno.ENOSYS
calls = {"keyctl": (250, 219, EPERM), "add_key": (248, 217, EPERM), "bpf": (321, 280, EPERM), "perf": (298, 241, EPERM),
  "userfaultfd": (323, 282, EPERM), "io_uring": (425, 425, ENOSYS), "kexec": (246, 104, EPERM), "module": (175, 105, EPERM),
  "reboot": (169, 142, EPERM), "syslog": (103, 116, EPERM), "clock": (227, 112, EPERM), "swapon": (167, 224, EPERM),
  "handle": (304, 265, EPERM), "quotactl": (179, 60, EPERM), "memfd": (319, 279, ENOSYS), "shmget": (29, 194, EPERM),
  "fanotify": (300, 262, EPERM), "pidfd_getfd": (438, 438, EPERM), "mbind": (237, 235, EPERM), "personality": (135, 92, EPERM)}
for name, (a, b, want) in calls.items():
    args = (0x0040000,) if name == "personality" else (0, 0, 0, 0, 0)
    refused(name, lambda: call(a if x86 else b, *args), want)
if x86: refused("x32", lambda: call(0x40000000 + 39), ENOSYS)
expect("personality query", libc.syscall(135 if x86 else 92, ctypes.c_long(0xffffffff)) == 0)
`,
}

func TestAttacksFromInsideAreHeldOff(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		leakFile(t)
		s := testSandboxes(t, nil)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		abstract := "sandbox-test-" + strconv.Itoa(os.Getpid())
		for _, name := range []string{"@" + abstract, filepath.Join(filepath.Dir(s.dir), "socket")} {
			local, err := net.Listen("unix", name)
			if err != nil {
				t.Fatal(err)
			}
			defer local.Close()
		}
		replace := strings.NewReplacer(
			"%PORT%", strconv.Itoa(listener.Addr().(*net.TCPAddr).Port),
			"%ABSTRACT%", abstract,
			"%SOCKET%", filepath.Join(filepath.Dir(s.dir), "socket"),
			"%DATA%", filepath.Dir(s.dir),
			"%PID%", strconv.Itoa(os.Getpid()),
			"%SECRET%", filepath.Base(filepath.Dir(filepath.Dir(s.dir))),
		)
		for name, script := range attacks {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				sb := mustCreate(t, s, sandboxOrder{})
				got := mustRunPython(t, s, sb.id, attackPrelude+replace.Replace(script)+attackEnd)
				if got.stdout != "HELD\n" || got.status != 0 {
					t.Errorf("attack got through:\n%s%s", got.stdout, got.stderr)
				}
			})
		}
	})
}

// leakFile opens a file of the host as something that started this program
// might have, so that every child would inherit it. It does so before the
// isolator is made.
func leakFile(t *testing.T) {
	t.Helper()
	fd, err := syscall.Open("/etc/passwd", syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
}

func TestLimitsEndACommandAndSayWhich(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, func(cfg *sandboxConfig) { cfg.workspaceQuota = 64 << 20 })
		for _, c := range []struct {
			name, script, limit string
			status              int
		}{
			{"time", "import time\nprint('before', flush=True)\ntime.sleep(60)", endedByTime, exitTimedOut},
			{"busy in all threads", "import os\nfor i in range(3): os.fork()\nwhile True: pass", endedByTime, exitTimedOut},
			{"stopped by itself", "import os, signal\nos.kill(0, signal.SIGSTOP)", endedByTime, exitTimedOut},
			{"deaf to signals", "import signal, time\nfor n in range(1, 32):\n  try: signal.signal(n, signal.SIG_IGN)\n  except OSError: pass\nwhile True: time.sleep(1)", endedByTime, exitTimedOut},
			{"fork bomb", "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", endedByProcesses, exitKilled},
			{"threads", "import threading, time\nfor i in range(90): threading.Thread(target=time.sleep, args=(90,)).start()", endedByProcesses, exitKilled},
			{"memory of many", "import os, time\nfor i in range(7):\n  if os.fork() == 0: break\nb = bytearray(220 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\ntime.sleep(90)", endedByMemory, exitKilled},
			{"shared memory", "import mmap, time\nm = mmap.mmap(-1, 1400 << 20)\nfor i in range(0, len(m), 4096): m[i] = 1\ntime.sleep(90)", endedByMemory, exitKilled},
			{"big files", "i = 0\nwhile True:\n  i += 1\n  open(f'f{i}', 'wb').write(b'x' * (8 << 20))", endedByDisk, exitKilled},
			{"empty files", "i = 0\nwhile True:\n  i += 1\n  open(f'/tmp/f{i}', 'wb').close()", endedByDisk, exitKilled},
			{"full /dev/shm", "i = 0\nwhile True:\n  i += 1\n  open(f'/dev/shm/f{i}', 'wb').write(b'x' * (8 << 20))", endedByDisk, exitKilled},
			{"deep folders", "import os, time\nfor i in range(2000):\n  os.mkdir('d'); os.chdir('d')\ntime.sleep(90)", endedByDisk, exitKilled},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				sb := mustCreate(t, s, sandboxOrder{})
				if err := s.write(pageA, sb.id, "script.py", []byte(c.script)); err != nil {
					t.Fatal(err)
				}
				timeout := 60.0 // never reached
				if c.limit == endedByTime {
					timeout = 1
				}
				got, err := s.exec(t.Context(), pageA, sb.id, []string{"python3", "script.py"}, &timeout)
				if err != nil {
					t.Fatal(err)
				}
				if got.limit != c.limit || got.status != c.status {
					t.Errorf("exec = status %d, limit %q after %v, want %d, %q\n%s", got.status, got.limit, got.duration, c.status, c.limit, got.stderr)
				}
				if c.name == "time" && got.stdout != "before\n" {
					t.Errorf("output = %q, want what came before the end", got.stdout)
				}
				if err := s.delete(pageA, sb.id); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

func TestLimitsOfAProcessAreErrorsThere(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		for name, script := range map[string]string{
			"memory":     "try: bytearray(1100 << 20)\nexcept MemoryError: print('HELD')",
			"file size":  "try: open('f', 'wb').write(b'x' * (65 << 20))\nexcept OSError: print('HELD')",
			"sparse":     "try: open('f', 'wb').truncate(1 << 40)\nexcept OSError: print('HELD')",
			"open files": "fs = []\ntry:\n  while True: fs.append(open('/dev/null'))\nexcept OSError: print('HELD' if len(fs) < 130 else len(fs))",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				sb := mustCreate(t, s, sandboxOrder{})
				if got := mustRunPython(t, s, sb.id, script); got.stdout != "HELD\n" || got.limit != "" {
					t.Errorf("exec = %+v, want HELD", got)
				}
			})
		}
	})
}

func TestOutputIsCappedAndAlwaysText(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		got := mustExec(t, s, sb.id, "sh", "-c", "head -c 300000000 /dev/zero | tr '\\0' x; echo done >&2")
		if len(got.stdout) != outputLimit || !got.truncated || got.stderr != "done\n" || got.status != 0 {
			t.Errorf("flood: %d bytes, truncated %v, stderr %q, status %d", len(got.stdout), got.truncated, got.stderr, got.status)
		}
		got = mustExec(t, s, sb.id, "python3", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256))); print(sys.stdin.read() == '')")
		want := string([]rune(string(allBytes()))) + "True\n"
		if got.stdout != want || got.truncated {
			t.Errorf("all bytes = %q, want %q", got.stdout, want)
		}
	})
}

func allBytes() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

func TestOptionsInACommandAreOnlyWords(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		for _, argv := range [][]string{{"--bind", "/", "/mnt"}, {"--", "true"}, {"--help"}, {"--version"}, {"-p", "1"}} {
			got := mustExec(t, s, sb.id, argv...)
			if got.status != 127 || got.stdout != "" {
				t.Errorf("exec %q = %+v, want status 127", argv, got)
			}
		}
	})
}

// runningWith counts the processes of this machine with a word in their
// command lines.
func runningWith(word string) int {
	count := 0
	for pid := range processTable() {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(line), word) {
			count++
		}
	}
	return count
}

// leaver starts processes that try to outlive their command.
const leaver = `
import os, sys, time
for i in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if i % 2: [os.close(fd) for fd in (0, 1, 2)]
            os.execvp("sleep", ["sleep", sys.argv[1]])
        os._exit(0)
os.makedirs("/tmp/left/behind"); open("/dev/shm/left", "w").write("x")
print("started", flush=True)
if len(sys.argv) > 2: time.sleep(60)
`

func TestNothingIsLeftOfAnEndedCommand(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		if err := s.write(pageA, sb.id, "leaver.py", []byte(leaver)); err != nil {
			t.Fatal(err)
		}
		word := fmt.Sprintf("7%d.%d", os.Getpid(), time.Now().UnixNano()%1e6)
		begin := time.Now()
		got := mustExec(t, s, sb.id, "python3", "leaver.py", word)
		if got.stdout != "started\n" || got.limit != "" || time.Since(begin) > 10*time.Second {
			t.Errorf("exec = %+v after %v, want an end with the command's own process", got, time.Since(begin))
		}
		if n := runningWith(word); n != 0 {
			t.Errorf("%d processes are left after the end", n)
		}
		timeout := 1.5
		got, err := s.exec(t.Context(), pageA, sb.id, []string{"python3", "leaver.py", word, "stay"}, &timeout)
		if err != nil || got.limit != endedByTime {
			t.Errorf("exec = %+v, %v, want the time limit", got, err)
		}
		if n := runningWith(word); n != 0 {
			t.Errorf("%d processes are left after the time limit", n)
		}
		for _, folder := range []string{tmpFolder, shmFolder} {
			if left, err := os.ReadDir(filepath.Join(s.dir, sb.id, folder)); err != nil || len(left) > 0 {
				t.Errorf("%s holds %v, %v, want nothing", folder, left, err)
			}
		}
	})
}
