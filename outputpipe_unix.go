//go:build unix

package main

import "os"

// newOutputPipe returns a pipe for what a child writes. The reading end can be
// given a deadline, and be closed while it is read.
func newOutputPipe() (output, input *os.File, err error) { return os.Pipe() }
