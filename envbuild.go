package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// createLimit is how long making one environment may take. It takes a few
	// seconds, and minutes on a slow disk.
	createLimit = 10 * time.Minute

	// spaceNeeded is what an environment takes on the disk, rounded up.
	spaceNeeded = 32 << 20
)

// maker is what an environment is made with.
type maker struct {
	uv     string      // its path; "" without it
	python interpreter // its path is "" when only uv can find one
}

// maker finds out what an environment can be made with.
func (e *environments) maker(ctx context.Context, python string) (maker, error) {
	uv, err := lookPath("uv", e.environ)
	if err != nil {
		uv = ""
	}
	found, err := e.pythons.choose(ctx, python)
	switch {
	case uv == "" && err == nil:
		err = found.incomplete()
	case uv != "" && python == "" && e.pythons.configured == "" && ctx.Err() == nil:
		err = nil // uv finds or fetches one itself
	}
	return maker{uv: uv, python: found}, err
}

// build makes a virtual environment at venv, whose parent exists. When it
// fails, or ctx ends, something half-made may be left there.
func (e *environments) build(parent context.Context, python, venv string) error {
	ctx, cancel := context.WithTimeout(parent, createLimit)
	defer cancel()
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return e.buildProblem(parent, maker{}, venv, ctx.Err())
	}
	m, err := e.maker(ctx, python)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := e.runMaker(ctx, m, venv); err != nil {
		return e.buildProblem(parent, m, venv, errors.Join(err, ctx.Err()))
	}
	if fault := venvFault(venv); fault != "" {
		return problemf(kindMissingTool, "%s did not make a usable environment: %s.", m, fault)
	}
	if err := writePipSettings(venv); err != nil {
		return e.fileProblem(err)
	}
	e.log.Info("environment made", "with", m.String(), "duration", time.Since(begun).Round(time.Millisecond))
	return nil
}

func (m maker) String() string {
	switch {
	case m.uv == "":
		return m.python.String()
	case m.python.path == "":
		return "uv"
	}
	return "uv with " + m.python.String()
}

// runMaker lets uv make the virtual environment, or Python itself where there
// is no uv or it fails, as it does when it may not reach the package index.
func (e *environments) runMaker(ctx context.Context, m maker, venv string) error {
	var options []string
	if e.systemSitePackages {
		options = []string{"--system-site-packages"}
	}
	if m.uv != "" {
		request := m.python.path
		if request == "" {
			request = "3"
		}
		argv := append([]string{m.uv, "venv", "--seed", "--python", request}, options...)
		_, err := runTool(ctx, e.ps, filepath.Dir(venv), e.environ, append(argv, venv))
		if err == nil || ctx.Err() != nil || m.python.path == "" || m.python.incomplete() != nil {
			return err
		}
		e.log.Warn("uv made no environment; using Python's own venv", "error", err)
		if err := removeFolder(venv); err != nil {
			return err
		}
	}
	argv := append([]string{m.python.path, "-m", "venv"}, options...)
	_, err := runTool(ctx, e.ps, filepath.Dir(venv), e.environ, append(argv, venv))
	return err
}

// buildProblem says why making venv failed.
func (e *environments) buildProblem(parent context.Context, m maker, venv string, err error) error {
	switch {
	case parent.Err() != nil:
		return context.Cause(parent)
	case errors.Is(err, context.DeadlineExceeded):
		return problemf(kindTooSlow, "Making the environment took longer than %v.", createLimit).because(err)
	}
	if full := fullDisk(filepath.Dir(venv), os.TempDir()); full != "" || saysDiskFull(err) {
		if full == "" {
			full = e.dir
		}
		return noSpace(full, err)
	}
	return problemf(kindMissingTool, "%s could not make the environment: %s.", m, saidBy(err)).because(err)
}

// fileProblem tells a full disk from other failures.
func (e *environments) fileProblem(err error) error {
	if diskFull(err) {
		return noSpace(e.dir, err)
	}
	return fmt.Errorf("make environment: %w", err)
}

func noSpace(folder string, err error) error {
	return problemf(kindFull, "The environment could not be made: the disk of %s is full. About %d MB must be free.",
		visible(folder), spaceNeeded>>20).because(err)
}

// fullDisk returns the first of the folders whose disk has not enough space
// for an environment; "" when all have. It is asked after a failure, since
// the tools do not say.
func fullDisk(folders ...string) string {
	for _, folder := range folders {
		if free, ok := freeSpace(folder); ok && free < spaceNeeded {
			return folder
		}
	}
	return ""
}

// saysDiskFull reports whether a tool's output says what a used-up quota or
// disk makes it say.
func saysDiskFull(err error) bool {
	fault, ok := errors.AsType[*toolError](err)
	if !ok {
		return false
	}
	for _, words := range []string{"No space left on device", "Disk quota exceeded", "not enough space on the disk"} {
		if strings.Contains(fault.output, words) {
			return true
		}
	}
	return false
}
