//go:build unix

package main

import ()

// plainDisk says that the disks of this system keep no executable bit, and
// may hold a link as a file with the link's target in it.
const plainDisk = false
