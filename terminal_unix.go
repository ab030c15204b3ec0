//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// surviveJobControl keeps the program from being stopped when it uses the
// terminal while another job has it: reading then is an error. resumed tells
// that the program may have come back from a stop or to the foreground, until
// stop is called.
func surviveJobControl() (resumed <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCONT)
	signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU)
	return signals, func() { signal.Stop(signals) }
}

// terminalInput is the terminal f as something to read from. The pipe is made
// early, so that its numbers are low enough to wait for.
type terminalInput struct {
	f           *os.File
	wake, waker *os.File
}

func openInput(f *os.File) (*terminalInput, error) {
	wake, waker, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &terminalInput{f, wake, waker}, nil
}

// close leaves the terminal itself open.
func (in *terminalInput) close() {
	_ = in.wake.Close()
	_ = in.waker.Close()
}

// readLine reads a line without its end. It gives io.EOF when the person ends
// the input, and returns soon after ctx ends; what was typed of a line by
// then stays unread.
func (in *terminalInput) readLine(ctx context.Context) (string, error) {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_, _ = in.waker.Write([]byte{0})
		close(woken)
	})
	defer func() {
		if !stop() {
			<-woken
			_, _ = in.wake.Read(make([]byte, 1))
		}
	}()
	var line []byte
	for buffer := make([]byte, terminalLine); len(line) < terminalLine; {
		err := waitReadable(int(in.f.Fd()), int(in.wake.Fd()))
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		n := 0
		if err == nil {
			n, err = syscall.Read(int(in.f.Fd()), buffer)
		}
		if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.EAGAIN) {
			continue
		}
		if err != nil {
			return "", os.NewSyscallError("read terminal", err)
		}
		if n <= 0 {
			return "", io.EOF
		}
		line = append(line, buffer[:n]...)
		if before, _, ok := bytes.Cut(line, []byte{'\n'}); ok {
			return string(before), nil
		}
	}
	return "", io.EOF // nobody answers with a line as long as this
}

// foreground reports whether the terminal would give us what is typed. One
// that is not our session's own gives it to whoever reads.
func (in *terminalInput) foreground() bool {
	var group int32
	err := ioctl(in.f, syscall.TIOCGPGRP, unsafe.Pointer(&group))
	return err != nil || int(group) == syscall.Getpgrp()
}

func ioctl(f *os.File, request uintptr, arg unsafe.Pointer) error {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}
