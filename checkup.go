package main

// What works on this machine, and what to do about the rest. Finding out
// changes nothing.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// checkTimeout is how long one program may take to say that it works.
const checkTimeout = 5 * time.Second

// checkup is what the doctor found about one thing.
type checkup struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"` // serve cannot do its main job without
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"` // what to do, when not ok
}

// diagnosis is all that was found. OK means that serve can do its main job.
type diagnosis struct {
	OK     bool      `json:"ok"`
	Checks []checkup `json:"checks"`
}

// examine looks at everything but the ports, which the caller knows about.
func examine(ctx context.Context, ps *processes, environ []string, cfg config, ports ...checkup) diagnosis {
	log := slog.New(slog.DiscardHandler)
	env := cleanEnvironment(environ)
	found, pythonErr := newPythons(ps, env, cfg.python).choose(ctx, "")
	d := diagnosis{OK: true, Checks: slices.Concat([]checkup{
		checkGit(ctx, newFetcher(ps, environ, log)),
		checkPython(found, pythonErr),
		checkVenv(found, pythonErr),
		checkUV(ctx, ps, env),
		checkIPykernel(ctx, ps, env, found, pythonErr),
		checkSandboxes(ctx, ps, cfg),
	}, ports, []checkup{checkFolder(cfg), checkStateFile(cfg)})}
	for _, check := range d.Checks {
		d.OK = d.OK && (check.OK || !check.Needed)
	}
	return d
}

// portServed is what there is to say of a port on which a runtime answers.
func portServed(addr string) checkup {
	return checkup{Name: "port", OK: true, Needed: true, Detail: "agent-runtime answers on " + addr}
}

// failedCheck is a check that err speaks of.
func failedCheck(name string, needed bool, err error) checkup {
	check := checkup{Name: name, Needed: needed, Detail: err.Error()}
	if p, ok := errors.AsType[*problem](err); ok {
		check.Detail = p.detail
	}
	return check
}

func checkGit(ctx context.Context, f *fetcher) checkup {
	path, version, err := f.version(ctx)
	if err != nil {
		return failedCheck("git", true, err)
	}
	return checkup{Name: "git", OK: true, Needed: true, Detail: version + " at " + path}
}

func checkPython(found interpreter, err error) checkup {
	if err != nil && found.path == "" {
		return failedCheck("python", true, err)
	}
	return checkup{Name: "python", OK: true, Needed: true, Detail: found.String()}
}

func checkVenv(found interpreter, err error) checkup {
	switch {
	case err != nil:
		return failedCheck("venv", true, err)
	case found.incomplete() != nil:
		return failedCheck("venv", true, found.incomplete())
	}
	return checkup{Name: "venv", OK: true, Needed: true, Detail: "environments can be made"}
}

// checkUV looks for a tool that is used when it is there, and not missed.
func checkUV(ctx context.Context, ps *processes, env []string) checkup {
	path, err := lookPath("uv", env)
	if err != nil {
		return checkup{Name: "uv", Detail: "not on PATH; python's own venv is used", OK: true}
	}
	version, err := tryProgram(ctx, ps, env, path, "--version")
	if err != nil {
		return failedCheck("uv", false, err)
	}
	return checkup{Name: "uv", OK: true, Detail: version}
}

func checkIPykernel(ctx context.Context, ps *processes, env []string, found interpreter, err error) checkup {
	if err != nil {
		return failedCheck("ipykernel", false, err)
	}
	version, err := tryProgram(ctx, ps, env, found.path, "-c", "import ipykernel; print(ipykernel.__version__)")
	if err != nil {
		return checkup{Name: "ipykernel", OK: true, Detail: "not in the system's Python; a lab's environment gets its own when a kernel starts"}
	}
	return checkup{Name: "ipykernel", OK: true, Detail: version + " in the system's Python"}
}

// checkSandboxes tries for real whether this machine can isolate commands.
func checkSandboxes(ctx context.Context, ps *processes, cfg config) checkup {
	fault := tryIsolation(ctx, ps, cfg)
	if fault == nil {
		return checkup{Name: "sandboxes", OK: true, Detail: "commands can be isolated with bubblewrap"}
	}
	return checkup{Name: "sandboxes", Detail: sentenceCase(fault.cause), Hint: fault.hint}
}

// checkFolder looks at the data folder as it is; serve makes a missing one
// and closes an open one.
func checkFolder(cfg config) checkup {
	check := checkup{Name: "folder", OK: true, Needed: true, Detail: cfg.dir}
	info, err := os.Stat(cfg.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		check.Detail += " will be made by serve"
	case err != nil:
		return failedCheck("folder", true, err)
	case !info.IsDir():
		check.OK, check.Detail = false, cfg.dir+" is not a folder"
		check.Hint = "remove it, or set AGENT_RUNTIME_RUNTIME_DIR to another folder"
	default:
		if owner, ours := ownership(cfg.dir, info); !ours {
			check.OK, check.Detail = false, cfg.dir+" belongs to "+owner
			check.Hint = "set AGENT_RUNTIME_RUNTIME_DIR to a folder of your own"
		}
	}
	return check
}

// checkStateFile reads the state file without setting a damaged one aside.
func checkStateFile(cfg config) checkup {
	check := checkup{Name: "state file", OK: true, Needed: true, Detail: "nothing is granted yet"}
	content, err := os.ReadFile(filepath.Join(cfg.dir, stateFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return check
	case err != nil:
		return failedCheck("state file", true, err)
	}
	data, err := decodeState(content)
	if err != nil {
		check.OK, check.Needed, check.Detail = false, false, "damaged: "+err.Error()
		check.Hint = "serve sets it aside and starts with nothing granted; pair again"
		return check
	}
	check.Detail = fmt.Sprintf("%s paired, %s approved, %s", counted(len(data.Pairings), "site"), counted(len(data.Approvals), "lab version"), counted(len(data.Clients), "local program"))
	return check
}

// tryProgram runs a program for a moment and returns the first line of what
// it printed.
func tryProgram(ctx context.Context, ps *processes, env []string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	out, err := runTool(ctx, ps, "", env, argv)
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s did not answer within %v", argv[0], checkTimeout)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return line, err
}
