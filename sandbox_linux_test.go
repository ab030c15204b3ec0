package main

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ordinaryUser is the account that tests run as when they are not to be root.
// It needs no entry in the system's list of accounts.
const ordinaryUser = 54321

// asBothUsers runs a test as the present user and, when that is root, once more
// as an ordinary user in a process of its own. Isolation differs between them.
func asBothUsers(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Run("as root", func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
	asOrdinaryUser(t, test)
}

// asOrdinaryUser runs a test as a user without any rights: the present one, or
// another in a process of its own.
func asOrdinaryUser(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	if os.Geteuid() != 0 {
		test(t)
		return
	}
	home := reachableFolder(t)
	program := filepath.Join(home, "program")
	copyExecutable(t, program)
	if err := os.Chown(home, ordinaryUser, ordinaryUser); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + home, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}

// copyExecutable gives this test's own program another name, which is a link
// where that can be: the folder it stands in is closed to other users.
func copyExecutable(t *testing.T, to string) {
	t.Helper()
	from, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Link(from, to) == nil {
		return
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// reachableFolder is a temporary folder that other users may pass through,
// which those of the testing package are not.
func reachableFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeTree(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

const (
	pageA   = principal("https://a.example")
	pageB   = principal("https://b.example")
	adult   = "ada"   // a learner whose age is verified
	unaged  = "uma"   // one whose age is not
	child   = "casey" // one who is too young
	unknown = "nobody"
)

// testConfig lets tests make as many sandboxes as they like.
func testConfig() sandboxConfig {
	cfg := defaultConfig("").sandbox
	cfg.maxPerLearner, cfg.createsPerMin, cfg.poolSize = 1000, 1000, 1000
	cfg.execTimeout = time.Minute // machines are slow at times
	cfg.tasks = map[string]sandboxTask{
		"bridge": {environment: environmentDesign, runCommand: "python3 harness.py"},
		"wind":   {environment: environmentSimulation, runCommand: "make run"},
		"tool":   {environment: environmentBuild, runCommand: "make"},
	}
	return cfg
}

// testSandboxes are sandboxes in a new data folder, with learners on the list.
func testSandboxes(t testing.TB, change func(*sandboxConfig)) *sandboxes {
	t.Helper()
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	return openSandboxes(t, filepath.Join(reachableFolder(t), "data"), cfg)
}

func openSandboxes(t testing.TB, dir string, cfg sandboxConfig) *sandboxes {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	state, err := openState(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	addTestLearners(t, state)
	s, err := newSandboxes(dir, cfg, state, newProcesses(), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func addTestLearners(t testing.TB, state *stateStore) {
	t.Helper()
	for id, age := range map[string]*int{adult: new(30), unaged: nil, child: new(12)} {
		if err := addLearner(state, id, age, time.Now()); err != nil && !isKind(err, kindConflict) {
			t.Fatal(err)
		}
	}
}

func mustCreate(t testing.TB, s *sandboxes, order sandboxOrder) sandboxInfo {
	t.Helper()
	if order.learnerID == "" {
		order.learnerID = adult
	}
	info, err := s.create(t.Context(), pageA, order)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func mustExec(t testing.TB, s *sandboxes, id string, argv ...string) sandboxResult {
	t.Helper()
	result, err := s.exec(t.Context(), pageA, id, argv, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// mustRunPython runs a script in a sandbox.
func mustRunPython(t testing.TB, s *sandboxes, id, script string) sandboxResult {
	t.Helper()
	if err := s.write(pageA, id, "script.py", []byte(script)); err != nil {
		t.Fatal(err)
	}
	return mustExec(t, s, id, "python3", "script.py")
}

func TestExecRunsACommandInItsWorkspace(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		got := mustExec(t, s, sb.id, "sh", "-c", "pwd; id -u; env | sort; echo out > made; echo err >&2; exit 3")
		want := "/workspace\n1000\nHOME=/workspace\nLANG=C.UTF-8\nPATH=/usr/local/bin:/usr/bin:/bin\nPWD=/workspace\nTERM=dumb\nTMPDIR=/tmp\n"
		if got.stdout != want || got.stderr != "err\n" || got.status != 3 || got.limit != "" || got.truncated {
			t.Errorf("exec = %+v, want output %q", got, want)
		}
		made, err := s.read(pageA, sb.id, "made")
		if err != nil || string(made) != "out\n" {
			t.Errorf("read = %q, %v, want what the command wrote", made, err)
		}
	})
}
