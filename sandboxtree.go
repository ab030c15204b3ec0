package main

// Folder trees that a sandboxed command has made. Nothing in them is taken at
// its word: folders are opened one below the other through os.Root, so no link
// and no renaming leads outside, pipes and devices are never opened, and
// folders that their owner may not read are made readable first.

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
)

const (
	treeDepth = 64   // levels that a workspace may have
	treeBatch = 1024 // names read from a folder at once

	// treeDeepest is how many levels are counted where a fast command has made
	// more than it may. Each takes two open files.
	treeDeepest = 256

	// listLimit is how long all names of one list may be together, in bytes:
	// long names in deep folders can make very much text.
	listLimit = 8 << 20
)

var (
	errTreeDeep = errors.New("folders are nested too deeply")
	errTreeFull = errors.New("more than the limit")
)

// treeMoved reports whether a walk failed because a command changed what was
// being read: it locked a folder, or put something else in its place.
func treeMoved(err error) bool {
	_, inPath := errors.AsType[*fs.PathError](err)
	number, known := errors.AsType[syscall.Errno](err)
	if !known {
		return inPath && !errors.Is(err, fs.ErrNotExist) // os.Root makes it: now there is a link that leads outside
	}
	return number == syscall.ENOTDIR || number == syscall.ELOOP || number == syscall.EACCES
}

// treeItem is one entry of a tree, with the open folder that holds it.
type treeItem struct {
	dir  *os.Root
	name string // within dir
	path string // within the tree
	info fs.FileInfo
}

// openTree opens the top folder of a tree, which a command may have locked.
func openTree(dir string) (*os.Root, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return nil, err
		}
	}
	return os.OpenRoot(dir)
}

// folderKeys unlock what a command locked against its owner, for as long as
// somebody reads it: several may at once, and the last one locks it again. A
// nil one has nobody to share with.
type folderKeys struct {
	mu   sync.Mutex // guards the rest
	held []*heldItem
}

// heldItem is a folder or file that is unlocked for the time being.
type heldItem struct {
	info  fs.FileInfo
	mode  fs.FileMode // to be given back
	users int
}

// unlock gives the owner the permissions in need to a folder or file, until
// done is called, and returns those that it has of itself. The folder that
// holds it has to be unlocked all that time.
func (k *folderKeys) unlock(dir *os.Root, name string, need fs.FileMode) (mode fs.FileMode, done func(), err error) {
	if k == nil {
		k = new(folderKeys)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	info, err := dir.Lstat(name)
	if err != nil {
		return 0, nil, err
	}
	at := slices.IndexFunc(k.held, func(h *heldItem) bool { return os.SameFile(h.info, info) })
	if at < 0 {
		mode = info.Mode().Perm()
		if mode&need == need || info.Mode()&fs.ModeSymlink != 0 {
			return mode, func() {}, nil
		}
		if err := dir.Chmod(name, mode|need); err != nil {
			return 0, nil, err
		}
		at = len(k.held)
		k.held = append(k.held, &heldItem{info: info, mode: mode})
	}
	item := k.held[at]
	item.users++
	return item.mode, func() { k.lock(dir, name, item) }, nil
}

func (k *folderKeys) lock(dir *os.Root, name string, item *heldItem) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if item.users--; item.users > 0 {
		return
	}
	k.held = slices.DeleteFunc(k.held, func(h *heldItem) bool { return h == item })
	_ = dir.Chmod(name, item.mode) // it may have gone
}

// walkItems calls visit for everything in a tree, a folder before what it holds.
// Entries that vanish meanwhile are passed over. Folders nested more than depth
// deep are errTreeDeep; a negative depth has no bound.
func walkItems(keys *folderKeys, root *os.Root, depth int, visit func(treeItem) error) error {
	return walkFolder(keys, root, "", depth, visit)
}

