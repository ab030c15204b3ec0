package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode"
	"unsafe"
)

// surviveJobControl has nothing to do: this system has no job control.
func surviveJobControl() (resumed <-chan os.Signal, stop func()) { return nil, func() {} }

// isTerminal reports whether f, which may be nil, is a console.
func isTerminal(f *os.File) bool {
	var mode uint32
	return f != nil && syscall.GetConsoleMode(syscall.Handle(f.Fd()), &mode) == nil
}

// flushInput discards what was typed into the console f and not yet read.
func flushInput(f *os.File) error { return consoleCall("FlushConsoleInputBuffer", f.Fd()) }

// terminalInput is the console f as something to read from.
type terminalInput struct{ f *os.File }

func openInput(f *os.File) (*terminalInput, error) { return &terminalInput{f}, nil }

// close leaves the console itself open.
func (in *terminalInput) close() {}

// foreground reports that the console gives us what is typed.
func (in *terminalInput) foreground() bool { return true }

// readLine reads a line without its end. It gives io.EOF when the person ends
// the input, and returns soon after ctx ends.
func (in *terminalInput) readLine(ctx context.Context) (string, error) {
	if err := waitTyped(ctx, in.f); err != nil {
		return "", err
	}
	// A line that has been begun cannot be given up, only ended.
	stop := context.AfterFunc(ctx, func() { _ = pressKey(in.f, enterKey) })
	defer stop()
	buffer := make([]byte, terminalLine)
	n, err := in.f.Read(buffer)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", err
	}
	line, _, whole := strings.Cut(string(buffer[:n]), "\n")
	if !whole {
		return "", io.EOF // nobody answers with a line as long as this
	}
	return strings.TrimSuffix(line, "\r"), nil
}

// waitTyped waits until the console f has something to read.
func waitTyped(ctx context.Context, f *os.File) error {
	const slice = 50 // milliseconds; a console cannot be waited for together with a context
	for ctx.Err() == nil {
		event, err := syscall.WaitForSingleObject(syscall.Handle(f.Fd()), slice)
		if err != nil {
			return err
		}
		if event == syscall.WAIT_OBJECT_0 {
			return nil
		}
	}
	return ctx.Err()
}

const enterKey = '\r'

// pressKey puts the key that types char, a letter or enterKey, into the input
// of the console f. Keys have the numbers of capital letters.
func pressKey(f *os.File, char rune) error {
	const keyEvent = 1
	// INPUT_RECORD with a KEY_EVENT_RECORD
	key := struct {
		kind, _            uint16
		down               int32
		repeat, code, scan uint16
		char               uint16
		control            uint32
	}{kind: keyEvent, down: 1, repeat: 1, code: uint16(unicode.ToUpper(char)), char: uint16(char)}
	var written uint32
	return consoleCall("WriteConsoleInputW", f.Fd(), uintptr(unsafe.Pointer(&key)), 1, uintptr(unsafe.Pointer(&written)))
}

// consoleCall calls a function of the system that works on a console.
func consoleCall(name string, args ...uintptr) error {
	_, err := kernel32(name, args...)
	return errors.Join(err)
}
