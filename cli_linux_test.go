package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// said is what a command wrote, and its exit status.
type said struct {
	stdout, stderr string
	code           int
}

// say runs a command of the program with these variables added.
func say(t *testing.T, env []string, args ...string) said {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = env
	cmd.Dir = t.TempDir()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return said{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	env := programEnv(t.TempDir())
	whole := say(t, env, "--help")
	for _, cmd := range commands() {
		if !strings.Contains(whole.stdout, cmd.name) {
			t.Errorf("the help does not list %s", cmd.name)
		}
		for _, flag := range []string{"--help", "-h"} {
			got := sayHere(t, env, append(strings.Fields(cmd.name), flag)...)
			if got.code != exitDone || !strings.Contains(got.stdout, "agent-runtime "+cmd.name) || got.stderr != "" {
				t.Errorf("%s %s: %+v", cmd.name, flag, got)
			}
		}
	}
	for _, group := range []string{"pairing", "token", "lab", "env"} {
		got := sayHere(t, env, group, "--help")
		if got.code != exitDone || !strings.Contains(got.stdout, group+" list") && group != "lab" || strings.Contains(got.stdout, "  serve") {
			t.Errorf("%s --help: %+v", group, got)
		}
	}
}

// sayHere is say without a process of its own, which is much faster.
func sayHere(t *testing.T, env []string, args ...string) said {
	t.Helper()
	dir := t.TempDir()
	var files [2]*os.File
	for i, name := range []string{"out", "err"} {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files[i] = file
	}
	code := runCommand(t.Context(), &cli{environ: env, stdout: &printer{file: files[0]}, stderr: files[1]}, commands(), args)
	var texts [2]string
	for i, file := range files {
		data, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(data)
	}
	return said{texts[0], texts[1], code}
}

// A token that went to a full disk was lost, and its command ended well.
func TestCommandsFailWhenTheirOutputIsLost(t *testing.T) {
	t.Parallel()
	env := programEnv(t.TempDir())
	lab := t.TempDir()
	writeTestFile(t, filepath.Join(lab, "lab.toml"), helloLab)
	for _, args := range [][]string{
		{"--help"}, {"version"}, {"man"}, {"completion", "bash"}, {"lab", "--help"}, {"lab", "schema"}, {"lab", "check", lab},
		{"token", "create", "tool"}, {"token", "list"}, {"serve", "--help"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		errs, err := os.Create(filepath.Join(t.TempDir(), "err"))
		if err != nil {
			t.Fatal(err)
		}
		defer errs.Close()
		code := runCommand(t.Context(), &cli{environ: env, stdout: &printer{file: full}, stderr: errs}, commands(), args)
		if said := readDoc(t, errs.Name()); code != exitFailed || !strings.Contains(said, "Not all could be written to standard output: no space left on device.") {
			t.Errorf("%q ends with status %d and says %q", args, code, said)
		}
	}
}

func TestExitStatusesAndErrorsInOneSentence(t *testing.T) {
	t.Parallel()
	lab := t.TempDir()
	writeTestFile(t, filepath.Join(lab, "lab.toml"), helloLab)
	broken := t.TempDir()
	writeTestFile(t, filepath.Join(broken, "lab.toml"), "schema = 2\nid = \"\"\n")
	blank := filepath.Join(t.TempDir(), "blank")
	writeTestFile(t, blank, " \n")
	holder := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(holder.Close)
	_, taken, err := net.SplitHostPort(holder.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string // in what it wrote
	}{
		{"--help", 0, "usage"}, {"version", 0, "agent-runtime"}, {"pairing list", 0, "No site"}, {"token list", 0, "No local program"},
		{"lab approvals", 0, "No lab"}, {"env list", 0, "no environment"}, {"lab check " + lab, 0, "valid, 2 actions: greet, fail"},
		{"lab check " + broken, 1, "schema"}, {"lab check /nowhere", 1, "no lab.toml"}, {"lab run " + lab + " nope", 1, "greet, fail"},
		{"pairing revoke https://a.example", 1, "pairing list"}, {"token revoke nope", 1, "token list"}, {"lab forget https://a.example/b", 1, "lab approvals"},
		{"approvals", 1, "agent-runtime serve"}, {"approve abcde", 1, "agent-runtime serve"}, {"deny abcde", 1, "agent-runtime serve"},
		{"env delete nope", 1, "nope"}, {"env delete ../x", 1, ""}, {"env create ../x", 1, ""}, {"token create BAD", 1, "small letters"},
		{"serve --port " + taken, 1, "another web server"},
		{"nonsense", 2, "--help"}, {"pairing", 2, "pairing --help"}, {"pairing nonsense", 2, "pairing --help"}, {"pairing --nonsense", 2, "--help"},
		{"serve --nonsense", 2, "serve --help"}, {"serve extra", 2, "serve --help"}, {"serve --port many", 2, "number"}, {"serve --port 70000", 2, "65535"},
		{"serve --host a_b!", 2, "host name"}, {"serve --no-pairing=maybe", 2, "no-pairing"}, {"version extra", 2, "version --help"},
		{"token create", 2, "NAME"}, {"token create x --scope all", 2, "sandbox"}, {"token create x y", 2, "NAME"}, {"token revoke", 2, "NAME"},
		{"pairing revoke", 2, "ORIGIN"}, {"approve", 2, "ID"}, {"deny a b", 2, "ID"}, {"lab run x", 2, "ACTION"}, {"lab forget", 2, "REPO"},
		{"lab check a b", 2, "DIR"}, {"env create", 2, "ID"}, {"env list x", 2, "env list"}, {"doctor x", 2, "doctor"},
		{"mcp x", 2, "mcp --help"}, {"mcp --url http://course.example", 1, "loopback"}, {"mcp --token-file /nowhere", 1, "/nowhere"},
		{"mcp --token-file " + lab + "/lab.toml", 1, "token create"}, {"mcp --token-file /dev/null", 1, "holds no token"},
		{"mcp --token-file " + blank, 1, "holds no token"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			got := sayHere(t, programEnv(filepath.Join(t.TempDir(), "d")), strings.Fields(c.args)...)
			if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) || strings.ContainsRune(got.stdout+got.stderr, '\x1b') {
				t.Errorf("status %d, want %d; it wrote %q and %q, want %q", got.code, c.code, got.stdout, got.stderr, c.want)
			}
			if c.code == 0 && got.stderr != "" || c.code == 2 && got.stdout != "" {
				t.Errorf("it wrote %q, and as errors %q", got.stdout, got.stderr)
			}
			if got.stderr != "" && (!strings.HasPrefix(got.stderr, "agent-runtime: error: ") || strings.Count(got.stderr, "\n") != 1 || !strings.HasSuffix(got.stderr, ".\n")) {
				t.Errorf("not one sentence: %q", got.stderr)
			}
		})
	}
}

