package main

// A running `git cat-file --batch`, asked for one object after another.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const maxCommitBytes = 1 << 20 // of a commit object

// objectStore hands out the objects of one repository. It is for one
// goroutine, which must close it.
type objectStore struct {
	in   *os.File
	out  *os.File
	read *bufio.Reader
	stop context.CancelFunc

	ended chan struct{} // closed when git has ended
	err   error         // how; set before ended is closed
}

// localCommand is a command on the repository in dir that needs no network.
// Naming the repository keeps git from looking for one in the folders above,
// and from asking who owns it, which the caller has done.
func (f *fetcher) localCommand(program, dir string, stdin io.Reader, stdout io.Writer, args ...string) gitCommand {
	gitDir := filepath.Join(dir, ".git")
	env := gitEnvironment(f.environ, filepath.Join(gitDir, "no-home"), "none")
	return gitCommand{
		program: program,
		dir:     dir,
		env:     append(env, "GIT_DIR="+gitDir),
		args:    args,
		stdin:   stdin,
		stdout:  stdout,
	}
}

func (f *fetcher) openObjects(ctx context.Context, program, dir string) (*objectStore, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), in.Close())
	}
	ctx, stop := context.WithCancel(ctx)
	s := &objectStore{in: in, out: out, read: bufio.NewReader(out), stop: stop, ended: make(chan struct{})}
	go func() { // ends with git, for which close sees
		defer close(s.ended)
		s.err = f.run(ctx, f.localCommand(program, dir, childIn, childOut, "cat-file", "--batch"))
		_ = childIn.Close()
		_ = childOut.Close()
	}()
	return s, nil
}

// close ends git, which has nobody left to hear or to tell.
func (s *objectStore) close() {
	_ = s.in.Close()
	_ = s.out.Close()
	<-s.ended
	s.stop()
}

// get returns the bytes of an object, which hash to its id. An object that is
// larger than limit is a problem; one that is not there or not what it should
// be is errDamagedLab.
func (s *objectStore) get(id objectID, kind string, limit int64) ([]byte, error) {
	h, err := s.header(id)
	if err != nil {
		return nil, err
	}
	if h.kind != kind {
		return nil, fmt.Errorf("%w: %s is a %s where a %s should be", errDamagedLab, id, h.kind, kind)
	}
	return s.body(h, limit)
}

// commit returns the bytes of the commit that a source names.
func (s *objectStore) commit(src source) ([]byte, error) {
	id, _ := parseObjectID(src.commit)
	h, err := s.header(id)
	if err != nil {
		return nil, err
	}
	if h.kind != "commit" {
		return nil, problemf(kindUnacceptable,
			"%s is the id of a %s, not of a commit: the page's author must give the id of the commit itself.", src.commit, h.kind)
	}
	return s.body(h, maxCommitBytes)
}

func (s *objectStore) header(id objectID) (objectHeader, error) {
	if _, err := io.WriteString(s.in, id.String()+"\n"); err != nil {
		return objectHeader{}, s.because(err)
	}
	h, err := readObjectHeader(s.read)
	if err != nil {
		return h, s.because(fmt.Errorf("object %s: %w", id, err))
	}
	if h.id != id {
		return h, fmt.Errorf("%w: %s came instead of %s", errDamagedLab, h.id, id)
	}
	return h, nil
}

func (s *objectStore) body(h objectHeader, limit int64) ([]byte, error) {
	data, err := readObjectBody(s.read, h, limit)
	if errors.Is(err, errObjectTooLarge) {
		return nil, problemf(kindUnacceptable, "This commit holds a %s of %d bytes, and at most %d can be read.", h.kind, h.size, limit)
	}
	if err != nil {
		return nil, s.because(fmt.Errorf("object %s: %w", h.id, err))
	}
	if hashObject(h.kind, data) != h.id {
		return nil, fmt.Errorf("%w: the bytes of %s do not hash to it", errDamagedLab, h.id)
	}
	return data, nil
}

// because says why git's answer is not whole. Our end of git's pipes sees
// their end only after git has ended; how it did tells more than err then.
func (s *objectStore) because(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		<-s.ended
		if s.err != nil {
			return damagedUnlessTold(s.err)
		}
	}
	return fmt.Errorf("%w: %w", errDamagedLab, err)
}

// damagedUnlessTold turns a failure of git on a local repository into
// errDamagedLab, unless time or room ran out or the caller left.
func damagedUnlessTold(err error) error {
	e, ok := errors.AsType[*gitError](err)
	if !ok || e.fault == faultSlow || e.fault == faultFull {
		return err
	}
	return fmt.Errorf("%w: %w", errDamagedLab, err)
}
