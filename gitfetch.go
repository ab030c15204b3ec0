package main

// Getting exactly one commit from an https host. Everything happens in a new
// folder beside the place where the checkout belongs, and moves there by one
// rename: a checkout is complete or absent.

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	fetchPrefix   = ".fetch-" // of the folders that a fetch works in
	sizeWatchPace = 250 * time.Millisecond
	maxPairsTold  = 10
)

// fetch puts the commit of src, checked out, into dst, which must not exist.
// When it fails, nothing is left behind. Two fetches into one dst are for the
// caller to keep apart.
func (f *fetcher) fetch(ctx context.Context, src source, dst string) error {
	program, err := f.program(ctx)
	if err != nil {
		return err
	}
	dst, err = filepath.Abs(dst)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dst); err == nil {
		return fmt.Errorf("fetch into %s: %w", dst, fs.ErrExist)
	}
	parent := filepath.Dir(dst)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return tellGitError(err, src, 1)
	}
	settings := f.userSettings(ctx, program, src.repo, parent)
	start := time.Now()
	for try := 1; ; try++ {
		err := f.tryFetch(ctx, fetchTry{program, settings, src, dst})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !hasFault(err, faultNetwork) && !errors.Is(err, errDamagedLab) {
			return tellGitError(err, src, try)
		}
		if try > len(f.pauses) || time.Since(start) > f.limit {
			return tellLastTry(err, src, try)
		}
		f.log.Info("fetching again", "repo", src.repo, "commit", src.commit, "tries", try, "err", err)
		if err := pauseFor(ctx, f.pauses[try-1]); err != nil {
			return err
		}
	}
}

// fetchTry is what every try of one fetch has in common.
type fetchTry struct {
	program  string
	settings string // the user's proxy and certificate settings
	src      source
	dst      string
}

func (f *fetcher) tryFetch(ctx context.Context, t fetchTry) error {
	tmp := filepath.Join(filepath.Dir(t.dst), fetchPrefix+rand.Text())
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	defer func() {
		if err := os.RemoveAll(tmp); err != nil {
			f.log.Warn("folder of a fetch not removed", "folder", tmp, "err", err)
		}
	}()
	home, lab := filepath.Join(tmp, "home"), filepath.Join(tmp, "lab")
	if err := f.makeRepository(ctx, t, home, lab); err != nil {
		return err
	}
	if err := f.download(ctx, t, home, lab); err != nil {
		return err
	}
	tree, err := f.readCommit(ctx, t.program, lab, t.src)
	if err != nil {
		return err
	}
	if err := f.checkOut(ctx, t, tree, lab); err != nil {
		return err
	}
	return os.Rename(lab, t.dst)
}

func (f *fetcher) makeRepository(ctx context.Context, t fetchTry, home, lab string) error {
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(t.settings), 0o600); err != nil {
		return err
	}
	err := f.run(ctx, gitCommand{
		program: t.program,
		dir:     filepath.Dir(lab),
		env:     gitEnvironment(f.environ, home, "none"),
		args:    []string{"init", "--quiet", "--template=", "--object-format=sha1", "--", filepath.Base(lab)},
	})
	if err != nil {
		return err
	}
	info := filepath.Join(lab, ".git", "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(info, "attributes"), []byte(gitAttributes), 0o600)
}

// download gets the objects of the commit, and ends when they get larger than
// a lab may be.
func (f *fetcher) download(ctx context.Context, t fetchTry, home, lab string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go watchSize(ctx, filepath.Join(lab, ".git", "objects", "pack"), cancel) // ends with ctx
	trace := filepath.Join(filepath.Dir(home), "trace")
	command := f.localCommand(t.program, lab, nil, nil, "fetch", "--quiet", "--depth=1", "--no-tags",
		"--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-gc", "--", t.src.repo, t.src.commit)
	command.env = append(gitEnvironment(f.environ, home, "https"),
		"GIT_DIR="+filepath.Join(lab, ".git"),
		"GIT_TRACE_CURL="+trace,
		"GIT_TRACE_CURL_NO_DATA=1",
		"GIT_TRACE_REDACT=1",
	)
	err := f.run(ctx, command)
	if hasFault(err, faultRedirect) {
		if target := redirectTarget(trace, t.src.repo); target != "" {
			return problemf(kindUnreachable, "%s redirects to %s, and a redirect is not followed: the page's author must use the address that serves the lab.",
				t.src.repo, visible(target)).because(err)
		}
	}
	return err
}

