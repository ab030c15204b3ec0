package main

// Comparing a checkout with its commit. The bytes are hashed here: git's own
// index would believe what it was told, and git would ask the repository's
// settings first.

import (
	"crypto/rand"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// commitTree is what a commit holds.
type commitTree struct {
	manifest []byte     // lab.toml; nil when there is none
	files    []treeFile // sorted by path, without submodules
	notices  []string   // what the person should know is missing
	bytes    int64      // of all files together

	mu    sync.Mutex           // guards clean
	clean map[string]fileStamp // by path, of files found as in the commit
}

// modified returns the files of the commit that differ in the checkout in
// dir, sorted. Missing ones do, and those of another kind; files that the
// commit does not have are not looked at. It is safe for concurrent use.
func (t *commitTree) modified(dir string) []string {
	var paths []string
	root, err := os.OpenRoot(dir)
	if err != nil {
		for _, file := range t.files {
			paths = append(paths, file.path)
		}
		return paths
	}
	defer root.Close()
	folders := map[string]bool{".": true}
	for _, file := range t.files {
		if !realFolder(root, path.Dir(file.path), folders) || !t.unchanged(root, file) {
			paths = append(paths, file.path)
		}
	}
	return paths
}

// realFolder reports whether name and all folders above it are folders, not
// links to some. It keeps its answers in known.
func realFolder(root *os.Root, name string, known map[string]bool) bool {
	if real, ok := known[name]; ok {
		return real
	}
	real := realFolder(root, path.Dir(name), known)
	if real {
		info, err := root.Lstat(name)
		real = err == nil && info.IsDir()
	}
	known[name] = real
	return real
}

func (t *commitTree) unchanged(root *os.Root, file treeFile) bool {
	info, err := root.Lstat(file.path)
	if err != nil {
		return false
	}
	if file.mode == modeLink && info.Mode().Type() == fs.ModeSymlink {
		target, err := root.Readlink(file.path)
		return err == nil && hashObject("blob", []byte(filepath.ToSlash(target))) == file.blob
	}
	if !info.Mode().IsRegular() || file.mode == modeLink && !plainDisk {
		return false
	}
	if program := info.Mode()&0o100 != 0; !plainDisk && program != (file.mode == modeProgram) {
		return false
	}
	return t.sameBytes(root, file, info)
}

// sameBytes hashes the file unless it was found clean before and nobody has
// written to it since.
func (t *commitTree) sameBytes(root *os.Root, file treeFile, info fs.FileInfo) bool {
	stamp, sure := stampOf(info)
	t.mu.Lock()
	known := sure && t.clean[file.path] == stamp
	t.mu.Unlock()
	if known {
		return true
	}
	read := time.Now()
	id, err := hashFile(root, file.path, info)
	if err != nil || id != file.blob {
		return false
	}
	if sure && stamp.settled(read) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.clean[file.path] = stamp
	}
	return true
}

var errFileChanged = errors.New("file changed while it was read")

// hashFile returns the id that the file's bytes have in git. The file must
// still be the one that info tells of: another kind, such as a pipe, is opened
// without waiting and not read.
func hashFile(root *os.Root, name string, info fs.FileInfo) (objectID, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return objectID{}, err
	}
	defer file.Close()
	opened, err := file.Stat()
	if err != nil {
		return objectID{}, err
	}
	if !opened.Mode().IsRegular() || !os.SameFile(opened, info) || opened.Size() != info.Size() {
		return objectID{}, errFileChanged
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", info.Size())
	n, err := io.Copy(h, io.LimitReader(file, info.Size()+1))
	if err != nil || n != info.Size() {
		return objectID{}, errors.Join(errFileChanged, err)
	}
	return objectID(h.Sum(nil)), nil
}

// foldsCase reports whether the disk of dir takes upper and lower case for
// one. It leaves nothing there.
func foldsCase(dir string) bool {
	name := filepath.Join(dir, "case-"+rand.Text())
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	defer os.Remove(name)
	_ = file.Close()
	_, err = os.Lstat(filepath.Join(dir, strings.ToLower(filepath.Base(name))))
	return err == nil
}