func TestMistakesInTheConfigurationAreToldLineByLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTestFile(t, filepath.Join(dir, "config.toml"), "[server]\nport = 99999\nhots = \"x\"\n")
	got := sayHere(t, programEnv(dir, "AGENT_RUNTIME_PAIRING_TIMEOUT=soon"), "serve")
	lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
	if got.code != exitFailed || len(lines) != 3 {
		t.Fatalf("%+v, want three lines", got)
	}
	for i, want := range []string{"config.toml: line 2", "config.toml: line 3", "AGENT_RUNTIME_PAIRING_TIMEOUT"} {
		if !strings.HasPrefix(lines[i], "agent-runtime: error: ") || !strings.Contains(lines[i], want) {
			t.Errorf("line %q, want %q in it", lines[i], want)
		}
	}
}

func TestFlagsWinOverTheEnvironmentAndTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTestFile(t, filepath.Join(dir, "config.toml"), "[server]\nport = 1111\nhost = \"::1\"\n[auth]\nrequire_pairing = false\n")
	env := []string{"AGENT_RUNTIME_RUNTIME_DIR=" + dir, "AGENT_RUNTIME_PORT=2222"}
	for _, c := range []struct {
		args    string
		port    int
		host    string
		pairing bool
	}{
		{"", 2222, "::1", false},
		{"--port 3333 --host 127.0.0.2", 3333, "127.0.0.2", false},
		{"--no-pairing", 2222, "::1", false},
		{"--no-pairing=false", 2222, "::1", true},
	} {
		cfg, err := serveConfig(&cli{environ: env}, strings.Fields(c.args))
		if err != nil || cfg.port != c.port || cfg.host != c.host || cfg.requirePairing != c.pairing {
			t.Errorf("serve %s: %d %s %v, %v; want %+v", c.args, cfg.port, cfg.host, cfg.requirePairing, err, c)
		}
	}
	// The opposite of what a flag is named for must not be taken for it.
	cfg, err := serveConfig(&cli{environ: []string{"AGENT_RUNTIME_RUNTIME_DIR=" + t.TempDir()}}, []string{"--no-pairing=false"})
	if err != nil || !cfg.requirePairing {
		t.Errorf("--no-pairing=false switches pairing off: %v", err)
	}
}

