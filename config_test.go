package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// noEnv is an environment without a variable.
func noEnv(string) string { return "" }

func envOf(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

// configIn writes text as config.toml into a fresh folder.
func configIn(t *testing.T, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestConfigurationWithoutAFileIsTheDefault(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, err := loadConfig(dir, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		dir: dir, host: "127.0.0.1", port: 9477, httpsPort: 9478, requirePairing: true,
		pairingTimeout: 300 * time.Second, kernelStartup: 60 * time.Second, kernelIdle: 3600 * time.Second,
		outputLimit: 1000000, stopGrace: 8 * time.Second,
		sandbox: sandboxConfig{
			minAge: 16, maxPerLearner: 1, createsPerMin: 10, poolSize: 8,
			execTimeout: 60 * time.Second, idleTTL: 2 * time.Hour, keep: 168 * time.Hour,
			diskQuota: 5368709120, workspaceQuota: 536870912, uid: 65534,
		},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("loadConfig = %+v, want %+v", c, want)
	}
	for _, text := range []string{"", "\n# nothing\n", "[server]\n[sandbox.tasks]\n"} {
		if _, err := loadConfig(configIn(t, text), noEnv); err != nil {
			t.Errorf("config.toml %q: %v", text, err)
		}
	}
}

const wholeConfig = `[server]
host = "::1"
port = 0
https_port = 8443
allowed_hosts = ["lab.example.test", "lab.example.test:8080", "[2001:db8::1]:80"]
[auth]
require_pairing = false
pairing_timeout = 1.5
[kernel]
startup_timeout = 5
idle_timeout = 0
[environment]
python = "python3.12"
system_site_packages = true
[labs]
output_limit = 2_000
stop_grace = 0.25
[sandbox]
min_age = 0
max_per_learner = 2
creates_per_min = 3
pool_size = 4
exec_timeout = 10
idle_ttl = 2
keep = 0
disk_quota = 1000000
workspace_quota = 0x1000
uid = 1000
verify_url = "https://school.example.test/age?x=1"
runtime_dirs = ["/opt/tools"]
[sandbox.tasks.bridge]
environment = "design"
run_command = "python3 harness.py"
[sandbox.tasks.free]
environment = "build"
run_command = "make"
`

func TestEveryKeyCanBeSet(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("paths of sandboxes are those of Linux")
	}
	dir := configIn(t, wholeConfig)
	c, err := loadConfig(dir, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		dir: dir, host: "::1", port: 0, httpsPort: 8443, allowedHosts: []string{"lab.example.test", "lab.example.test:8080", "[2001:db8::1]:80"},
		pairingTimeout: 1500 * time.Millisecond, kernelStartup: 5 * time.Second, python: "python3.12", systemSitePackages: true,
		outputLimit: 2000, stopGrace: 250 * time.Millisecond,
		sandbox: sandboxConfig{
			maxPerLearner: 2, createsPerMin: 3, poolSize: 4, execTimeout: 10 * time.Second, idleTTL: 2 * time.Second,
			diskQuota: 1000000, workspaceQuota: 4096, uid: 1000, verifyURL: "https://school.example.test/age?x=1", runtimeDirs: []string{"/opt/tools"},
			tasks: map[string]sandboxTask{"bridge": {"design", "python3 harness.py"}, "free": {"build", "make"}},
		},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("loadConfig = %+v, want %+v", c, want)
	}
	for _, k := range configKeys() {
		if name := k.key[strings.LastIndexByte(k.key, '.')+1:]; k.key != "" && !strings.Contains(wholeConfig, "\n"+name+" = ") {
			t.Errorf("%s is not tested", k.key)
		}
	}
}

func TestEnvironmentWinsOverTheFile(t *testing.T) {
	t.Parallel()
	variables := map[string]string{
		"AGENT_RUNTIME_HOST": "0.0.0.0", "AGENT_RUNTIME_PORT": "8080", "AGENT_RUNTIME_HTTPS_PORT": "8081",
		"AGENT_RUNTIME_REQUIRE_PAIRING": "No", "AGENT_RUNTIME_PAIRING_TIMEOUT": "2.5", "AGENT_RUNTIME_PYTHON": "/usr/bin/python3",
		"AGENT_RUNTIME_LAB_OUTPUT_LIMIT": "5000", "AGENT_RUNTIME_LAB_STOP_GRACE": "0", "AGENT_RUNTIME_DEBUG": "1",
	}
	var named []string
	for _, k := range configKeys() {
		if k.env != "" {
			named = append(named, k.env)
		}
	}
	if slices.Sort(named); !slices.Equal(named, slices.Sorted(maps.Keys(variables))) {
		t.Errorf("variables = %q, want %q", named, slices.Sorted(maps.Keys(variables)))
	}
	c, err := loadConfig(configIn(t, "[server]\nport = 1\nhttps_port = 2\n"), envOf(variables))
	if err != nil {
		t.Fatal(err)
	}
	if c.host != "0.0.0.0" || c.port != 8080 || c.httpsPort != 8081 || c.requirePairing || c.pairingTimeout != 2500*time.Millisecond ||
		c.python != "/usr/bin/python3" || c.outputLimit != 5000 || c.stopGrace != 0 || !c.debug {
		t.Errorf("loadConfig = %+v", c)
	}
}

func TestMistakesInTheFileNameFileAndLine(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"[server]\n\nport = 65536", "line 3: server.port: must be an integer from 0 to 65535."},
		{"server.port = -1", "line 1: server.port: must be"},
		{"server.port = 80.0", "line 1: server.port: must be"},
		{"server.port = '80'", "line 1: server.port: must be"},
		{"server.host = ''", "line 1: server.host: must be an IP address or host name"},
		{"server.host = 'a b'", "line 1: server.host: must be"},
		{"server.host = '127.0.0.1:80'", "line 1: server.host: must be"},
		{"server.allowed_hosts = 'a'", "line 1: server.allowed_hosts: must be a list"},
		{"server.allowed_hosts = ['*']", "line 1: server.allowed_hosts: must be a list"},
		{"server.allowed_hosts = ['https://a']", "line 1: server.allowed_hosts: must be a list"},
		{"server.allowed_hosts = [1]", "line 1: server.allowed_hosts: must be a list"},
		{"auth.require_pairing = 'true'", "line 1: auth.require_pairing: must be true or false"},
		{"auth.require_pairing = 0", "line 1: auth.require_pairing: must be true or false"},
		{"auth.pairing_timeout = 0", "line 1: auth.pairing_timeout: must be a number of seconds from 1 to 86400"},
		{"auth.pairing_timeout = nan", "line 1: auth.pairing_timeout: must be"},
		{"auth.pairing_timeout = inf", "line 1: auth.pairing_timeout: must be"},
		{"auth.pairing_timeout = '5m'", "line 1: auth.pairing_timeout: must be"},
		{"environment.python = ' '", "line 1: environment.python: must be"},
		{"labs.output_limit = 0", "line 1: labs.output_limit: must be"},
		{"labs.stop_grace = -0.1", "line 1: labs.stop_grace: must be"},
		{"sandbox.uid = 0", "line 1: sandbox.uid: must be"},
		{"sandbox.min_age = -1", "line 1: sandbox.min_age: must be"},
		{"sandbox.disk_quota = 9223372036854775808", "line 1: sandbox.disk_quota: must be"},
		{"sandbox.verify_url = 'javascript:alert(1)'", "line 1: sandbox.verify_url: must be"},
		{"sandbox.runtime_dirs = ['opt']", "line 1: sandbox.runtime_dirs: must be"},
		{"sandbox.runtime_dirs = ['/opt/..']", "line 1: sandbox.runtime_dirs: must be"},
		{"sandbox.tasks = []", "line 1: sandbox.tasks: must be a table"},
		{"[sandbox.tasks]\nx = 1", "line 2: sandbox.tasks.x: must be a table"},
		{"[sandbox.tasks.x]\nrun_command = 'a'", "line 1: sandbox.tasks.x.environment: is missing"},
		{"[sandbox.tasks.x]\nenvironment = 'build'", "line 1: sandbox.tasks.x.run_command: is missing"},
		{"[sandbox.tasks.x]\nenvironment = 'Build'\nrun_command = 'a'", "line 2: sandbox.tasks.x.environment: must be"},
		{"[sandbox.tasks.x]\nenvironment = 'build'\nrun_command = ' '", "line 3: sandbox.tasks.x.run_command: must be"},
		{"[sandbox.tasks.x]\nenvironment = 'build'\nrun_command = 'a'\nuid = 0", "line 4: sandbox.tasks.x.uid: is not a key"},
		{"[sandbox.tasks.'']\nenvironment = 'build'\nrun_command = 'a'", `line 1: sandbox.tasks."": a task's name`},
		{"[server]\nprot = 1", "line 2: server.prot: is not a key that belongs here; known are host, port, https_port, allowed_hosts."},
		{"[servr]\nport = 1", "line 1: servr: is not a key that belongs here; known are server, auth, kernel, environment, labs, sandbox."},
		{"debug = true", "line 1: debug: is not a key"},
		{"[sandbox]\nlearners = ['a']", "line 2: sandbox.learners: is not a key"},
		{"server = 1", "line 1: server: must be a table, not an integer; write a header [server]"},
		{"[[server]]\nport = 1", "line 1: server: must be a table, not a list"},
		{"[1, 2, 3]", "line 1: not TOML 1.0: expected ']'"},
		{"port = 9477\nport = 9477", "line 1: port: is not a key"},
		{"{\"port\": 1}", "line 1: not TOML 1.0: invalid character"},
	}
	for _, test := range tests {
		dir := configIn(t, test.text)
		_, err := loadConfig(dir, noEnv)
		want := filepath.Join(dir, "config.toml") + ": " + test.want
		if !isKind(err, kindInvalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("config.toml %q: %v, want %q", test.text, err, want)
		}
	}
}

