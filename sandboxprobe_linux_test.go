package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeBubblewrap puts a program in bubblewrap's place on PATH. Its calls leave
// a trace in a file next to it when they would run a command.
func fakeBubblewrap(t *testing.T, script string) (trace string) {
	t.Helper()
	dir := reachableFolder(t)
	trace = filepath.Join(dir, "trace")
	text := "#!/bin/sh\n[ \"$1\" = --version ] && { echo bubblewrap 0.11.0; exit; }\n" + script
	if err := os.WriteFile(filepath.Join(dir, "bwrap"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return trace
}

func TestWithoutIsolationThereIsNoSandboxAndAReason(t *testing.T) {
	for _, c := range []struct{ name, script, reason string }{
		{"uid map refused", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "apparmor"},
		{"network refused", "echo 'bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted' >&2; exit 1", "net_setup"},
		{"namespaces off", "echo 'bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)' >&2; exit 1", "userns_off"},
		{"proc masked", "echo \"bwrap: Can't mount proc on /newroot/proc: Operation not permitted\" >&2; exit 1", "proc_masked"},
		{"hangs", "exec sleep 600", "other"},
		{"fails late", "printf '{ \"child-pid\": %d }\\n' $$ >&8; echo 'bwrap: pivot_root: Invalid argument' >&2; exit 1", "other"},
		{"says nothing", "exit 0", "other"},
		{"runs it on the host", "shift 3; exec \"$@\"", "other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakeBubblewrap(t, c.script)
			s := testSandboxes(t, nil)
			begin := time.Now()
			_, err := s.create(t.Context(), pageA, sandboxOrder{learnerID: adult})
			took := time.Since(begin)
			p, ok := err.(*problem)
			if !ok || p.kind != kindNoCapacity || p.members["reason"] != c.reason || p.members["hint"] == "" {
				t.Errorf("create = %#v, want a refusal for the reason %q", err, c.reason)
			}
			if ok && !strings.Contains(p.detail, p.members["hint"]) {
				t.Errorf("detail %q does not say what to do: %q", p.detail, p.members["hint"])
			}
			if took > 6*time.Second {
				t.Errorf("create took %v", took)
			}
			if got := s.list(pageA); len(got) != 0 {
				t.Errorf("list = %v, want none", got)
			}
			begin = time.Now()
			_ = s.available(t.Context())
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("the second answer took %v: it must be remembered", took)
			}
		})
	}
}

func TestBubblewrapMissingOrTooOldIsSaid(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		s := testSandboxes(t, nil)
		if fault := s.isolator.check(t.Context()); fault == nil || fault.reason != "bwrap_missing" {
			t.Errorf("check = %v, want bwrap_missing", fault)
		}
	})
	t.Run("too old", func(t *testing.T) {
		dir := fakeBubblewrap(t, "")
		if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "bwrap"), []byte("#!/bin/sh\necho bubblewrap 0.4.1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		s := testSandboxes(t, nil)
		if fault := s.isolator.check(t.Context()); fault == nil || fault.reason != "bwrap_old" {
			t.Errorf("check = %v, want bwrap_old", fault)
		}
	})
	t.Run("set-user-id", func(t *testing.T) {
		trace := fakeBubblewrap(t, "")
		if err := os.Chmod(filepath.Join(filepath.Dir(trace), "bwrap"), 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
		s := testSandboxes(t, nil)
		if fault := s.isolator.check(t.Context()); fault == nil || fault.reason != "bwrap_setuid" {
			t.Errorf("check = %v, want bwrap_setuid", fault)
		}
	})
}

func TestARootThatMayNotDropItsRightsRunsNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only for root")
	}
	t.Parallel()
	s := testSandboxes(t, func(cfg *sandboxConfig) { cfg.uid = 0 })
	if fault := s.isolator.check(t.Context()); fault == nil || fault.reason != "uid" {
		t.Errorf("check = %v, want uid", fault)
	}
}

