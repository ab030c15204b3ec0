package main

import (
	"os"
	"syscall"
	"unsafe"
)

// isTerminal reports whether f, which may be nil, is a terminal.
func isTerminal(f *os.File) bool {
	var modes syscall.Termios
	return f != nil && ioctl(f, syscall.TIOCGETA, unsafe.Pointer(&modes)) == nil
}

// flushInput discards what was typed into the terminal f and not yet read,
// lines and parts of lines.
func flushInput(f *os.File) error {
	input := int32(1) // FREAD
	return os.NewSyscallError("flush terminal", ioctl(f, syscall.TIOCFLUSH, unsafe.Pointer(&input)))
}

// waitReadable waits until one of the files can be read.
func waitReadable(files ...int) error {
	const bits = 32
	var set syscall.FdSet
	most := 0
	for _, fd := range files {
		if fd/bits >= len(set.Bits) {
			return syscall.EMFILE
		}
		set.Bits[fd/bits] |= 1 << (fd % bits)
		most = max(most, fd)
	}
	return syscall.Select(most+1, &set, nil, nil, nil)
}