func TestAllMistakesOfTheConfigurationAreToldAtOnce(t *testing.T) {
	t.Parallel()
	dir := configIn(t, "[server]\nport = 'x'\nhots = 1\n")
	_, err := loadConfig(dir, envOf(map[string]string{"AGENT_RUNTIME_PORT": "http", "AGENT_RUNTIME_LAB_STOP_GRACE": "NaN", "AGENT_RUNTIME_DEBUG": "\x1b"}))
	if err == nil {
		t.Fatal("no error")
	}
	path := filepath.Join(dir, "config.toml")
	want := []string{
		path + ": line 2: server.port: must be", path + ": line 3: server.hots: is not a key",
		`AGENT_RUNTIME_PORT must be an integer from 0 to 65535, not "http".`, "AGENT_RUNTIME_LAB_STOP_GRACE must be", `AGENT_RUNTIME_DEBUG must be true or false, not "<U+001B>".`,
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Fatalf("error = %v, want %d lines", err, len(want))
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d = %q, want %q", i, line, want[i])
		}
	}
}

func TestFlagsAreCheckedLikeTheRest(t *testing.T) {
	t.Parallel()
	c := defaultConfig("")
	if err := c.setPort(0); err != nil || c.port != 0 {
		t.Errorf("setPort(0) = %v, port %d", err, c.port)
	}
	if err := c.setHost("localhost"); err != nil || c.host != "localhost" {
		t.Errorf("setHost(localhost) = %v, host %q", err, c.host)
	}
	if err := c.setPort(65536); !isKind(err, kindInvalid) || !strings.HasPrefix(err.Error(), "--port must be an integer from 0 to 65535") || c.port != 0 {
		t.Errorf("setPort(65536) = %v, port %d", err, c.port)
	}
	if err := c.setHost(""); !isKind(err, kindInvalid) || c.host != "localhost" {
		t.Errorf("setHost of nothing = %v, host %q", err, c.host)
	}
}

func TestConfigurationThatIsNoFileIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "config.toml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := loadConfig(dir, noEnv); !isKind(err, kindInvalid) {
		t.Errorf("a folder in place of config.toml: %v, want it refused", err)
	}
	if _, err := loadConfig(configIn(t, strings.Repeat("#\n", 200_000)), noEnv); !isKind(err, kindInvalid) || !strings.Contains(err.Error(), "256 KiB") {
		t.Errorf("a large config.toml: %v, want it refused", err)
	}
}

func TestDataFolder(t *testing.T) {
	t.Parallel()
	abs := t.TempDir()
	tests := []struct {
		own, xdg, home, want string
	}{
		{"", "", abs, filepath.Join(abs, ".agent-runtime")},
		{"", filepath.Join(abs, "share"), abs, filepath.Join(abs, "share", "agent-runtime")},
		{"", "relative", abs, filepath.Join(abs, ".agent-runtime")},
		{filepath.Join(abs, "own"), filepath.Join(abs, "share"), abs, filepath.Join(abs, "own")},
		{"", "", "", ""},
	}
	for _, test := range tests {
		getenv := envOf(map[string]string{"AGENT_RUNTIME_RUNTIME_DIR": test.own, "XDG_DATA_HOME": test.xdg})
		if got := dataFolder(getenv, test.home); got != test.want {
			t.Errorf("dataFolder(own %q, xdg %q, home %q) = %q, want %q", test.own, test.xdg, test.home, got, test.want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(wholeConfig), "8080", "1.5")
	f.Add([]byte("server = 1\n[sandbox]\ntasks = []"), "-1", "NaN")
	f.Add([]byte("[auth]\npairing_timeout = 1e300\n"), "0x10", "1e300")
	f.Add([]byte("[1, 2]"), "", "true")
	f.Fuzz(func(t *testing.T, data []byte, port, grace string) {
		c := defaultConfig("")
		for _, finding := range c.apply(data) {
			if s := finding.String(); visible(s) != s {
				t.Errorf("finding %q is not safe to print", s)
			}
		}
		for _, k := range configKeys() {
			if k.text != nil {
				k.text(&c, port)
				k.text(&c, grace)
			}
		}
		if flaw := configFlaw(c); flaw != "" {
			t.Errorf("config.toml %q, port %q and grace %q: %s", data, port, grace, flaw)
		}
	})
}

// configFlaw holds c against the ranges that other parts rely on, whatever was
// refused on the way.
func configFlaw(c config) string {
	s := c.sandbox
	switch {
	case c.port < 0 || c.port > 65535 || c.httpsPort < 0 || c.httpsPort > 65535:
		return "a port is out of range"
	case c.host == "":
		return "the host is every interface"
	case c.pairingTimeout < time.Second || c.kernelStartup < time.Second || c.kernelIdle < 0 || c.stopGrace < 0 || s.execTimeout < time.Second || s.idleTTL < time.Second || s.keep < 0:
		return "a time is out of range"
	case c.outputLimit < 1 || s.poolSize < 1 || s.maxPerLearner < 1 || s.createsPerMin < 1 || s.diskQuota < 0 || s.workspaceQuota < 1:
		return "a limit is out of range"
	case s.uid < 1:
		return "commands would run as root"
	case s.minAge < 0:
		return "the age is negative"
	}
	for _, host := range c.allowedHosts {
		if strings.ContainsAny(host, "*/ ") || host == "" {
			return fmt.Sprintf("allowed host %q", host)
		}
	}
	return ""
}
