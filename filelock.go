package main

import (
	"errors"
	"os"
	"time"
)

// errLocked says that another process, or another part of this one, holds a
// lock for longer than one wanted to wait.
var errLocked = errors.New("locked by another process")

// lockPoll is how often a lock held elsewhere is tried again: no system can
// wait for one and give up after a time.
const lockPoll = 5 * time.Millisecond

// lockFile takes the exclusive lock that the file at path stands for, and
// makes the file when there is none. It waits for at most wait, then gives
// errLocked. The lock ends with unlock or with this process; children do not
// inherit it. The file is never removed.
func lockFile(path string, wait time.Duration) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(wait); ; time.Sleep(lockPoll) {
		locked, err := tryLock(f)
		if err == nil && !locked && time.Now().After(deadline) {
			err = errLocked
		}
		if err != nil {
			return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
		}
		if locked {
			return func() { _ = errors.Join(releaseLock(f), f.Close()) }, nil
		}
	}
}
