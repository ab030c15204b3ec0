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
	var where syscall.Overlapped
	_, err := kernel32("LockFileEx", f.Fd(), lockExclusive|lockFailNow, 0, 1, 0, uintptr(unsafe.Pointer(&where)))
	if errors.Is(err, errorLockViolation) || errors.Is(err, syscall.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// releaseLock ends the lock of f now. Closing f alone lets the system take
// its time.
func releaseLock(f *os.File) error {
	var where syscall.Overlapped
	_, err := kernel32("UnlockFileEx", f.Fd(), 0, 1, 0, uintptr(unsafe.Pointer(&where)))
	return err
}
