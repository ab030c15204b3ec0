package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// openPTY makes a pseudo-terminal: what is written to master is typed, and
// what a program prints to slave is read from master. Both are closed with
// the test.
func openPTY(t testing.TB) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number uint32
	var unlock int32
	err = raw.Control(func(fd uintptr) {
		for request, arg := range map[uintptr]unsafe.Pointer{
			syscall.TIOCSPTLCK: unsafe.Pointer(&unlock),
			syscall.TIOCGPTN:   unsafe.Pointer(&number),
		} {
			if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(arg)); errno != 0 {
				t.Errorf("pseudo-terminal: %v", errno)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	// Not by os.OpenFile, which would make the terminal non-blocking.
	name := fmt.Sprint("/dev/pts/", number)
	fd, err := syscall.Open(name, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	slave = os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// screen is a person before a pseudo-terminal.
type screen struct {
	t      *testing.T
	master *os.File

	mu    sync.Mutex // guards the rest
	text  strings.Builder
	grown chan struct{} // closed and replaced when text grows
}

// newScreen reads all that appears on master.
func newScreen(t *testing.T, master *os.File) *screen {
	t.Helper()
	s := &screen{t: t, master: master, grown: make(chan struct{})}
	go s.watch() // ends when the terminal is closed
	return s
}

func (s *screen) watch() {
	buffer := make([]byte, 4096)
	for {
		n, err := s.master.Read(buffer)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.text.Write(buffer[:n])
		close(s.grown)
		s.grown = make(chan struct{})
		s.mu.Unlock()
	}
}

// typed types text, where "\n" is the Enter key.
func (s *screen) typed(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatalf("type: %v", err)
	}
}

// all is what has appeared so far, with "\n" at the ends of lines.
func (s *screen) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.text.String(), "\r\n", "\n")
}

// waitFor waits until text has appeared n times.
func (s *screen) waitFor(text string, n int) {
	s.t.Helper()
	late := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		grown := s.grown
		s.mu.Unlock()
		if strings.Count(s.all(), text) >= n {
			return
		}
		select {
		case <-grown:
		case <-late:
			s.t.Fatalf("%q has not appeared %d times on the screen:\n%s", text, n, s.all())
		}
	}
}
