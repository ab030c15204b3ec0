package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	installTimeout = 20 * time.Minute
	packageCount   = 50  // packages in one request
	packageLength  = 500 // bytes of one
)

// keyedTurns lets one caller at a time do something for a key. The zero value
// is ready.
type keyedTurns struct {
	mu    sync.Mutex // guards turns
	turns map[string]chan struct{}
}

// take waits for the turn of key; the caller calls give.
func (t *keyedTurns) take(ctx context.Context, key string) (give func(), err error) {
	t.mu.Lock()
	if t.turns == nil {
		t.turns = make(map[string]chan struct{})
	}
	turn, ok := t.turns[key]
	if !ok {
		turn = make(chan struct{}, 1)
		t.turns[key] = turn
	}
	t.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// packages installs packages into the environments of labs.
type packages struct {
	dir     string // the data folder
	environ []string
	ps      *processes
	envs    *environments
	log     *slog.Logger
	turns   keyedTurns // by lab
}

func newPackages(dir string, environ []string, ps *processes, envs *environments, log *slog.Logger) *packages {
	return &packages{dir: dir, environ: environ, ps: ps, envs: envs, log: log}
}

// install puts packages into the environment of a lab, in pip's own notation,
// and returns the end of what pip wrote.
func (p *packages) install(ctx context.Context, lab string, names []string) (output string, err error) {
	if err := checkPackages(names); err != nil {
		return "", err
	}
	if !p.envs.ready(lab) {
		return "", noEnvironment(lab)
	}
	output, err = p.pip(ctx, lab, names)
	if fault, ok := errors.AsType[*toolError](err); ok {
		return "", problemf(kindMissingTool, "The packages were not installed. The installer said: %s",
			lastLines(fault.output, kernelLinesTold)).because(err)
	}
	return output, err
}

func checkPackages(names []string) error {
	if len(names) == 0 || len(names) > packageCount {
		return problemf(kindInvalid, "packages must be 1 to %d names.", packageCount)
	}
	for _, name := range names {
		switch {
		case strings.HasPrefix(strings.TrimSpace(name), "-"):
			return problemf(kindInvalid, "packages must not have options in it: %.60q begins with a dash.", name)
		case strings.TrimSpace(name) == "" || len(name) > packageLength || strings.ContainsAny(name, "\x00\r\n"):
			return problemf(kindInvalid, "packages must be names of one line and up to %d bytes: %.60q is not.", packageLength, name)
		}
	}
	return nil
}

// installKernel puts ipykernel into the environment of a lab, unless the
// system's is to serve: nothing is downloaded unasked then.
func (p *packages) installKernel(ctx context.Context, lab string) error {
	if p.envs.systemSitePackages {
		return problemf(kindMissingTool, "The environment of the lab %s has no ipykernel, and that of the system, which "+
			"environment.system_site_packages asks for, is missing. Install it (%s), or into the environment: %s",
			lab, installHint("python3-ipykernel"), shellQuote([]string{p.envs.python(lab), "-m", "pip", "install", "ipykernel"}))
	}
	p.log.Info("ipykernel is installed", "lab", lab)
	_, err := p.pip(ctx, lab, []string{"ipykernel"})
	if fault, ok := errors.AsType[*toolError](err); ok {
		return problemf(kindMissingTool, "The environment of the lab %s has no ipykernel, and it could not be installed "+
			"(by hand: agent-runtime env create makes the environment, then %s -m pip install ipykernel). The installer said: %s",
			lab, p.envs.python(lab), lastLines(fault.output, kernelLinesTold)).because(err)
	}
	return err
}

// pip installs packages with uv where there is one, and with the
// environment's pip otherwise.
func (p *packages) pip(ctx context.Context, lab string, names []string) (output string, err error) {
	give, err := p.turns.take(ctx, lab)
	if err != nil {
		return "", err
	}
	defer give()
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	env := slices.DeleteFunc(childEnvironment(p.environ, p.envs.path(lab)), func(v string) bool {
		return strings.HasPrefix(v, "FORCE_COLOR=") || strings.HasPrefix(v, "CLICOLOR_FORCE=") // to pip any value says yes
	})
	for _, v := range [][2]string{
		{"NO_COLOR", "1"}, {"PIP_NO_COLOR", "1"},
		{"PIP_NO_INPUT", "1"}, {"PIP_DISABLE_PIP_VERSION_CHECK", "1"}, {"PIP_PROGRESS_BAR", "off"}, {"UV_NO_PROGRESS", "1"},
	} {
		env = setVariable(env, v[0], v[1])
	}
	python := p.envs.python(lab)
	argv := []string{python, "-m", "pip", "install"}
	if uv, err := lookPath("uv", env); err == nil {
		argv = []string{uv, "pip", "install", "--python", python}
	}
	argv = append(append(argv, "--"), names...)
	return runTool(ctx, p.ps, p.dir, env, argv)
}

func noEnvironment(lab string) error {
	return problemf(kindNotFound, "The lab %s has no environment: create it with: agent-runtime env create %s", lab, lab)
}
