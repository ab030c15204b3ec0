package main

// Checkouts: the commits of labs on disk, each in a folder of its own, with
// what git's objects say of them.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// checkout is a commit of a lab on disk, with what its objects say.
type checkout struct {
	source   source
	dir      string
	tree     *commitTree
	manifest *manifest
}

// checkouts are the checkouts in one folder.
type checkouts struct {
	dir     string
	fetcher *fetcher
	log     *slog.Logger
	fetches *flights[*checkout]

	mu    sync.Mutex // guards known
	known map[source]*checkout
}

// openCheckouts uses the checkouts in dir, and removes what fetches that were
// ended half-way left there. Work ends with base.
func openCheckouts(base context.Context, dir string, fetcher *fetcher, log *slog.Logger) (*checkouts, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the folder of labs: %w", err)
	}
	if err := sweepFetches(dir); err != nil {
		return nil, err
	}
	return &checkouts{
		dir: dir, fetcher: fetcher, log: log,
		fetches: newFlights[*checkout](base), known: make(map[source]*checkout),
	}, nil
}

// get returns the checkout of a commit: the known one, the one on disk, or a
// new one, made once however many ask. The learner's files in an existing one
// are kept.
func (c *checkouts) get(ctx context.Context, src source) (*checkout, error) {
	return c.fetches.do(ctx, src.repo+" "+src.commit, func(ctx context.Context) (*checkout, error) {
		return c.find(ctx, src)
	})
}

// keep remembers what was read of a checkout, so that it is not read again.
// It is for labs that are approved, which bounds them.
func (c *checkouts) keep(co *checkout) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[co.source] = co
}

// knows reports whether there is a folder for the repository of src.
func (c *checkouts) knows(src source) bool { return isFolder(filepath.Join(c.dir, src.key())) }

func (c *checkouts) find(ctx context.Context, src source) (*checkout, error) {
	dir := filepath.Join(c.dir, src.key(), src.commit[:12])
	c.mu.Lock()
	known := c.known[src]
	c.mu.Unlock()
	if known != nil && isFolder(dir) {
		return known, nil
	}
	tree, err := c.readOrFetch(ctx, src, dir)
	if err != nil {
		return nil, err
	}
	if tree.manifest == nil {
		return nil, problemf(kindNotFound, "Commit %s of %s has no lab.toml at its root, so it is not a lab.", src.commit[:12], src.repo)
	}
	m, findings := parseManifest(tree.manifest)
	if len(findings) > 0 {
		return nil, manifestProblem(findings)
	}
	return &checkout{source: src, dir: dir, tree: tree, manifest: m}, nil
}

func (c *checkouts) readOrFetch(ctx context.Context, src source, dir string) (*commitTree, error) {
	if isFolder(dir) {
		if err := makePrivateFolder(dir); err != nil {
			return nil, err
		}
		tree, err := c.fetcher.read(ctx, dir, src)
		if !errors.Is(err, errDamagedLab) {
			return tree, err
		}
		if other := checkedOut(dir); other != "" && other != src.commit {
			return nil, problemf(kindConflict, "%s holds commit %s of this repository, whose id begins like that of %s: move it elsewhere, then prepare the lab again.",
				visible(dir), other, src.commit)
		}
		c.log.Warn("a lab's git folder is damaged and fetched again", "repo", src.repo, "commit", src.commit, "err", err)
		return c.mend(ctx, src, dir)
	}
	if err := inTheWay(dir); err != nil {
		return nil, err
	}
	if err := c.fetcher.fetch(ctx, src, dir); err != nil {
		return nil, err
	}
	return c.fetcher.read(ctx, dir, src)
}

// checkedOut is the commit that was checked out into dir; "" when that is not
// known any more. A folder's name holds only the beginning of a commit's id.
func checkedOut(dir string) string {
	head, err := os.ReadFile(filepath.Join(dir, ".git", "HEAD"))
	if commit := strings.TrimSpace(string(head)); err == nil && hex40Pattern.MatchString(commit) {
		return commit
	}
	return ""
}

// inTheWay tells of something that is not a folder where a checkout, or the
// folder of its repository, belongs. It may be the person's, so it stays.
func inTheWay(dir string) error {
	path := dir
	if info, err := os.Stat(filepath.Dir(dir)); err == nil && !info.IsDir() {
		path = filepath.Dir(dir)
	} else if _, err := os.Lstat(dir); err != nil {
		return nil
	}
	return problemf(kindConflict, "%s is in the way of the lab's folder: move it elsewhere, then prepare the lab again.", visible(path))
}

// mend replaces a damaged .git by that of a new fetch, and leaves the
// working files as they are.
func (c *checkouts) mend(ctx context.Context, src source, dir string) (*commitTree, error) {
	fresh := filepath.Join(filepath.Dir(dir), fetchPrefix+rand.Text()) // swept at the next start when we are killed
	defer os.RemoveAll(fresh)
	if err := c.fetcher.fetch(ctx, src, fresh); err != nil {
		return nil, err
	}
	git := filepath.Join(dir, ".git")
	if err := errors.Join(os.RemoveAll(git), os.Rename(filepath.Join(fresh, ".git"), git)); err != nil {
		return nil, fmt.Errorf("mend %s: %w", dir, err)
	}
	return c.fetcher.read(ctx, dir, src)
}

func isFolder(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir()
}

func manifestProblem(findings []finding) error {
	lines := make([]string, len(findings))
	for i, f := range findings {
		lines[i] = f.String()
	}
	return problemf(kindUnacceptable, "The lab's lab.toml is not valid: %s", strings.Join(lines, "; "))
}
