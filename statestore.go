package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	stateFile     = "state.json"
	stateLockFile = "state.lock"

	// stateLockWait is how long a change waits for another process's change,
	// which takes some milliseconds.
	stateLockWait = 10 * time.Second

	// stateSettles is the age at which a file's time tells it from every
	// later content: some file systems count time in steps of two seconds.
	stateSettles = 2 * time.Second
)

// errDamaged says that a state file is there, and is not one.
var errDamaged = errors.New("damaged state file")

// stateStore keeps what the person granted in one file, which several
// processes read and change. It is safe for use by many goroutines.
type stateStore struct {
	path string // of the state file, which may be a link
	lock string // of the file that stands for the lock
	log  *slog.Logger
	now  func() time.Time

	changing sync.Mutex // held while this process changes the file
	loading  sync.Mutex // held while the file is read into snapshot
	snapshot atomic.Pointer[stateSnapshot]
}

// stateSnapshot is the content of the file as it was read once.
type stateSnapshot struct {
	data    *stateData
	info    os.FileInfo // of the file read; nil when there was none
	settled bool        // a later content cannot look like this file
	damaged bool        // the file could not be used, and data grants nothing
}

// openState opens the state of the data folder dir, and makes the folder when
// there is none. A damaged state file is set aside and log says so. Grants of
// an earlier implementation are taken over when there is no state file yet.
func openState(dir string, log *slog.Logger) (*stateStore, error) {
	if err := makeDataFolder(dir); err != nil {
		return nil, err
	}
	s := &stateStore{
		path: filepath.Join(dir, stateFile),
		lock: filepath.Join(dir, stateLockFile),
		log:  log,
		now:  time.Now,
	}
	s.snapshot.Store(&stateSnapshot{data: newStateData()})
	unlock, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer unlock()
	info, err := s.prepare()
	if err != nil {
		return nil, err
	}
	if info == nil {
		return s, s.takeOver(dir)
	}
	return s, nil
}

// takeOver makes the first state file of what an earlier implementation left
// in the data folder, if anything. The caller holds the lock.
func (s *stateStore) takeOver(dir string) error {
	data := earlierGrants(dir, s.log)
	if len(data.Pairings) == 0 && len(data.Approvals) == 0 {
		return nil
	}
	if err := s.write(data); err != nil {
		return err
	}
	s.log.Info("took over the grants of an earlier version", "pairings", len(data.Pairings), "approvals", len(data.Approvals))
	retireEarlier(dir, s.log)
	return nil
}

// prepare puts the file in order: what killed writers left, a mode that is
// too open, damage. It returns nil when there is no state file.
func (s *stateStore) prepare() (os.FileInfo, error) {
	target, err := followLinks(s.path)
	if err != nil {
		return nil, s.unreadable(err)
	}
	if err := removeUnfinished(target); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.log.Warn("unfinished state files stay", "error", err)
	}
	_, info, err := s.readSound()
	if err != nil || info == nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(target, 0o600); err != nil {
			s.log.Warn("state file stays open to other accounts", "file", target, "error", err)
		}
	}
	return info, nil
}

// current returns what is granted now, also when another process changed it.
// It must not be written to. A state file that is gone or damaged grants
// nothing.
func (s *stateStore) current() (*stateData, error) {
	info, err := os.Stat(s.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, s.unreadable(err)
	}
	if snapshot := s.snapshot.Load(); snapshot.settled && snapshot.shows(info) {
		return snapshot.data, nil
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	old := s.snapshot.Load()
	if old.settled && old.shows(info) {
		return old.data, nil
	}
	data, info, err := s.read()
	damaged := errors.Is(err, errDamaged)
	if err != nil && !damaged {
		return nil, s.unreadable(err)
	}
	if damaged && !(old.damaged && old.shows(info)) {
		s.log.Warn("the state file is damaged: nothing is granted until it is mended or the next change sets it aside",
			"file", s.path, "error", err)
	}
	settled := info == nil || s.now().Sub(info.ModTime()) > stateSettles
	s.snapshot.Store(&stateSnapshot{data: data, info: info, settled: settled, damaged: damaged})
	return data, nil
}

// shows reports whether the snapshot is of the file that info tells of.
func (snapshot *stateSnapshot) shows(info os.FileInfo) bool {
	was := snapshot.info
	if was == nil || info == nil {
		return was == nil && info == nil
	}
	return os.SameFile(was, info) && was.Size() == info.Size() && was.ModTime().Equal(info.ModTime())
}

// update lets change alter a copy of what is granted now and makes the result
// last. No other process changes the state meanwhile. When change gives an
// error, or the file cannot be written, everything stays as it was. change
// must not block, nor keep what it got.
func (s *stateStore) update(change func(*stateData) error) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	unlock, err := s.acquire()
	if err != nil {
		return err
	}
	defer unlock()
	data, _, err := s.readSound()
	if err != nil {
		return err
	}
	if err := change(data); err != nil {
		return err
	}
	return s.write(data)
}

