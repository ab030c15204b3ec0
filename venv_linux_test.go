package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

func TestRemoveFolderOpensFoldersThatMayNotBeWritten(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	dir, err := os.MkdirTemp("", "agent-runtime-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	outside := filepath.Join(t.TempDir(), "outside")
	tree := filepath.Join(dir, "tree")
	putFile(t, filepath.Join(outside, "file"), "")
	for _, sub := range []string{"shut", "a/b/c", "a/open"} {
		putFile(t, filepath.Join(tree, sub, "file"), "")
	}
	if err := os.Symlink(outside, filepath.Join(tree, "a", "link")); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, nobody, nobody))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []struct {
		path string
		mode os.FileMode
	}{{"shut", 0}, {"a/b/c", 0o500}, {"a/b", 0o555}, {"a", 0o100}, {".", 0o400}} {
		if err := os.Chmod(filepath.Join(tree, folder.path), folder.mode); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Root may write everywhere, so another account does it. The thread
		// stays locked and ends with this goroutine: nothing else runs on it.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
		}
		if err := os.RemoveAll(tree); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("RemoveAll = %v, want it to fail, or this test tests nothing", err)
		}
		if err := removeFolder(tree); err != nil {
			t.Errorf("removeFolder = %v, want nil", err)
		}
	}()
	<-done
	if _, err := os.Lstat(tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Errorf("what a link pointed to was removed: %v", err)
	}
}
