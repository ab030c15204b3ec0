//go:build unix

package main

import (
	"errors"
	"syscall"
)

// diskFull reports whether err says that the disk or a quota is used up.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// freeSpace is how many bytes the disk of dir can still take from this
// account; ok is false when that is not known.
func freeSpace(dir string) (bytes uint64, ok bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return uint64(st.Bavail) * uint64(st.Bsize), true
}
