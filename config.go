package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// config is everything that a person may set, checked. Flags win over the
// environment, that over config.toml, that over the defaults.
type config struct {
	dir string // the data folder

	host           string // an address or name to listen on
	port           int    // 0 takes any free one
	httpsPort      int    // used while a certificate exists; 0 takes any free one
	allowedHosts   []string
	requirePairing bool
	pairingTimeout time.Duration

	kernelStartup      time.Duration
	kernelIdle         time.Duration // 0 never ends an idle kernel
	python             string        // empty: found on PATH
	systemSitePackages bool

	outputLimit int           // characters kept of a run
	stopGrace   time.Duration // from SIGINT to SIGKILL
	debug       bool

	sandbox sandboxConfig
}

// sandboxConfig bounds sandboxes.
type sandboxConfig struct {
	minAge        int // 0 switches the gate off
	maxPerLearner int
	createsPerMin int
	poolSize      int

	execTimeout    time.Duration
	idleTTL        time.Duration
	keep           time.Duration // of a deleted sandbox's folder
	diskQuota      int64         // bytes of all folders
	workspaceQuota int64         // bytes of one workspace

	uid         int      // what a runtime of root runs commands as; never 0
	verifyURL   string   // where a learner's age is verified; may be empty
	runtimeDirs []string // further folders of the host that a sandbox may read
	tasks       map[string]sandboxTask
}

// sandboxTask is a kind of work with its own rules.
type sandboxTask struct {
	environment string // build, design or simulation
	runCommand  string
}

func defaultConfig(dir string) config {
	return config{
		dir: dir, host: "127.0.0.1", port: 9477, httpsPort: 9478,
		requirePairing: true, pairingTimeout: 300 * time.Second,
		kernelStartup: time.Minute, kernelIdle: time.Hour,
		outputLimit: 1_000_000, stopGrace: 8 * time.Second,
		sandbox: sandboxConfig{
			minAge: 16, maxPerLearner: 1, createsPerMin: 10, poolSize: 8,
			execTimeout: time.Minute, idleTTL: 2 * time.Hour, keep: 7 * 24 * time.Hour,
			diskQuota: 5 << 30, workspaceQuota: 512 << 20, uid: 65534,
		},
	}
}

// configKey is one thing to set: its key in config.toml, its environment
// variable, either of which may be empty, and what it takes.
type configKey struct {
	key, env string
	want     string // what a value must be, to follow "must be"
	file     func(*config, *tomlValue) bool
	text     func(*config, string) bool // nil without env
}

const (
	maxPort  = 65535
	day      = 24 * 60 * 60 // seconds
	maxBytes = 1 << 50
)