func TestDataFolderIsAbsoluteAndNeedsNoHome(t *testing.T) {
	t.Parallel()
	got := say(t, []string{playProgram + "=1", "AGENT_RUNTIME_RUNTIME_DIR=here", "PATH=" + os.Getenv("PATH")}, "doctor", "--json")
	if !strings.Contains(got.stdout, `"detail": "/`) || strings.Contains(got.stderr, "error") {
		t.Errorf("relative folder without a home: %+v", got)
	}
	cfg, err := (&cli{environ: []string{"AGENT_RUNTIME_RUNTIME_DIR=here"}}).config()
	if err != nil || !filepath.IsAbs(cfg.dir) {
		t.Errorf("data folder %q, %v; want an absolute path", cfg.dir, err)
	}
	got = say(t, []string{playProgram + "=1"}, "pairing", "list")
	if got.code != exitFailed || !strings.Contains(got.stderr, "AGENT_RUNTIME_RUNTIME_DIR") {
		t.Errorf("without a home: %+v", got)
	}
}

func TestTokensAreMadeListedAndRevokedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	env := programEnv(dir)
	made := sayHere(t, env, "token", "create", "tool", "--scope", "actions")
	token := strings.TrimSpace(made.stdout)
	if made.code != 0 || len(token) != 43 || strings.Contains(made.stderr, token) {
		t.Fatalf("token create: %+v", made)
	}
	if got := sayHere(t, env, "token", "create", "tool"); got.code != exitFailed || !strings.Contains(got.stderr, "already") {
		t.Errorf("the same name again: %+v", got)
	}
	if got := sayHere(t, env, "token", "list"); !strings.Contains(got.stdout, "tool") || !strings.Contains(got.stdout, "actions") || strings.Contains(got.stdout, token) {
		t.Errorf("token list: %+v", got)
	}
	state, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil || bytes.Contains(state, []byte(token)) || !bytes.Contains(state, []byte(hashToken(token))) {
		t.Errorf("state file: %s, %v; want the hash alone", state, err)
	}
	if got := sayHere(t, env, "token", "revoke", "tool"); got.code != 0 {
		t.Errorf("token revoke: %+v", got)
	}
	if got := sayHere(t, env, "token", "list"); strings.Contains(got.stdout, "tool") {
		t.Errorf("token list after it: %+v", got)
	}
}

func TestDoctorTellsWhatWorksAndChangesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	got := say(t, programEnv(dir, "AGENT_RUNTIME_PORT=0", "NO_COLOR=1"), "doctor", "--json")
	report := asJSON[struct {
		OK     bool
		Checks []checkup
	}](t, reply{body: []byte(got.stdout)})
	if !report.OK || got.code != 0 {
		t.Errorf("doctor: %+v", got)
	}
	for _, name := range []string{"git", "python", "venv", "uv", "ipykernel", "port", "folder", "state file"} {
		if !slices.ContainsFunc(report.Checks, func(c checkup) bool { return c.Name == name }) {
			t.Errorf("doctor says nothing of %s", name)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("doctor made the data folder")
	}
	got = say(t, programEnv(dir, "AGENT_RUNTIME_PORT=0", "PATH="+t.TempDir()), "doctor")
	if got.code != exitFailed || !strings.Contains(got.stdout, "FAIL  git") {
		t.Errorf("doctor without git: %+v", got)
	}
}

func TestLocalLabRunsAsAPageWouldRunIt(t *testing.T) {
	t.Parallel()
	env := programEnv(filepath.Join(t.TempDir(), "data"))
	lab := t.TempDir()
	writeTestFile(t, filepath.Join(lab, "lab.toml"), helloLab)
	got := say(t, env, "lab", "run", lab, "greet")
	if got.code != 0 || !strings.Contains(got.stdout, "\nhello\n[done · ") {
		t.Errorf("greet: %+v", got)
	}
	got = say(t, env, "lab", "run", lab, "fail")
	if got.code != exitFailed || !strings.Contains(got.stdout, "before\n[exit 3 · ") || strings.Contains(got.stdout, "never") {
		t.Errorf("fail: %+v", got)
	}
	if got := sayHere(t, env, "env", "list"); !strings.Contains(got.stdout, "hello-lab") || !strings.Contains(got.stdout, "ready") {
		t.Errorf("env list: %+v", got)
	}
	if got := sayHere(t, env, "env", "delete", "hello-lab"); got.code != 0 {
		t.Errorf("env delete: %+v", got)
	}
}