// acquire takes the lock between processes.
func (s *stateStore) acquire() (unlock func(), err error) {
	unlock, err = lockFile(s.lock, stateLockWait)
	if errors.Is(err, errLocked) {
		return nil, problemf(kindInternal, "Another agent-runtime has been changing %s for %s: end it and try again.",
			s.path, stateLockWait).because(err)
	}
	if err != nil {
		return nil, s.unwritable(err)
	}
	return unlock, nil
}

// write replaces the file. The caller holds the lock.
func (s *stateStore) write(data *stateData) error {
	content, err := encodeState(data)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	target, err := followLinks(s.path)
	if err != nil {
		return s.unwritable(err)
	}
	if err := writeAtomic(target, content, 0o600); err != nil {
		return s.unwritable(err)
	}
	return nil
}

// readSound reads the file and sets a damaged one aside. The caller holds the
// lock.
func (s *stateStore) readSound() (*stateData, os.FileInfo, error) {
	data, info, err := s.read()
	if err == nil {
		return data, info, nil
	}
	if !errors.Is(err, errDamaged) {
		return nil, nil, s.unreadable(err)
	}
	kept, asideErr := s.setAside()
	if asideErr != nil {
		return nil, nil, problemf(kindInternal, "The state file %s is damaged and cannot be renamed: move it away.",
			s.path).because(errors.Join(err, asideErr))
	}
	s.log.Warn("the state file was damaged and is kept under another name: nothing is granted now, pages must be paired and labs approved again",
		"kept", kept, "error", err)
	// Without a state file the next start would take over old grants.
	empty := newStateData()
	return empty, info, s.write(empty)
}

// read returns what the file holds, and which file that was: nil when there is
// none. With errDamaged both are usable, and the data grants nothing.
func (s *stateStore) read() (*stateData, os.FileInfo, error) {
	info, err := os.Stat(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return newStateData(), nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	// Opening a pipe would wait for a writer.
	if !info.Mode().IsRegular() {
		return newStateData(), info, fmt.Errorf("%w: not a regular file", errDamaged)
	}
	f, err := openReplaced(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return newStateData(), nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, stateLimit+1))
	if err != nil {
		return nil, nil, err
	}
	if len(content) > stateLimit {
		return newStateData(), info, fmt.Errorf("%w: larger than %d bytes", errDamaged, stateLimit)
	}
	data, err := decodeState(content)
	if err != nil {
		return newStateData(), info, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return data, info, nil
}

// setAside renames the damaged file, over no other, and returns its new name.
func (s *stateStore) setAside() (string, error) {
	target, err := followLinks(s.path)
	if err != nil {
		return "", err
	}
	stem := target + ".damaged-" + s.now().UTC().Format("20060102T150405Z")
	name := stem
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
			return name, os.Rename(target, name)
		}
		name = fmt.Sprintf("%s-%d", stem, n)
	}
}

func (s *stateStore) unreadable(err error) error {
	return problemf(kindInternal, "The state file %s cannot be read.", s.path).because(err)
}

func (s *stateStore) unwritable(err error) error {
	if diskFull(err) {
		return problemf(kindFull, "The disk is full, so %s could not be saved: free some space and try again.",
			s.path).because(err)
	}
	return problemf(kindInternal, "The state file %s could not be saved.", s.path).because(err)
}
