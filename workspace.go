package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// workspaceFileLimit is the size of the largest file that is read or written
// through the API, in bytes.
const workspaceFileLimit = 8 << 20

// workspace is a folder that commands and a page share. A command may change
// anything in it at any moment; no path and no link in it leads outside.
type workspace struct {
	dir   string
	keys  *folderKeys
	owner *owner // of what is written; nil for our own user
}

// list returns the sorted names in the workspace, or with recursive the
// relative paths of all there is, folders with a slash at the end.
func (w workspace) list(recursive bool) ([]string, error) {
	const tries = 5 // a command may change what is being read
	var names []string
	var err error
	for range tries {
		if names, err = w.listOnce(recursive); !treeMoved(err) {
			break
		}
	}
	if errors.Is(err, errTreeFull) {
		return nil, problemf(kindTooLarge, "The names in the workspace are longer than the %d MiB that one list may have.", listLimit>>20)
	}
	slices.Sort(names)
	return names, treeProblem(err)
}

func (w workspace) listOnce(recursive bool) ([]string, error) {
	root, err := openTree(w.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, size := []string{}, 0
	add := func(name string) error {
		if size += len(name); size > listLimit {
			return errTreeFull
		}
		names = append(names, name)
		return nil
	}
	if !recursive {
		err = eachName(root, add)
		return names, err
	}
	err = walkItems(w.keys, root, treeDepth, func(e treeItem) error {
		if e.info.IsDir() {
			e.path += "/"
		}
		return add(e.path)
	})
	return names, err
}

// read returns the content of a regular file.
func (w workspace) read(name string) ([]byte, error) {
	clean, err := sandboxFile(name)
	if err != nil {
		return nil, err
	}
	root, err := openTree(w.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openRegular(root, clean)
	if errors.Is(err, syscall.ENOTDIR) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, pathProblem(name, err)
	}
	defer f.Close()
	return readCapped(f)
}

// readCapped reads a file that may grow meanwhile, if it is not too large.
func readCapped(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	data.Grow(int(min(info.Size(), workspaceFileLimit)) + bytes.MinRead)
	if _, err := data.ReadFrom(io.LimitReader(f, workspaceFileLimit+1)); err != nil {
		return nil, err
	}
	if data.Len() > workspaceFileLimit {
		return nil, fileTooLarge()
	}
	return data.Bytes(), nil
}

func fileTooLarge() error {
	return problemf(kindTooLarge, "A file may be at most %d MiB to go through the API.", workspaceFileLimit>>20)
}

// growth is what writing a file of this size adds to the workspace, at most.
func (w workspace) growth(name string, size int) (treeSize, error) {
	const block = 4096 // that file systems usually give files and folders
	clean, err := sandboxFile(name)
	if err != nil {
		return treeSize{}, err
	}
	root, err := openTree(w.dir)
	if err != nil {
		return treeSize{}, err
	}
	defer root.Close()
	more := treeSize{(int64(size) + block - 1) / block * block, 1}
	for dir := path.Dir(clean); dir != "."; dir = path.Dir(dir) {
		if _, err := root.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		more = more.plus(treeSize{block, 1})
	}
	return more, nil
}

// write makes data the content of a file: all of it, or nothing is changed.
// Missing folders are made. What a link there points to is left alone.
func (w workspace) write(name string, data []byte) error {
	clean, err := sandboxFile(name)
	if err != nil {
		return err
	}
	if len(data) > workspaceFileLimit {
		return fileTooLarge()
	}
	if strings.Count(clean, "/") >= treeDepth {
		return problemf(kindInvalid, "path may lead through at most %d folders.", treeDepth-1)
	}
	root, err := openTree(w.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	mode, err := replacedMode(root, clean)
	if err != nil {
		return pathProblem(name, err)
	}
	if err := w.makeParents(root, path.Dir(clean)); err != nil {
		return pathProblem(name, err)
	}
	dir, err := root.OpenRoot(path.Dir(clean))
	if err != nil {
		return pathProblem(name, err)
	}
	defer dir.Close()
	return pathProblem(name, w.replace(dir, path.Base(clean), data, mode))
}

// replacedMode is the mode for a file that takes the place of what is there
// under its name. Only a regular file, or a link within the workspace, may be
// replaced.
func replacedMode(root *os.Root, name string) (fs.FileMode, error) {
	const plain, program = 0o644, 0o755
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return plain, nil
	case err != nil:
		return 0, err
	case info.IsDir():
		return 0, syscall.EISDIR
	case !info.Mode().IsRegular():
		return 0, fs.ErrNotExist
	case info.Mode()&0o100 != 0:
		return program, nil
	}
	return plain, nil
}

func (w workspace) makeParents(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	for i, c := range dir + "/" {
		if c != '/' {
			continue
		}
		err := root.Mkdir(dir[:i], 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil && w.owner != nil {
			err = root.Lchown(dir[:i], w.owner.uid, w.owner.gid)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replace writes a new file and gives it its name when it is whole.
func (w workspace) replace(dir *os.Root, name string, data []byte, mode fs.FileMode) error {
	unfinished := ".write-" + rand.Text()
	f, err := dir.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && w.owner != nil {
		err = f.Chown(w.owner.uid, w.owner.gid)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = dir.Rename(unfinished, name)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(unfinished))
	}
	return nil
}

// pathProblem tells the error of a file operation in the terms of the page that
// asked for it.
func pathProblem(name string, err error) error {
	number, known := errors.AsType[syscall.Errno](err)
	_, inPath := errors.AsType[*fs.PathError](err)
	_, inLink := errors.AsType[*os.LinkError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist) || number == syscall.ENXIO || number == syscall.ELOOP:
		return problemf(kindNotFound, "There is no regular file %q in the workspace.", name).because(err)
	case (inPath || inLink) && !known:
		// os.Root alone makes such errors, and has no name for them.
		return problemf(kindInvalid, "path %q leaves the workspace through a link.", name).because(err)
	case number == syscall.ENAMETOOLONG:
		return problemf(kindInvalid, "path has a part that is too long for a file name.").because(err)
	case number == syscall.EISDIR || number == syscall.ENOTDIR || errors.Is(err, fs.ErrExist):
		return problemf(kindConflict, "%q cannot be written: a folder is where a file should be, or the reverse.", name).because(err)
	case errors.Is(err, fs.ErrPermission):
		return problemf(kindConflict, "%q cannot be opened: its mode, or that of its folder, forbids it.", name).because(err)
	case diskFull(err):
		return problemf(kindFull, "The disk is full: free some space and try again.").because(err)
	}
	return err
}

// snapshotTo copies the workspace to a folder that must not exist, whole or not
// at all, and returns what was copied and the paths that were skipped because
// they are neither files nor folders nor links. Nothing may write to the
// workspace meanwhile.
func (w workspace) snapshotTo(to string, limit treeSize) (treeSize, []string, error) {
	unfinished := filepath.Join(filepath.Dir(to), ".new-"+filepath.Base(to))
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return treeSize{}, nil, err
	}
	c := treeCopy{keys: w.keys, limit: limit}
	err := c.copyTree(w.dir, unfinished)
	if err == nil {
		err = os.Rename(unfinished, to)
	}
	if err != nil {
		return treeSize{}, nil, errors.Join(treeProblem(err), removeTree(unfinished))
	}
	slices.Sort(c.skipped)
	return c.copied, c.skipped, nil
}

// restoreFrom fills the empty workspace with a copy of a snapshot.
func (w workspace) restoreFrom(from string, limit treeSize) error {
	c := treeCopy{keys: w.keys, limit: limit, owner: w.owner}
	return treeProblem(c.copyTree(from, w.dir))
}

// treeProblem tells the error of a walk through a workspace, or of a copy of it,
// in the terms of the page that asked for it.
func treeProblem(err error) error {
	switch {
	case treeMoved(err):
		return problemf(kindConflict, "The workspace changes while it is read: try again.").because(err)
	case errors.Is(err, errTreeFull):
		return problemf(kindFull, "The workspace is larger than a copy may be: delete some files and try again.").because(err)
	case errors.Is(err, errTreeDeep):
		return problemf(kindConflict, "The workspace has folders nested more than %d deep: remove some.", treeDepth).because(err)
	case diskFull(err):
		return problemf(kindFull, "The disk is full: free some space and try again.").because(err)
	}
	return err
}

// shownNames are names as JSON can carry them.
func shownNames(names []string) []string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = jsonText(name)
	}
	return shown
}
