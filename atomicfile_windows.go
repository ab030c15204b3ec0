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
	const tries, pause = 100, 10 * time.Millisecond
	const sharingViolation = syscall.Errno(32) // package syscall does not name it
	err := os.Rename(from, to)
	for range tries {
		if !errors.Is(err, sharingViolation) && !errors.Is(err, syscall.ERROR_ACCESS_DENIED) {
			break
		}
		time.Sleep(pause)
		err = os.Rename(from, to)
	}
	return err
}

// syncFolder has nothing to do: this system keeps its names in a journal.
func syncFolder(string) error { return nil }
