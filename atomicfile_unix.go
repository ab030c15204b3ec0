//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
)

// replaceFile renames from to to, over whatever file is there.
func replaceFile(from, to string) error { return os.Rename(from, to) }

// openReplaced opens a file for reading that writeAtomic may be replacing.
func openReplaced(path string) (*os.File, error) { return os.Open(path) }

// syncFolder makes the names in folder last through a power cut.
func syncFolder(folder string) error {
	f, err := os.Open(filepath.Clean(folder))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
