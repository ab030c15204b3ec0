package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// probeLimit is how long an interpreter may take to say what it is. Stubs
	// that open a window instead never answer.
	probeLimit = 5 * time.Second

	// probeKept is how long an answer holds: long enough for the labs of one
	// page, short enough that an update is noticed.
	probeKept = 10 * time.Second

	// oldestPython and newestPython are the minor versions that are looked
	// for by name. Older ones than the first cannot be used.
	oldestPython = 8
	newestPython = 30
)

const (
	probeMark = "agent-runtime-python "

	// probeScript tells the version and which of the needed modules are
	// missing. It runs isolated from the person's own modules.
	probeScript = `import json, sys
missing = []
for name in ("venv", "ensurepip"):
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
print("` + probeMark + `" + json.dumps({"version": list(sys.version_info[:3]), "path": sys.executable, "missing": missing}))`

	// plainScript runs on every Python there ever was. It tells one that is
	// too old, or that lacks a module, from what is no Python at all.
	plainScript = `import sys; print('` + probeMark + `{"version": [%d, %d, %d]}' % tuple(sys.version_info[:3]))`
)

// interpreter is a Python that answered.
type interpreter struct {
	path    string // to start it with
	version [3]int
	missing []string // modules it lacks that making an environment needs
}

func (i interpreter) String() string {
	return fmt.Sprintf("Python %d.%d.%d (%s)", i.version[0], i.version[1], i.version[2], visible(i.path))
}

// incomplete returns a problem when the interpreter cannot make environments
// that hold pip, and nil otherwise.
func (i interpreter) incomplete() error {
	if len(i.missing) == 0 {
		return nil
	}
	pkg := "python3-venv"
	if strings.HasPrefix(filepath.Base(i.path), "python3.") {
		pkg = fmt.Sprintf("python3.%d-venv", i.version[1])
	}
	return problemf(kindMissingTool, "%s lacks %s, which making an environment needs. To install it: %s.",
		i, strings.Join(i.missing, " and "), installHint(pkg))
}

// is reports whether the interpreter is of the version wanted, which has one
// to three numbers.
func (i interpreter) is(wanted []int) bool {
	for n, number := range wanted {
		if i.version[n] != number {
			return false
		}
	}
	return true
}

// pythons finds the interpreters of this machine. An interpreter is only
// believed to be one once it has run.
type pythons struct {
	ps         *processes
	env        []string // what interpreters are started with
	configured string   // a name or path; "" takes what is on PATH
	limit      time.Duration
	now        func() time.Time

	mu     sync.Mutex // guards recent
	recent map[string]probed
}

type probed struct {
	at    time.Time
	found interpreter
}

func newPythons(ps *processes, env []string, configured string) *pythons {
	return &pythons{ps: ps, env: env, configured: configured, limit: probeLimit, now: time.Now,
		recent: make(map[string]probed)}
}

// choose returns the interpreter called name, which is a path or a name on
// PATH; with name "" the configured one, or else the machine's usual one.
func (p *pythons) choose(ctx context.Context, name string) (interpreter, error) {
	if name = cmp.Or(name, p.configured); name != "" {
		return p.named(ctx, name)
	}
	var first error
	for _, argv := range defaultPythons(p.env) {
		found, err := p.probe(ctx, argv)
		if err == nil {
			return found, nil
		}
		first = cmp.Or(first, err)
	}
	if first == nil {
		first = problemf(kindMissingTool, "Python was not found on PATH. To install it: %s.", installHint("python3")).
			because(exec.ErrNotFound)
	}
	return interpreter{}, first
}