// watchSize cancels when the files in dir get larger than a lab may be.
func watchSize(ctx context.Context, dir string, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(sizeWatchPace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var total int64
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil {
				total += info.Size()
			}
		}
		if total > maxLabBytes {
			cancel(problemf(kindUnacceptable, "This commit is larger than %d GiB, the most that a lab may have.", maxLabBytes>>30))
			return
		}
	}
}

// checkOut writes the files of the commit and makes sure that they are there
// as the commit has them.
func (f *fetcher) checkOut(ctx context.Context, t fetchTry, tree *commitTree, lab string) error {
	if err := f.refuseCollisions(tree, lab); err != nil {
		return err
	}
	err := f.run(ctx, f.localCommand(t.program, lab, nil, nil, "checkout", "--quiet", "--force", "--detach", t.src.commit))
	if hasFault(err, faultFull) || hasFault(err, faultOther) && lacksRoom(lab, tree.bytes) {
		return problemf(kindFull, "There is not enough room on the disk for this lab: its files take %s, and as much again for their history.", roundSize(tree.bytes)).because(err)
	}
	if err != nil {
		return err
	}
	head, err := os.ReadFile(filepath.Join(lab, ".git", "HEAD"))
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(head)) != t.src.commit {
		return fmt.Errorf("checkout of %s ended on %.100q", t.src.commit, head)
	}
	if other := tree.modified(lab); len(other) > 0 {
		return problemf(kindUnacceptable, "This disk cannot hold the lab's files as the commit has them, starting with %q.", visible(other[0]))
	}
	return nil
}

// lacksRoom reports whether the disk of dir is too full for so many bytes. Git
// does not always say why it could not write a file.
func lacksRoom(dir string, bytes int64) bool {
	free, ok := freeSpace(dir)
	return ok && free < uint64(bytes)
}

func (f *fetcher) refuseCollisions(tree *commitTree, lab string) error {
	if !f.foldsCase(lab) {
		return nil
	}
	paths := make([]string, len(tree.files))
	for i, file := range tree.files {
		paths[i] = file.path
	}
	pairs := caseCollisions(paths)
	if len(pairs) == 0 {
		return nil
	}
	var told []string
	for _, pair := range pairs[:min(len(pairs), maxPairsTold)] {
		told = append(told, fmt.Sprintf("%q and %q", visible(pair[0]), visible(pair[1])))
	}
	if more := len(pairs) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("%d more pairs", more))
	}
	return problemf(kindUnacceptable, "This disk does not tell upper from lower case, and the lab has files whose names differ only in that: %s.",
		strings.Join(told, ", "))
}

// roundSize is a number of bytes for people.
func roundSize(bytes int64) string {
	if bytes < 1<<20 {
		return "less than 1 MiB"
	}
	return fmt.Sprintf("about %d MiB", bytes>>20)
}

// sweepFetches removes from the labs folder what fetches left that were ended
// half-way, and the folders of repositories that hold nothing. It is for the
// start, before the first fetch.
func sweepFetches(labsDir string) error {
	repos, err := os.ReadDir(labsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, repo := range repos {
		if !repo.IsDir() {
			continue
		}
		folder := filepath.Join(labsDir, repo.Name())
		checkouts, err := os.ReadDir(folder)
		errs = append(errs, err)
		for _, checkout := range checkouts {
			if strings.HasPrefix(checkout.Name(), fetchPrefix) {
				errs = append(errs, os.RemoveAll(filepath.Join(folder, checkout.Name())))
			}
		}
		_ = os.Remove(folder) // only if it is empty
	}
	return errors.Join(errs...)
}
