package main

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// replaceFile renames from to to, over whatever file is there. While somebody
// reads that file the system refuses, so for a second it is tried again.
func replaceFile(from, to string) error {
	return untilShared(func() error { return os.Rename(from, to) })
}

// openReplaced opens a file for reading that writeAtomic may be replacing.
// Meanwhile the system refuses, so for a second it is tried again.
func openReplaced(path string) (f *os.File, err error) {
	err = untilShared(func() error {
		f, err = os.Open(path)
		return err
	})
	return f, err
}

// untilShared does what another process can be in the way of, until it is not
// or a second has passed.
func untilShared(do func() error) error {
	const tries, pause = 100, 10 * time.Millisecond
	const sharingViolation = syscall.Errno(32) // package syscall does not name it
	err := do()
	for range tries {
		if !errors.Is(err, sharingViolation) && !errors.Is(err, syscall.ERROR_ACCESS_DENIED) {
			break
		}
		time.Sleep(pause)
		err = do()
	}
	return err
}

// syncFolder has nothing to do: this system keeps its names in a journal.
func syncFolder(string) error { return nil }
