package main

import (
	"errors"
	"os"
	"path/filepath"
)

// unfinishedSuffix ends the name of a file that is being written. One that
// is left over belongs to a writer that was killed, see removeUnfinished.
const unfinishedSuffix = ".unfinished"

// writeAtomic makes data the content of the file at path: whoever opens path,
// even after a crash or a power cut, finds the old content or the new, whole.
// The file gets exactly mode, whatever the umask is. An error means that the
// old file is still there. A link at path is replaced, not followed.
func writeAtomic(path string, data []byte, mode os.FileMode) (err error) {
	folder, name := filepath.Split(path)
	f, err := os.CreateTemp(folder, "."+name+".*"+unfinishedSuffix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = replaceFile(f.Name(), path); err != nil {
		return err
	}
	// The new file is in place and whole. A folder that cannot be synced only
	// means that a power cut may bring the old one back.
	_ = syncFolder(folder)
	return nil
}

// removeUnfinished removes what killed writers of path left behind. The
// caller holds the lock that all writers of path hold.
func removeUnfinished(path string) error {
	folder, name := filepath.Split(path)
	// A folder's name may hold pattern characters, so only the entries are matched.
	entries, err := os.ReadDir(filepath.Clean(folder))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if ok, _ := filepath.Match("."+name+".*"+unfinishedSuffix, entry.Name()); ok {
			err = errors.Join(err, os.Remove(filepath.Join(folder, entry.Name())))
		}
	}
	return err
}

// followLinks returns the path that a link at path leads to in the end, which
// need not exist; path itself when it is no link.
func followLinks(path string) (string, error) {
	const limit = 40
	for range limit {
		info, err := os.Lstat(path)
		if errors.Is(err, os.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			return path, nil
		}
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", &os.PathError{Op: "follow", Path: path, Err: errors.New("too many links")}
}
