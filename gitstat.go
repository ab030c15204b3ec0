package main

//lint:file-ignore U1000 Windows tells nothing that a stamp could hold.

// Tells whether a file has changed since its bytes were read, from what the
// system keeps about it, so that unchanged files need not be read again.

import (
	"io/fs"
	"time"
)

// How long a file must have been left alone before its stamp can be relied
// on: a change within the same tick of the file system's clock leaves the
// stamp as it was. Some file systems keep whole seconds only.
const (
	fineTick   = 100 * time.Millisecond
	coarseTick = 2 * time.Second
)

// fileStamp is equal for two looks at a file only if nobody wrote to it in
// between. Its times are nanoseconds.
type fileStamp struct {
	size         int64
	mode         fs.FileMode
	mtime, ctime int64
	file         [2]uint64 // the numbers of its disk and of itself
}

// settled reports whether any later change is sure to alter the stamp, when
// the file was read at the given time or later.
func (s fileStamp) settled(read time.Time) bool {
	tick := fineTick
	if s.mtime%int64(time.Second) == 0 && s.ctime%int64(time.Second) == 0 {
		tick = coarseTick
	}
	return max(s.mtime, s.ctime) < read.Add(-tick).UnixNano()
}
