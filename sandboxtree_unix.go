//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// openAtOnce keeps an open from waiting for the other end of a pipe, and a
// terminal from becoming ours.
const openAtOnce = syscall.O_NONBLOCK | syscall.O_NOCTTY

// diskBytes is what a file takes on the disk, holes left out.
func diskBytes(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}
