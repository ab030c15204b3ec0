package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWindowsFileThatIsBeingReadIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := writeAtomic(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := openReplaced(path)
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- writeAtomic(path, []byte("new"), 0o600) }() // ends once the reader has
	for len(mustGlob(t, filepath.Join(dir, ".*"+unfinishedSuffix))) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Errorf("a file that somebody read for a moment is not replaced: %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "new" {
		t.Errorf("the file holds %q, %v; want new", got, err)
	}
}

func mustGlob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWindowsLockHasOneHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	for range 3 {
		unlock, err := lockFile(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lockFile(path, 0); !errors.Is(err, errLocked) {
			t.Errorf("a lock that is held: %v, want %v", err, errLocked)
		}
		unlock()
	}
}
