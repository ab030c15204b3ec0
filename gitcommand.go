package main

// The one place where git is started.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"
)

const (
	gitLimit      = 180 * time.Second // of one git command
	gitProbeLimit = 5 * time.Second   // of a command that has next to nothing to do

	// What git is asked to do here came with this version.
	gitOldestMajor, gitOldestMinor = 2, 30
)

// fetcher gets commits with git and reads them. It is safe for use by several
// goroutines; two fetches into one folder are for the caller to keep apart.
type fetcher struct {
	ps      *processes
	environ []string // of this program; git gets a part of it
	log     *slog.Logger

	limit      time.Duration
	probeLimit time.Duration
	pauses     []time.Duration       // before the second try, the third and so on
	foldsCase  func(dir string) bool // whether the disk of dir takes upper and lower case for one

	mu       sync.Mutex           // guards the rest
	versions map[string]string    // by program, of those that answered
	packs    map[string]fileStamp // by path, of those whose checksum was right
}

func newFetcher(ps *processes, environ []string, log *slog.Logger) *fetcher {
	return &fetcher{
		ps:         ps,
		environ:    environ,
		log:        log,
		limit:      gitLimit,
		probeLimit: gitProbeLimit,
		pauses:     []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond},
		foldsCase:  foldsCase,
		versions:   make(map[string]string),
		packs:      make(map[string]fileStamp),
	}
}

// gitCommand is one call of git.
type gitCommand struct {
	program string
	dir     string
	env     []string
	args    []string  // from the command's name on
	stdin   io.Reader // nil: nothing
	stdout  io.Writer // nil: thrown away
}

// run runs c to its end. The error is that of ctx when ctx ended, and
// otherwise a *gitError.
func (f *fetcher) run(ctx context.Context, c gitCommand) error {
	limited, cancel := context.WithTimeout(ctx, f.limit)
	defer cancel()
	var words tailWriter
	cmd := exec.CommandContext(limited, c.program, gitArguments(c.args...)...)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, c.stdout, &words
	start := time.Now()
	err := f.ps.run(cmd)
	f.log.Debug("git ended", "args", c.args, "took", time.Since(start).Round(time.Millisecond), "err", err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case limited.Err() != nil:
		return &gitError{command: c.args[0], words: words.String(), fault: faultSlow, err: limited.Err()}
	}
	return newGitError(c.args[0], words.String(), err)
}

// program finds git and makes sure that it answers. A git that does not is a
// problem of kind kindMissingTool.
func (f *fetcher) program(ctx context.Context) (string, error) {
	path, _, err := f.version(ctx)
	return path, err
}

var gitVersionLine = regexp.MustCompile(`^git version ((\d+)\.(\d+)\S*)`)

// version returns where git is and which version it is. It asks each program
// once, unless that did not answer.
func (f *fetcher) version(ctx context.Context) (path, version string, err error) {
	path, err = lookPath("git", f.environ)
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		return "", "", err
	}
	if err != nil {
		return "", "", gitNotInstalled(err)
	}
	f.mu.Lock()
	version = f.versions[path]
	f.mu.Unlock()
	if version != "" {
		return path, version, nil
	}
	version, err = f.askVersion(ctx, path)
	if err != nil {
		return "", "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.versions[path] = version
	return path, version, nil
}

func gitNotInstalled(err error) error {
	return problemf(kindMissingTool, "git is not installed, and labs are fetched with it: %s", installHint("git")).because(err)
}

func (f *fetcher) askVersion(ctx context.Context, path string) (string, error) {
	probe, cancel := context.WithTimeout(ctx, f.probeLimit)
	defer cancel()
	if isSystemStub(probe, f.ps, path) {
		return "", gitNotInstalled(nil)
	}
	var words tailWriter
	cmd := exec.CommandContext(probe, path, "--version")
	cmd.Dir, cmd.Stdout = filepath.Dir(path), &words
	cmd.Env = gitEnvironment(f.environ, os.DevNull, "none")
	err := f.ps.run(cmd)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if probe.Err() != nil {
		return "", problemf(kindMissingTool, "The git at %s does not answer: reinstall it, for example with: %s",
			visible(path), installHint("git")).because(err)
	}
	m := gitVersionLine.FindStringSubmatch(words.String())
	if err != nil || m == nil {
		return "", problemf(kindMissingTool, "The git at %s does not work: reinstall it, for example with: %s",
			visible(path), installHint("git")).because(errors.Join(err, fmt.Errorf("it said %.200q", words.String())))
	}
	major, _ := strconv.Atoi(m[2])
	minor, _ := strconv.Atoi(m[3])
	if major < gitOldestMajor || major == gitOldestMajor && minor < gitOldestMinor {
		return "", problemf(kindMissingTool, "The git at %s is version %s, and %d.%d or newer is needed: %s",
			visible(path), visible(m[1]), gitOldestMajor, gitOldestMinor, installHint("git"))
	}
	return m[1], nil
}

// userSettings reads the user's proxy and certificate settings for an address
// as a configuration file, by a git that runs in folder. Settings that cannot
// be read are left out.
func (f *fetcher) userSettings(ctx context.Context, program, repo, folder string) string {
	probe, cancel := context.WithTimeout(ctx, f.probeLimit)
	defer cancel()
	var listing tailWriter
	err := f.run(probe, gitCommand{
		program: program,
		dir:     folder,
		env:     gitUserEnvironment(f.environ, folder),
		args:    []string{"config", "-z", "--get-urlmatch", "http", repo},
		stdout:  &listing,
	})
	if err != nil {
		f.log.Debug("no git settings of the user", "err", err)
	}
	return userGitConfig(listing.String(), homeFolder(f.environ))
}