// configKeys lists every key but the tasks of sandboxes, which name themselves.
func configKeys() []configKey {
	return []configKey{
		textKey("server.host", "AGENT_RUNTIME_HOST", "an IP address or host name", hostValid, func(c *config) *string { return &c.host }),
		intKey("server.port", "AGENT_RUNTIME_PORT", 0, maxPort, func(c *config) *int { return &c.port }),
		intKey("server.https_port", "AGENT_RUNTIME_HTTPS_PORT", 0, maxPort, func(c *config) *int { return &c.httpsPort }),
		listKey("server.allowed_hosts", "a list of host names, each alone or with a port", allowedHostValid, func(c *config) *[]string { return &c.allowedHosts }),
		boolKey("auth.require_pairing", "AGENT_RUNTIME_REQUIRE_PAIRING", func(c *config) *bool { return &c.requirePairing }),
		secondsKey("auth.pairing_timeout", "AGENT_RUNTIME_PAIRING_TIMEOUT", 1, day, func(c *config) *time.Duration { return &c.pairingTimeout }),
		secondsKey("kernel.startup_timeout", "", 1, day, func(c *config) *time.Duration { return &c.kernelStartup }),
		secondsKey("kernel.idle_timeout", "", 0, 365*day, func(c *config) *time.Duration { return &c.kernelIdle }),
		textKey("environment.python", "AGENT_RUNTIME_PYTHON", "a program's name or path", programValid, func(c *config) *string { return &c.python }),
		boolKey("environment.system_site_packages", "", func(c *config) *bool { return &c.systemSitePackages }),
		intKey("labs.output_limit", "AGENT_RUNTIME_LAB_OUTPUT_LIMIT", 1, 100_000_000, func(c *config) *int { return &c.outputLimit }),
		secondsKey("labs.stop_grace", "AGENT_RUNTIME_LAB_STOP_GRACE", 0, 600, func(c *config) *time.Duration { return &c.stopGrace }),
		boolKey("", "AGENT_RUNTIME_DEBUG", func(c *config) *bool { return &c.debug }),
		intKey("sandbox.min_age", "", 0, 150, func(c *config) *int { return &c.sandbox.minAge }),
		intKey("sandbox.max_per_learner", "", 1, 1000, func(c *config) *int { return &c.sandbox.maxPerLearner }),
		intKey("sandbox.creates_per_min", "", 1, 10_000, func(c *config) *int { return &c.sandbox.createsPerMin }),
		intKey("sandbox.pool_size", "", 1, 1000, func(c *config) *int { return &c.sandbox.poolSize }),
		secondsKey("sandbox.exec_timeout", "", 1, day, func(c *config) *time.Duration { return &c.sandbox.execTimeout }),
		secondsKey("sandbox.idle_ttl", "", 1, 365*day, func(c *config) *time.Duration { return &c.sandbox.idleTTL }),
		secondsKey("sandbox.keep", "", 0, 3650*day, func(c *config) *time.Duration { return &c.sandbox.keep }),
		intKey("sandbox.disk_quota", "", 0, maxBytes, func(c *config) *int64 { return &c.sandbox.diskQuota }),
		intKey("sandbox.workspace_quota", "", 1, maxBytes, func(c *config) *int64 { return &c.sandbox.workspaceQuota }),
		intKey("sandbox.uid", "", 1, math.MaxInt32, func(c *config) *int { return &c.sandbox.uid }),
		textKey("sandbox.verify_url", "", "an http or https address", verifyURLValid, func(c *config) *string { return &c.sandbox.verifyURL }),
		listKey("sandbox.runtime_dirs", "a list of absolute paths of folders, without the root folder", runtimeDirValid, func(c *config) *[]string { return &c.sandbox.runtimeDirs }),
	}
}

func intKey[N int | int64](key, env string, low, high int64, field func(*config) *N) configKey {
	return numberKey(key, env, fmt.Sprintf("an integer from %d to %d", low, high), low, high,
		(*tomlValue).integer,
		func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) },
		func(c *config, n int64) { *field(c) = N(n) })
}

// secondsKey is a time, written as a number of seconds with or without a fraction.
func secondsKey(key, env string, low, high float64, field func(*config) *time.Duration) configKey {
	return numberKey(key, env, fmt.Sprintf("a number of seconds from %.0f to %.0f", low, high), low, high,
		(*tomlValue).number,
		func(s string) (float64, error) { return strconv.ParseFloat(s, 64) },
		func(c *config, n float64) { *field(c) = time.Duration(n * float64(time.Second)) })
}

// numberKey is a key with a range, which is read and parsed as given.
func numberKey[N int64 | float64](key, env, want string, low, high N,
	read func(*tomlValue) (N, bool), parse func(string) (N, error), set func(*config, N)) configKey {
	setIf := func(c *config, n N, ok bool) bool {
		if ok = ok && low <= n && n <= high; ok {
			set(c, n)
		}
		return ok
	}
	return configKey{
		key: key, env: env, want: want,
		file: func(c *config, v *tomlValue) bool {
			n, ok := read(v)
			return setIf(c, n, ok)
		},
		text: func(c *config, s string) bool {
			n, err := parse(s)
			return setIf(c, n, err == nil)
		},
	}
}

