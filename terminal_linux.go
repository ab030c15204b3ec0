package main

import (
	"os"
	"syscall"
	"unsafe"
)

// isTerminal reports whether f, which may be nil, is a terminal.
func isTerminal(f *os.File) bool {
	var modes syscall.Termios
	return f != nil && ioctl(f, syscall.TCGETS, unsafe.Pointer(&modes)) == nil
}

// flushInput discards what was typed into the terminal f and not yet read,
// lines and parts of lines.
func flushInput(f *os.File) error {
	// The system's own headers name these; package syscall does not.
	const flush, input = 0x540B, 0 // TCFLSH, TCIFLUSH
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), flush, input)
	if errno != 0 {
		return os.NewSyscallError("flush terminal", errno)
	}
	return nil
}

// waitReadable waits until one of the files can be read.
func waitReadable(files ...int) error {
	const bits = 64
	var set syscall.FdSet
	most := 0
	for _, fd := range files {
		if fd/bits >= len(set.Bits) {
			return syscall.EMFILE
		}
		set.Bits[fd/bits] |= 1 << (fd % bits)
		most = max(most, fd)
	}
	_, err := syscall.Select(most+1, &set, nil, nil, nil)
	return err
}