// Commands of a root's runtime run as another user, who must get to the
// workspace of his own sandbox through folders that are closed to him, and to
// nothing else.
func TestARunOfRootOpensNoFolderToTheUserOfCommands(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only for root")
	}
	dir := filepath.Join(t.TempDir(), "closed", "data")
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	s := openSandboxes(t, dir, testConfig())
	one, two := mustCreate(t, s, sandboxOrder{}), mustCreate(t, s, sandboxOrder{})
	got := mustExec(t, s, one.id, "sh", "-c", "echo x > f; stat -c '%u %g' f . ; ls / | tr '\\n' ' '")
	if !strings.HasPrefix(got.stdout, "1000 1000\n1000 1000\nbin dev etc lib ") {
		t.Errorf("exec = %+v", got)
	}
	for path, want := range map[string]string{
		dir: "d------", s.dir: "d------", filepath.Join(s.dir, one.id): "d--x---",
		filepath.Join(s.dir, one.id, recordFile): "-------", filepath.Join(s.dir, one.id, snapshotsFolder): "d------",
		filepath.Join(s.dir, two.id, workspaceFolder): "d------",
	} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		mode := info.Mode().String()
		if got := mode[:1] + mode[4:]; got != want {
			t.Errorf("%s = %s, want others to have %s", path, mode, want)
		}
	}
	if after, err := os.ReadFile("/proc/self/mountinfo"); err != nil || !bytes.Equal(after, mounts) {
		t.Errorf("mounts of the program = %s, %v, want them as before", after, err)
	}
}

func TestRuntimeFolderThatShowsTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]bool{
		"/opt/python": false, "/nix": false, "/home/ada/miniconda": false,
		"/": true, "/home": true, "/root": true, "/etc": true, "/var": true, "/proc": true, "/tmp": true,
	} {
		if got := revealing(dir); got != want {
			t.Errorf("revealing(%q) = %v, want %v", dir, got, want)
		}
	}
}

// namespaceVariable marks the run of this program in which user namespaces
// are switched off. It holds a data folder.
const namespaceVariable = "SANDBOX_TEST_NAMESPACES_OFF"

func TestNamespacesSwitchedOffAreSaid(t *testing.T) {
	if dir := os.Getenv(namespaceVariable); dir != "" {
		s := openSandboxes(t, dir, testConfig())
		fault := s.isolator.check(t.Context())
		if fault == nil || fault.reason != "userns_off" {
			t.Errorf("check = %+v, want userns_off", fault)
		}
		return
	}
	asOrdinaryUser(t, func(t *testing.T) {
		dir := filepath.Join(reachableFolder(t), "data")
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		// In a namespace of its own, whose number of further ones is set to none.
		script := `echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps -all --inh-caps -all "$0" "$@"`
		cmd := exec.CommandContext(t.Context(), "unshare", "-Uc", "--keep-caps", "sh", "-c", script, exe, "-test.run", "^TestNamespacesSwitchedOffAreSaid$", "-test.v")
		cmd.Env = append(os.Environ(), namespaceVariable+"="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// userNamespaceVariable marks the run of this program as root of a user
// namespace in which there is no other user. It holds a data folder.
const userNamespaceVariable = "SANDBOX_TEST_USER_NAMESPACE"

// Such a root was told that bubblewrap had failed, which had not been started.
func TestRootOfAUserNamespaceIsToldWhatToDo(t *testing.T) {
	if dir := os.Getenv(userNamespaceVariable); dir != "" {
		s := openSandboxes(t, dir, testConfig())
		if fault := s.isolator.check(t.Context()); fault == nil || fault.reason != "root_limited" {
			t.Errorf("check = %+v, want root_limited", fault)
		}
		return
	}
	asOrdinaryUser(t, func(t *testing.T) {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "unshare", "-Ur", exe, "-test.run", "^TestRootOfAUserNamespaceIsToldWhatToDo$", "-test.v")
		cmd.Env = append(os.Environ(), userNamespaceVariable+"="+filepath.Join(reachableFolder(t), "data"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}