func boolKey(key, env string, field func(*config) *bool) configKey {
	set := func(c *config, yes, ok bool) bool {
		if ok {
			*field(c) = yes
		}
		return ok
	}
	return configKey{
		key: key, env: env, want: "true or false",
		file: func(c *config, v *tomlValue) bool { return set(c, v.text == "true", v.kind == tomlBool) },
		text: func(c *config, s string) bool {
			switch strings.ToLower(s) {
			case "1", "true", "yes", "on":
				return set(c, true, true)
			case "0", "false", "no", "off":
				return set(c, false, true)
			}
			return false
		},
	}
}

func textKey(key, env, want string, valid func(string) bool, field func(*config) *string) configKey {
	set := func(c *config, s string) bool {
		ok := valid(s)
		if ok {
			*field(c) = s
		}
		return ok
	}
	return configKey{
		key: key, env: env, want: want,
		file: func(c *config, v *tomlValue) bool { return v.kind == tomlString && set(c, v.text) },
		text: set,
	}
}

func listKey(key, want string, valid func(string) bool, field func(*config) *[]string) configKey {
	return configKey{key: key, want: want, file: func(c *config, v *tomlValue) bool {
		var list []string
		for _, item := range v.items {
			if item.kind != tomlString || !valid(item.text) {
				return false
			}
			list = append(list, item.text)
		}
		*field(c) = list
		return v.kind == tomlList
	}}
}

