package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// managerScript stands in for systemctl and launchctl. It notes what it is
// called with, and keeps in files of its folder whether it can be reached,
// whether the service runs, whether it cannot be stopped, and how often a start
// is yet to fail.
const managerScript = `#!/bin/sh
here=${0%/*}
printf '%s\n' "$*" >> "$here/calls"
case "$*" in
"--user show --property=Version"|"print gui/7")
	if [ -e "$here/unreachable" ]; then echo "Failed to connect to bus: No medium found" >&2; exit 1; fi ;;
*ActiveState*)
	if [ -e "$here/active" ]; then echo ActiveState=active; else echo ActiveState=activating; fi ;;
"print gui/7/"*)
	if [ -e "$here/active" ]; then echo "	state = running"; else exit 113; fi ;;
*restart*|bootstrap*)
	if [ -s "$here/fail" ]; then tail -n +2 "$here/fail" > "$here/fail.next"; mv "$here/fail.next" "$here/fail"; echo "Input/output error" >&2; exit 5; fi
	: > "$here/active" ;;
*"disable --now"*|bootout*)
	if [ -e "$here/stuck" ]; then echo "Job timed out" >&2; exit 1; fi
	[ -e "$here/active" ] || exit 3
	rm "$here/active" ;;
esac
`

// serviceHome is an account with a stand-in for the system's manager.
type serviceHome struct {
	t       *testing.T
	manager string // the folder of the stand-in
	config  string
	data    string
	program string // a copy of the program
	scratch string // the folder for temporary files, which program is not in
	env     []string
}

