package main

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// Numbers of the system's own headers that package syscall does not name.
const (
	lockExclusive      = 2
	lockFailNow        = 1
	errorLockViolation = syscall.Errno(33)
)

// tryLock reports whether it got the lock of f, which ends when f is closed.
func tryLock(f *os.File) (bool, error) {
	lock := syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")
	var where syscall.Overlapped
	r, _, err := lock.Call(f.Fd(), lockExclusive|lockFailNow, 0, 1, 0, uintptr(unsafe.Pointer(&where)))
	if r != 0 {
		return true, nil
	}
	if errors.Is(err, errorLockViolation) || errors.Is(err, syscall.ERROR_IO_PENDING) {
		return false, nil
	}
	return false, err
}

// releaseLock has nothing to do: the lock ends when f is closed.
func releaseLock(*os.File) error { return nil }
