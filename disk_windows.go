package main

import (
	"errors"
	"syscall"
	"unsafe"
)

// diskFull reports whether err says that the disk or a quota is used up.
func diskFull(err error) bool {
	// Package syscall does not name these.
	const handleDiskFull, diskFull = syscall.Errno(39), syscall.Errno(112)
	return errors.Is(err, diskFull) || errors.Is(err, handleDiskFull)
}

// freeSpace is how many bytes the disk of dir can still take from this
// account; ok is false when that is not known.
func freeSpace(dir string) (bytes uint64, ok bool) {
	path, err := syscall.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	_, err = kernel32("GetDiskFreeSpaceExW", uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&bytes)), 0, 0)
	return bytes, err == nil
}
