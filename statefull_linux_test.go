package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFullDiskIsNamedAndChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k,mode=700"); err != nil {
		t.Skipf("no small file system can be made here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	s, _ := newTestState(t, dir)
	pairTestSite(t, s, testPairing("a"))
	before, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 512))
	}
	_ = filler.Close()
	err = s.update(func(d *stateData) error {
		clear(d.Pairings)
		return nil
	})
	if !isKind(err, kindFull) {
		t.Errorf("update on a full disk = %v, want kindFull", err)
	}
	after, _ := os.ReadFile(filepath.Join(dir, stateFile))
	if !bytes.Equal(before, after) || mustCurrent(t, s).Pairings[testSite] != testPairing("a") {
		t.Error("the failed change changed the state")
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"+unfinishedSuffix))
	if len(left) != 0 {
		t.Errorf("unfinished files are left: %v", left)
	}
}
