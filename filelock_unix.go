//go:build unix

package main

import (
	"os"
	"syscall"
)

// tryLock reports whether it got the lock of f, which ends when f is closed.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
		case nil:
			return true, nil
		case syscall.EWOULDBLOCK:
			return false, nil
		case syscall.EINTR:
		default:
			return false, err
		}
	}
}

// releaseLock ends the lock of f now. Closing f alone would leave it to a child that
// is being started at that moment, until the child has become another program.
func releaseLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
