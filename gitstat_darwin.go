package main

import (
	"io/fs"
	"syscall"
)

// stampOf tells what changes whenever a file's bytes, mode or identity do. ok is false
// where the system does not tell enough for that.
func stampOf(info fs.FileInfo) (stamp fileStamp, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp, false
	}
	return fileStamp{
		size:  st.Size,
		mode:  info.Mode(),
		mtime: st.Mtimespec.Nano(),
		ctime: st.Ctimespec.Nano(),
		file:  [2]uint64{uint64(st.Dev), st.Ino},
	}, true
}