var allowedHostPattern = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(:[0-9]{1,5})?$`)

// hostValid wants something to listen on. An empty host would mean every
// interface, so that has to be written as 0.0.0.0 or ::.
func hostValid(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || len(s) <= maxHostLength && hostNamePattern.MatchString(s)
}

func allowedHostValid(s string) bool { return allowedHostPattern.MatchString(s) }

func programValid(s string) bool {
	return strings.TrimSpace(s) != "" && !strings.ContainsRune(s, 0)
}

func verifyURLValid(s string) bool {
	u, err := url.Parse(s)
	return s == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func runtimeDirValid(s string) bool {
	clean := filepath.Clean(s)
	return filepath.IsAbs(s) && filepath.Dir(clean) != clean && !strings.ContainsRune(s, 0)
}

// setHost is what a flag says of the host to listen on.
func (c *config) setHost(s string) error { return c.setFlag("server.host", s) }

// setPort is what a flag says of the port; 0 takes any free one.
func (c *config) setPort(n int) error { return c.setFlag("server.port", strconv.Itoa(n)) }

func (c *config) setFlag(key, s string) error {
	for _, k := range configKeys() {
		if k.key == key && !k.text(c, s) {
			name := key[strings.LastIndexByte(key, '.')+1:]
			return problemf(kindInvalid, "--%s must be %s, not %q.", name, k.want, visible(shorten(s, 100)))
		}
	}
	return nil
}

// dataFolder is where the runtime keeps its files: AGENT_RUNTIME_RUNTIME_DIR,
// else a folder in XDG_DATA_HOME, else one in home. A relative XDG_DATA_HOME
// does not count. The result is empty when home is needed and is empty.
func dataFolder(getenv func(string) string, home string) string {
	if dir := getenv("AGENT_RUNTIME_RUNTIME_DIR"); dir != "" {
		return filepath.Clean(dir)
	}
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agent-runtime")
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".agent-runtime")
}

// loadConfig reads dir/config.toml when there is one, and the environment. The
// error names every mistake, a line each, with file and line or the variable.
func loadConfig(dir string, getenv func(string) string) (config, error) {
	c := defaultConfig(dir)
	path := filepath.Join(dir, "config.toml")
	data, err := readConfigFile(path)
	if err != nil {
		return config{}, err
	}
	var mistakes []string
	for _, f := range c.apply(data) {
		mistakes = append(mistakes, visible(path)+": "+f.String()+".")
	}
	for _, k := range configKeys() {
		if k.env == "" {
			continue
		}
		if s := getenv(k.env); s != "" && !k.text(&c, s) {
			mistakes = append(mistakes, fmt.Sprintf("%s must be %s, not %q.", k.env, k.want, visible(shorten(s, 100))))
		}
	}
	if len(mistakes) > 0 {
		return config{}, problemf(kindInvalid, "%s", strings.Join(mistakes, "\n"))
	}
	return c, nil
}

// readConfigFile returns the file's bytes, none when it is not there, and of a
// file that is too large one more than the limit.
func readConfigFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, problemf(kindInvalid, "%s is not a regular file; remove it, or write the settings there.", visible(path))
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, problemf(kindInvalid, "%s cannot be read; check who owns it and its permissions.", visible(path)).because(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, tomlSizeLimit+1))
	if err != nil {
		return nil, problemf(kindInvalid, "%s cannot be read.", visible(path)).because(err)
	}
	return data, nil
}

// apply sets what data, a config.toml, says, and returns what is wrong with it.
func (c *config) apply(data []byte) []finding {
	tree := parseTOML(data)
	sections, members := configSections()
	tree.unknownKeys(tree.root, "", sections...)
	for _, section := range tree.root.entries {
		known := members[section.key]
		if known == nil {
			continue
		}
		if section.value.kind != tomlTable {
			tree.report(section.value.line, section.key, "must be a table, not %s; write a header [%s]", section.value.kind, section.key)
			continue
		}
		tree.unknownKeys(section.value, section.key, known...)
	}
	for _, k := range configKeys() {
		section, name, _ := strings.Cut(k.key, ".")
		v := tree.root.find(section, name)
		if v != nil && !k.file(c, v) {
			tree.report(v.line, k.key, "must be %s", k.want)
		}
	}
	if tasks := tree.root.find("sandbox", "tasks"); tasks != nil {
		c.sandbox.tasks = applyTasks(tree, tasks)
	}
	return tree.sorted()
}

// configSections are the tables of config.toml in order, and the keys of each.
func configSections() (sections []string, members map[string][]string) {
	members = make(map[string][]string)
	for _, k := range configKeys() {
		section, name, found := strings.Cut(k.key, ".")
		if !found {
			continue
		}
		if members[section] == nil {
			sections = append(sections, section)
		}
		members[section] = append(members[section], name)
	}
	members["sandbox"] = append(members["sandbox"], "tasks")
	return sections, members
}

const sandboxTasks = "sandbox.tasks"

// applyTasks reads the tables [sandbox.tasks.NAME].
func applyTasks(tree *tomlTree, table *tomlValue) map[string]sandboxTask {
	if table.kind != tomlTable {
		tree.report(table.line, sandboxTasks, "must be a table, not %s; write a header [sandbox.tasks.NAME] for each task", table.kind)
		return nil
	}
	tasks := make(map[string]sandboxTask)
	for _, entry := range table.entries {
		path := keyPath(sandboxTasks, entry.key)
		if entry.value.kind != tomlTable {
			tree.report(entry.value.line, path, "must be a table, not %s; write a header [sandbox.tasks.NAME]", entry.value.kind)
			continue
		}
		if !labIDPattern.MatchString(entry.key) {
			tree.report(entry.value.line, path, "a task's name must be 1 to 64 letters, digits, '.', '_' or '-', and start with a letter or digit")
		}
		tasks[entry.key] = applyTask(tree, entry.value, path)
	}
	return tasks
}

func applyTask(tree *tomlTree, table *tomlValue, path string) sandboxTask {
	tree.unknownKeys(table, path, "environment", "run_command")
	read := func(key, want string, valid func(string) bool) string {
		v := table.get(key)
		switch {
		case v == nil && !tree.damaged:
			tree.report(table.line, keyPath(path, key), "is missing: it must be %s", want)
		case v != nil && (v.kind != tomlString || !valid(v.text)):
			tree.report(v.line, keyPath(path, key), "must be %s", want)
		case v != nil:
			return v.text
		}
		return ""
	}
	return sandboxTask{
		environment: read("environment", `"build", "design" or "simulation"`, func(s string) bool {
			return s == "build" || s == "design" || s == "simulation"
		}),
		runCommand: read("run_command", `a command such as "python3 harness.py"`, func(s string) bool {
			return strings.TrimSpace(s) != ""
		}),
	}
}