func newServiceHome(t *testing.T) *serviceHome {
	t.Helper()
	base := t.TempDir()
	h := &serviceHome{t: t, manager: filepath.Join(base, "manager"), config: filepath.Join(base, "config"), data: filepath.Join(base, "data"),
		program: filepath.Join(base, "my programs", "agent-runtime")}
	scratch, err := os.MkdirTemp("", "t") // short, for the sockets of a runtime
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(scratch) })
	h.scratch = scratch
	for _, dir := range []string{h.manager, filepath.Dir(h.program)} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"systemctl", "launchctl"} {
		if err := os.WriteFile(filepath.Join(h.manager, name), []byte(managerScript), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(h.program, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.env = programEnv(h.data, "AGENT_RUNTIME_PYTHON=", "XDG_CONFIG_HOME="+h.config, "TMPDIR="+scratch, "PATH="+h.manager+":relative:"+os.Getenv("PATH"))
	return h
}

func (h *serviceHome) unit() string {
	return filepath.Join(h.config, "systemd", "user", "agent-runtime.service")
}

// run runs the copy of the program.
func (h *serviceHome) run(args ...string) said {
	h.t.Helper()
	var out, errs strings.Builder
	cmd := exec.CommandContext(h.t.Context(), h.program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = h.env, &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		h.t.Fatal(err)
	}
	return said{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// calls returns what the stand-in was called with since the last time.
func (h *serviceHome) calls() []string {
	h.t.Helper()
	path := filepath.Join(h.manager, "calls")
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	_ = os.Remove(path)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func (h *serviceHome) want(code int, said string, args ...string) said {
	h.t.Helper()
	got := h.run(args...)
	if got.code != code || !strings.Contains(got.stdout+got.stderr, said) {
		h.t.Errorf("%s: %+v, want status %d and %q", strings.Join(args, " "), got, code, said)
	}
	return got
}

func TestServiceIsInstalledToldOfAndRemoved(t *testing.T) {
	t.Parallel()
	h := newServiceHome(t)
	h.want(exitFailed, "not installed", "service", "status")
	h.want(exitDone, "not installed", "service", "uninstall")
	printed := h.want(exitDone, "[Service]", "service", "install", "--print")
	if calls := h.calls(); !slices.Equal(calls, []string{""}) {
		t.Errorf("what changes nothing called %q", calls)
	}
	for range 2 { // installing twice is installing
		got := h.want(exitDone, "agent-runtime approvals", "service", "install")
		if got.stderr != "" || readDoc(t, h.unit()) != printed.stdout {
			t.Errorf("install: %+v, and the file holds\n%s", got, readDoc(t, h.unit()))
		}
		want := []string{"--user show --property=Version", "--user daemon-reload", "--user enable agent-runtime.service",
			"--user reset-failed agent-runtime.service", "--user restart agent-runtime.service"}
		if calls := h.calls(); !slices.Equal(calls, want) {
			t.Errorf("install called %q, want %q", calls, want)
		}
	}
	for _, want := range []string{`ExecStart="` + h.program + `" serve`, `"AGENT_RUNTIME_RUNTIME_DIR=` + h.data + `"`, `"PATH=` + h.manager + `:/`} {
		if !strings.Contains(printed.stdout, want) {
			t.Errorf("the unit has no %s:\n%s", want, printed.stdout)
		}
	}
	h.want(exitDone, "It runs", "service", "status")
	stuck := filepath.Join(h.manager, "stuck")
	writeTestFile(t, stuck, "")
	h.want(exitFailed, "disable --now agent-runtime.service did not succeed; it said: Job timed out.", "service", "uninstall")
	h.want(exitDone, "It runs", "service", "status")
	if err := os.Remove(stuck); err != nil {
		t.Fatal(err)
	}
	writeTestFile(t, h.unit(), "[Service]\n")
	h.want(exitDone, "renews it", "service", "status")
	if err := os.Remove(filepath.Join(h.manager, "active")); err != nil {
		t.Fatal(err)
	}
	h.want(exitFailed, "journalctl", "service", "status")
	h.calls()
	// A mistake in the configuration, made meanwhile, is no reason to stay.
	writeTestFile(t, filepath.Join(h.data, "config.toml"), "port = 1\n")
	h.want(exitDone, "removed", "service", "uninstall")
	want := []string{"--user show --property=Version", "--user disable --now agent-runtime.service",
		"--user show --property=ActiveState agent-runtime.service", "--user daemon-reload"}
	if calls := h.calls(); !slices.Equal(calls, want) {
		t.Errorf("uninstall called %q, want %q", calls, want)
	}
	if _, err := os.Lstat(h.unit()); err == nil {
		t.Error("the file of the service is still there")
	}
	h.want(exitFailed, "config.toml", "service", "install")
	h.want(exitDone, "not installed", "service", "uninstall")
}

func TestServiceSaysWhatKeepsItFromBeingInstalled(t *testing.T) {
	t.Parallel()
	h := newServiceHome(t)
	set := func(entries ...string) { h.env = append(h.env, entries...) }
	h.want(exitUsage, "service install --help", "service", "install", "now")
	set("AGENT_RUNTIME_PORT=9999")
	got := h.want(exitDone, "server.port into config.toml", "service", "install")
	if strings.Contains(got.stderr, "RUNTIME_DIR") || strings.Contains(readDoc(t, h.unit()), "9999") {
		t.Errorf("variables of the terminal: %+v", got)
	}
	writeTestFile(t, filepath.Join(h.manager, "fail"), "once\n")
	h.want(exitFailed, "systemctl --user restart agent-runtime.service did not succeed; it said: Input/output error.", "service", "install")
	writeTestFile(t, filepath.Join(h.manager, "unreachable"), "")
	h.want(exitFailed, "No medium found); log in as this account itself", "service", "install")
	h.want(exitFailed, "log in as this account itself", "service", "uninstall")
	if _, err := os.Lstat(h.unit()); err != nil {
		t.Errorf("the file is gone though the service could not be stopped: %v", err)
	}
	set("TMPDIR=" + filepath.Dir(filepath.Dir(h.program)))
	h.want(exitFailed, "temporary file", "service", "install")
	set("TMPDIR=/", "PATH=/nowhere")
	h.want(exitFailed, "temporary file", "service", "install")
	set("TMPDIR=/nowhere")
	h.want(exitFailed, "systemctl was not found on PATH", "service", "install")
	set("AGENT_RUNTIME_RUNTIME_DIR=/a\nb")
	h.want(exitFailed, "plain text", "service", "install")
}

func TestServiceIsNotInstalledBesideARuntimeOfATerminal(t *testing.T) {
	t.Parallel()
	h := newServiceHome(t)
	startRuntime(t, withDir(h.data), withEnv("TMPDIR="+h.scratch))
	h.want(exitFailed, "end it with Ctrl-C", "service", "install")
	// The running service itself is no obstacle to installing again.
	writeTestFile(t, filepath.Join(h.manager, "active"), "")
	h.want(exitDone, "Wrote", "service", "install")
}

func TestProgramsThatWillNotStayAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cached := filepath.Join(dir, "cache", "go-build", "ab", "agent-runtime")
	lasting := filepath.Join(dir, "bin", "agent-runtime")
	for _, path := range []string{cached, lasting} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		writeTestFile(t, path, "")
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		program, temporary string
		lasting            bool
	}{
		{lasting, filepath.Join(dir, "b"), true}, {lasting, filepath.Join(dir, "cache"), true}, {lasting, "", true},
		{cached, "/nowhere", false}, {lasting, dir, false}, {lasting, link, false}, {filepath.Join(link, "bin", "agent-runtime"), dir, false}, {lasting + "x", "/nowhere", false},
	} {
		if err := lastingProgram(test.program, test.temporary); (err == nil) != test.lasting {
			t.Errorf("lastingProgram(%q, %q) = %v", test.program, test.temporary, err)
		}
	}
}

func TestUnitIsValidToSystemd(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("this test needs systemd-analyze: sudo apt-get install systemd")
	}
	for _, folder := range []string{"plain", "two words", "100%", "%h", "$HOME", "${HOME}", "$$", "-x", "é;#", "a=b", "日本"} {
		base := t.TempDir()
		program := filepath.Join(base, folder, "agent-runtime")
		if err := os.Mkdir(filepath.Dir(program), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		s := serviceSettings{program: program, dir: `/data/"a" 'b' \c $D %h`, path: `/a b:/"c"\:/$D/%h:/usr/bin`, grace: time.Second}
		text, err := systemdText(s)
		if err != nil {
			t.Fatal(err)
		}
		unit := filepath.Join(base, "agent-runtime.service")
		writeTestFile(t, unit, text)
		cmd := exec.CommandContext(t.Context(), analyze, "--user", "--recursive-errors=no", "verify", unit)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+base, "HOME="+base, "SYSTEMD_LOG_LEVEL=info")
		if said, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(said), "agent-runtime.service") {
			t.Errorf("systemd says of a program in %q: %v\n%s", folder, err, said)
		}
	}
	for _, folder := range []string{`"`, "'", `\`} {
		if _, err := systemdText(serviceSettings{program: "/" + folder + "/agent-runtime"}); err == nil {
			t.Errorf("a program in %s gets a unit, and systemd would not start it", folder)
		}
	}
}

// plistReader writes a property list from its input as JSON.
const plistReader = "import json, plistlib, sys; json.dump(plistlib.loads(sys.stdin.buffer.read()), sys.stdout)"

func TestAgentOfLaunchdIsReadAsItIsMeant(t *testing.T) {
	t.Parallel()
	s := serviceSettings{program: `/Users/A & <B>/"x" 'y' ]]>/agent-runtime`, dir: "/data/é &amp;", path: "/a b:/c%d\\e", grace: 8 * time.Second}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("this test needs Python: sudo apt-get install python3")
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", plistReader)
	cmd.Stdin = strings.NewReader(launchdText(s, "/log<1>"))
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the property list is not one: %v\n%s", err, &errs)
	}
	var got, want any
	if err := errors.Join(json.Unmarshal(out, &got), json.Unmarshal([]byte(`{"Label": "agent-runtime",
		"ProgramArguments": ["/Users/A & <B>/\"x\" 'y' ]]>/agent-runtime", "serve"],
		"EnvironmentVariables": {"AGENT_RUNTIME_RUNTIME_DIR": "/data/é &amp;", "PATH": "/a b:/c%d\\e"},
		"RunAtLoad": true, "KeepAlive": {"SuccessfulExit": false}, "ProcessType": "Interactive", "ExitTimeOut": 38,
		"StandardOutPath": "/log<1>", "StandardErrorPath": "/log<1>"}`), &want)); err != nil {
		t.Fatal(err)
	}
	gotText, _ := json.Marshal(got)
	if wantText, _ := json.Marshal(want); string(gotText) != string(wantText) {
		t.Errorf("the agent is\n%s\nwant\n%s", gotText, wantText)
	}
}

func TestAgentOfLaunchdIsStartedAndStopped(t *testing.T) {
	t.Parallel()
	h := newServiceHome(t)
	home := t.TempDir()
	s := launchdService(home, 7, serviceSettings{program: h.program, dir: h.data, path: "/usr/bin"})
	ps := newProcesses()
	writeTestFile(t, filepath.Join(h.manager, "fail"), "once\n") // the one before is still ending
	if err := s.install(t.Context(), ps, h.env); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, "Library", "LaunchAgents", "agent-runtime.plist")
	want := []string{"print gui/7", "bootout gui/7/agent-runtime", "enable gui/7/agent-runtime", "bootstrap gui/7 " + file, "bootstrap gui/7 " + file}
	if calls := h.calls(); !slices.Equal(calls, want) || readDoc(t, file) != s.text {
		t.Errorf("install called %q, want %q", calls, want)
	}
	if !s.runs(t.Context(), ps, h.env) {
		t.Error("the service does not run")
	}
	if removed, err := s.uninstall(t.Context(), ps, h.env); !removed || err != nil || s.runs(t.Context(), ps, h.env) {
		t.Errorf("uninstall: %v, %v", removed, err)
	}
	if removed, err := s.uninstall(t.Context(), ps, h.env); removed || err != nil {
		t.Errorf("uninstall of nothing: %v, %v", removed, err)
	}
}