func (p *pythons) named(ctx context.Context, name string) (interpreter, error) {
	path := name
	switch {
	case filepath.IsAbs(name):
	case strings.ContainsAny(name, `/\`):
		return interpreter{}, problemf(kindMissingTool,
			"The Python %s is not a full path: write it from the root on, or only its name.", visible(name))
	default:
		var err error
		if path, err = lookPath(name, p.env); err != nil {
			return interpreter{}, problemf(kindMissingTool, "The Python %s was not found on PATH.", visible(name)).because(err)
		}
	}
	return p.probe(ctx, []string{path})
}

var pythonVersion = regexp.MustCompile(`^[0-9]{1,2}(\.[0-9]{1,3}){0,2}$`)

// find returns an interpreter of the version, such as "3.11": the usual one
// when it is that, or else the first on PATH that is.
func (p *pythons) find(ctx context.Context, version string) (interpreter, error) {
	if !pythonVersion.MatchString(version) {
		return interpreter{}, problemf(kindInvalid, "The Python version %s is not one: write it as 3.11.", visible(version))
	}
	var wanted []int
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part)
		wanted = append(wanted, n)
	}
	usual, err := p.choose(ctx, "")
	if err == nil && usual.is(wanted) {
		return usual, nil
	}
	if len(wanted) > 1 {
		for _, argv := range versionPythons(wanted[0], wanted[1], p.env) {
			if found, err := p.probe(ctx, argv); err == nil && found.is(wanted) {
				return found, nil
			}
		}
	}
	if ctx.Err() != nil {
		return interpreter{}, ctx.Err()
	}
	return interpreter{}, problemf(kindMissingTool, "Python %s was not found. %s", version, p.describeFound(ctx))
}

// describeFound is a sentence that lists the interpreters of this machine.
func (p *pythons) describeFound(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	var list []string
	known := make(map[[3]int]bool)
	note := func(found interpreter, err error) {
		if err == nil && !known[found.version] {
			known[found.version] = true
			list = append(list, found.String())
		}
	}
	note(p.choose(ctx, ""))
	for minor := oldestPython; minor <= newestPython; minor++ {
		for _, argv := range versionPythons(3, minor, p.env) {
			note(p.probe(ctx, argv))
		}
	}
	if len(list) == 0 {
		return "There is no usable Python on this machine. To install it: " + installHint("python3") + "."
	}
	return "This machine has " + strings.Join(list, ", ") + "."
}

// probe runs an interpreter to learn what it is. A good answer is kept for a
// short while; a bad one is not, so that what was amiss can be put right.
func (p *pythons) probe(ctx context.Context, argv []string) (interpreter, error) {
	key := strings.Join(argv, "\x00")
	p.mu.Lock()
	last, ok := p.recent[key]
	p.mu.Unlock()
	if ok && p.now().Sub(last.at) < probeKept {
		return last.found, nil
	}
	found, err := p.probeNow(ctx, argv)
	if err != nil || len(found.missing) > 0 {
		return found, err
	}
	p.mu.Lock()
	p.recent[key] = probed{p.now(), found}
	p.mu.Unlock()
	return found, nil
}

func (p *pythons) probeNow(parent context.Context, argv []string) (interpreter, error) {
	ctx, cancel := context.WithTimeout(parent, p.limit)
	defer cancel()
	if isSystemStub(ctx, p.ps, argv[0]) {
		return interpreter{}, notUsable(argv[0], "it only offers to install Python", nil)
	}
	found, fault := p.answer(ctx, argv, "-I", "-c", probeScript)
	if fault != nil && ctx.Err() == nil {
		var plainFault error
		found, plainFault = p.answer(ctx, argv, "-c", plainScript)
		found.missing = []string{"venv or ensurepip"}
		if plainFault == nil {
			fault = nil
		}
	}
	switch {
	case parent.Err() != nil:
		return interpreter{}, parent.Err()
	case ctx.Err() != nil:
		return interpreter{}, notUsable(argv[0], fmt.Sprintf("it did not answer within %v", p.limit), fault)
	case fault != nil:
		return interpreter{}, notUsable(argv[0], saidBy(fault), fault)
	case found.version[0] < 3 || found.version[0] == 3 && found.version[1] < oldestPython:
		return interpreter{}, problemf(kindMissingTool, "%s is too old: 3.%d or newer is needed. To install it: %s.",
			found, oldestPython, installHint("python3"))
	}
	return found, nil
}

// answer runs the interpreter with args and reads what it says of itself.
func (p *pythons) answer(ctx context.Context, argv []string, args ...string) (interpreter, error) {
	out, err := runTool(ctx, p.ps, "", p.env, append(argv[:len(argv):len(argv)], args...))
	if err != nil {
		return interpreter{}, err
	}
	var told struct {
		Version [3]int   `json:"version"`
		Path    string   `json:"path"`
		Missing []string `json:"missing"`
	}
	for line := range strings.Lines(out) {
		text, ok := strings.CutPrefix(line, probeMark)
		if !ok || json.Unmarshal([]byte(text), &told) != nil {
			continue
		}
		found := interpreter{path: argv[0], version: told.Version, missing: told.Missing}
		if len(argv) > 1 && told.Path != "" {
			found.path = told.Path
		}
		return found, nil
	}
	return interpreter{}, &toolError{argv: argv, output: out}
}

func notUsable(path, why string, err error) error {
	return problemf(kindMissingTool, "%s is not usable as Python: %s. To install Python: %s.",
		visible(path), why, installHint("python3")).because(err)
}
