package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// create makes the environment id unless it is ready, with the interpreter
// called python, a path or a name; "" is the configured or usual one. However
// many ask for one id at once, it is made once, and all are told that it was
// created. A broken one is replaced.
func (e *environments) create(ctx context.Context, id, python string) (created bool, err error) {
	if err := checkEnvironmentID(id); err != nil {
		return false, err
	}
	if e.ready(id) {
		return false, nil
	}
	return e.making.do(ctx, id, func(ctx context.Context) (bool, error) {
		if e.ready(id) {
			return false, nil
		}
		err := e.makeNow(ctx, id, python)
		return err == nil, err
	})
}

func (e *environments) makeNow(ctx context.Context, id, python string) error {
	if e.inPlace {
		return e.makeInPlace(ctx, id, python)
	}
	spare, err := e.makeSpare(ctx, python)
	if err != nil {
		return err
	}
	return e.adopt(ctx, spare, id)
}

// spareEnv is an environment made before it is known which lab it is for. Its
// owner calls adopt or discard; after either it is used up.
type spareEnv struct {
	folder string // "" where environments are made in their place, or once used up
	unlock func() // lets others take the folder for abandoned
}

// spare makes an environment with the configured or usual Python, to be
// adopted once its id is known. Where environments cannot be moved it only
// sees to it that there is a Python to make one with.
func (e *environments) spare(ctx context.Context) (*spareEnv, error) {
	if e.inPlace {
		_, err := e.maker(ctx, "")
		return &spareEnv{}, err
	}
	return e.makeSpare(ctx, "")
}

func (e *environments) makeSpare(ctx context.Context, python string) (*spareEnv, error) {
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of environments: %w", err)
	}
	folder := filepath.Join(e.dir, makingName())
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, e.fileProblem(err)
	}
	unlock, err := lockFile(filepath.Join(folder, unfinishedName), 0)
	if err != nil {
		return nil, errors.Join(e.fileProblem(err), removeFolder(folder))
	}
	s := &spareEnv{folder: folder, unlock: unlock}
	if err := e.build(ctx, python, filepath.Join(folder, venvName)); err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

// makingName is a new name for a spare's folder. It is as long as the longest
// name of an environment's folder: the first lines of programs, which hold
// the path, then never grow when the spare is adopted.
func makingName() string {
	name := makingPrefix + rand.Text()
	return name + strings.Repeat("-", len(envPrefix)+64-len(name))
}

// discard removes the spare. It does nothing for one that is nil or used up.
func (s *spareEnv) discard() {
	if s == nil || s.folder == "" {
		return
	}
	s.unlock()
	_ = removeFolder(s.folder) // what is left of it is swept at the next start
	s.folder = ""
}

// adopt makes the spare the environment id and uses it up, also when it
// fails. When id is ready already, or becomes so meanwhile, that one stays.
// Where environments cannot be moved, it is made now.
func (e *environments) adopt(ctx context.Context, s *spareEnv, id string) error {
	defer s.discard()
	if err := checkEnvironmentID(id); err != nil {
		return err
	}
	if e.ready(id) {
		return nil
	}
	if s == nil || s.folder == "" {
		_, err := e.create(ctx, id, "")
		return err
	}
	venv := filepath.Join(s.folder, venvName)
	if err := renameInVenv(venv, filepath.Base(s.folder), envPrefix+id); err != nil {
		return e.fileProblem(err)
	}
	old, err := e.place(venv, id)
	if old != "" {
		_ = removeFolder(old) // what is left of it is swept at the next start
	}
	return err
}

// place moves venv to where the environment id belongs, unless that is ready.
// A broken one that was there is moved to old.
func (e *environments) place(venv, id string) (old string, err error) {
	e.placing.Lock()
	defer e.placing.Unlock()
	if e.ready(id) {
		return "", nil
	}
	if err := e.claim(id); err != nil {
		return "", err
	}
	if old, err = e.clear(id); err != nil {
		return "", err
	}
	if err := os.Rename(venv, e.path(id)); err != nil {
		_ = os.Remove(e.folder(id)) // only if it is empty
		return old, e.fileProblem(err)
	}
	return old, nil
}

// clear moves a broken environment of id aside, and logs that it is replaced.
func (e *environments) clear(id string) (old string, err error) {
	venv := e.path(id)
	if _, err := os.Lstat(venv); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	e.log.Warn("environment rebuilt", "id", id, "reason", e.fault(id))
	return e.moveAside(venv)
}

// claim makes the folder of id, if need be, and sees to it that it is no
// other id's.
func (e *environments) claim(id string) error {
	made := os.Mkdir(e.folder(id), 0o700)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return fmt.Errorf("make folder of environment: %w", made)
	}
	if e.exists(id) {
		return nil
	}
	if made == nil {
		_ = os.Remove(e.folder(id))
	}
	return problemf(kindConflict, "The environment %s cannot be made: this disk takes its folder for that of another "+
		"environment whose name differs only in capitals or a final dot.", id)
}

// makeInPlace makes the environment id where it belongs. Until it is ready a
// marker stands beside it.
func (e *environments) makeInPlace(ctx context.Context, id, python string) error {
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return fmt.Errorf("make folder of environments: %w", err)
	}
	unlock, old, err := e.begin(id)
	if err != nil {
		return err
	}
	if old != "" {
		_ = removeFolder(old)
	}
	err = e.build(ctx, python, e.path(id))
	if err != nil {
		_ = removeFolder(e.path(id))
	}
	unlock()
	if _, left := os.Lstat(e.path(id)); err == nil || left != nil {
		_ = os.Remove(filepath.Join(e.folder(id), unfinishedName))
		_ = os.Remove(e.folder(id)) // only if it is empty
	}
	return err
}

// begin readies the folder of id for an environment to be made in it.
func (e *environments) begin(id string) (unlock func(), old string, err error) {
	e.placing.Lock()
	defer e.placing.Unlock()
	if err := e.claim(id); err != nil {
		return nil, "", err
	}
	mark := filepath.Join(e.folder(id), unfinishedName)
	unlock, err = lockFile(mark, 0)
	if errors.Is(err, errLocked) {
		return nil, "", problemf(kindConflict, "The environment %s is being made by another program: wait for it, then try again.", id)
	}
	if err != nil {
		return nil, "", e.fileProblem(err)
	}
	old, err = e.clear(id)
	if err != nil {
		unlock()
		_ = os.Remove(mark)
	}
	return unlock, old, err
}
