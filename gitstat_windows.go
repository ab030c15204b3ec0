package main

import "io/fs"

// plainDisk says that the disks of this system keep no executable bit, and
// may hold a link as a file with the link's target in it.
const plainDisk = true

// stampOf is never sure here: a program can set every time that is told.
func stampOf(fs.FileInfo) (stamp fileStamp, ok bool) { return stamp, false }