func walkFolder(keys *folderKeys, dir *os.Root, prefix string, depth int, visit func(treeItem) error) error {
	if depth == 0 {
		return errTreeDeep
	}
	return eachName(dir, func(name string) error {
		info, err := dir.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		entry := treeItem{dir: dir, name: name, path: path.Join(prefix, name), info: info}
		if err := visit(entry); err != nil || !info.IsDir() {
			return err
		}
		child, _, done, err := openFolder(keys, dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer done()
		return walkFolder(keys, child, entry.path, depth-1, visit)
	})
}

// eachName calls visit for each name in a folder, in no order. They are read in
// batches: a folder may hold a million.
func eachName(dir *os.Root, visit func(string) error) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		names, err := f.Readdirnames(treeBatch)
		for _, name := range names {
			if err := visit(name); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// openFolder opens a folder for reading and changing. One that its owner locked
// is unlocked until done is called, which also closes it. The mode is its own.
func openFolder(keys *folderKeys, dir *os.Root, name string) (folder *os.Root, mode fs.FileMode, done func(), err error) {
	mode, lock, err := keys.unlock(dir, name, 0o700)
	if err != nil {
		return nil, 0, nil, err
	}
	folder, err = dir.OpenRoot(name)
	if err != nil {
		lock()
		return nil, 0, nil, err
	}
	return folder, mode, func() {
		folder.Close()
		lock()
	}, nil
}

// treeSize is how much a tree takes.
type treeSize struct {
	bytes   int64 // on the disk
	entries int64
}

// entryCost is what an entry counts for where trees are compared with a limit
// in bytes alone: names and inodes take space too.
const entryCost = 4096

func (s treeSize) total() int64 { return s.bytes + s.entries*entryCost }

func (s treeSize) plus(o treeSize) treeSize {
	return treeSize{s.bytes + o.bytes, s.entries + o.entries}
}

// within reports whether neither figure is above that of limit.
func (s treeSize) within(limit treeSize) bool {
	return s.bytes <= limit.bytes && s.entries <= limit.entries
}

// measureTree adds up a tree. Above limit it stops with errTreeFull and what it
// has counted so far; limit nil means none. The depth is that of walkItems.
func measureTree(keys *folderKeys, dir string, depth int, limit *treeSize) (treeSize, error) {
	var size treeSize
	root, err := openTree(dir)
	if err != nil {
		return size, err
	}
	defer root.Close()
	err = walkItems(keys, root, depth, func(e treeItem) error {
		size = size.plus(treeSize{diskBytes(e.info), 1})
		if limit != nil && !size.within(*limit) {
			return errTreeFull
		}
		return nil
	})
	return size, err
}

// treeCopy copies one tree. Regular files, folders and links (as links) are
// copied with their permissions; what else there is, is skipped.
type treeCopy struct {
	keys    *folderKeys
	limit   treeSize // what may be copied; a file counts with its length, holes included
	copied  treeSize
	owner   *owner   // of the copies; nil for our own
	skipped []string // as many as listLimit allows

	skippedSize int
}

// owner is the user that commands run as where that is not our own.
type owner struct{ uid, gid int }

func (c *treeCopy) copyTree(from, to string) error {
	src, err := openTree(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	return c.folder(src, dst, "", treeDepth)
}

func (c *treeCopy) folder(src, dst *os.Root, prefix string, depth int) error {
	if depth == 0 {
		return errTreeDeep
	}
	return eachName(src, func(name string) error {
		info, err := src.Lstat(name)
		if err != nil {
			return err
		}
		at := path.Join(prefix, name)
		if c.copied = c.copied.plus(treeSize{entries: 1}); !c.copied.within(c.limit) {
			return errTreeFull
		}
		switch {
		case info.IsDir():
			return c.subfolder(src, dst, at, depth)
		case info.Mode().IsRegular():
			return c.file(src, dst, info)
		case info.Mode()&fs.ModeSymlink != 0:
			return c.link(src, dst, name)
		}
		if c.skippedSize += len(at); c.skippedSize <= listLimit {
			c.skipped = append(c.skipped, at)
		}
		return nil
	})
}

func (c *treeCopy) subfolder(src, dst *os.Root, at string, depth int) error {
	name := path.Base(at)
	from, mode, done, err := openFolder(c.keys, src, name)
	if err != nil {
		return err
	}
	defer done()
	if err := dst.Mkdir(name, 0o700); err != nil {
		return err
	}
	to, err := dst.OpenRoot(name)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := c.folder(from, to, at, depth-1); err != nil {
		return err
	}
	if err := c.own(dst, name); err != nil {
		return err
	}
	return dst.Chmod(name, mode)
}

func (c *treeCopy) file(src, dst *os.Root, info fs.FileInfo) error {
	mode, lock, err := c.keys.unlock(src, info.Name(), 0o400)
	if err != nil {
		return err
	}
	defer lock()
	in, err := openRegular(src, info.Name())
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := dst.OpenFile(info.Name(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, c.limit.bytes-c.copied.bytes+1))
	c.copied.bytes += n
	if err == nil && !c.copied.within(c.limit) {
		err = errTreeFull
	}
	return errors.Join(err, c.ownFile(out), out.Chmod(mode), out.Close())
}

func (c *treeCopy) link(src, dst *os.Root, name string) error {
	target, err := src.Readlink(name)
	if err != nil {
		return err
	}
	if err := dst.Symlink(target, name); err != nil {
		return err
	}
	return c.own(dst, name)
}

func (c *treeCopy) own(dst *os.Root, name string) error {
	if c.owner == nil {
		return nil
	}
	return dst.Lchown(name, c.owner.uid, c.owner.gid)
}

func (c *treeCopy) ownFile(f *os.File) error {
	if c.owner == nil {
		return nil
	}
	return f.Chown(c.owner.uid, c.owner.gid)
}

// openRegular opens a regular file for reading and never waits for one that is
// not. The error for anything else is fs.ErrNotExist.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|openAtOnce, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// removeTree removes a tree that a command may have filled with locked folders.
// A missing one is no error.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	if unlockErr := unlockTree(dir); unlockErr != nil {
		return errors.Join(err, unlockErr)
	}
	return os.RemoveAll(dir)
}

// unlockTree lets the owner into every folder of a tree, however deep it is.
func unlockTree(dir string) error {
	root, err := openTree(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return walkItems(nil, root, -1, func(e treeItem) error {
		if !e.info.IsDir() {
			return nil
		}
		return e.dir.Chmod(e.name, 0o700)
	})
}

// emptyTree removes what a tree's top folder holds.
func emptyTree(dir string) error {
	root, err := openTree(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return eachName(root, func(name string) error {
		return removeTree(filepath.Join(dir, name))
	})
}
