package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// venvTextLimit is more than any text file of a virtual environment that
	// holds its path. Longer ones are compiled programs.
	venvTextLimit = 1 << 20

	// pipSettings undo what a person's or distribution's own pip settings
	// say about where to install to: inside an environment it is always the
	// environment. An empty value takes the other back.
	pipSettings = "user = 0\ntarget =\nprefix =\nroot =\n"
)

// venvFault says why the virtual environment cannot be used, as far as that
// shows without running it; "" when it can.
func venvFault(venv string) string {
	if info, err := os.Stat(filepath.Join(venv, "pyvenv.cfg")); err != nil || !info.Mode().IsRegular() {
		return "it has no pyvenv.cfg"
	}
	if info, err := os.Stat(venvPython(venv)); err != nil || !info.Mode().IsRegular() {
		return "its interpreter is gone"
	}
	if outgrown(venv) {
		return "its interpreter is of another version than its packages"
	}
	return ""
}

// venvVersion is the Python version that the virtual environment was made
// with; "" when it does not say.
func venvVersion(venv string) string {
	data, err := os.ReadFile(filepath.Join(venv, "pyvenv.cfg"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, "=")
		switch strings.TrimSpace(key) {
		case "version", "version_info":
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// writePipSettings keeps pip inside the virtual environment.
func writePipSettings(venv string) error {
	text := "[global]\n" + pipSettings + "[install]\n" + pipSettings
	return os.WriteFile(filepath.Join(venv, venvPipConfig), []byte(text), 0o600)
}

// renameInVenv replaces the folder name from by to in every text file of the
// virtual environment that holds its own path: its settings, its activation
// scripts and the first lines of its programs. A name that is not longer than
// the old one keeps those first lines within what the system can run.
func renameInVenv(venv, from, to string) error {
	files := []string{filepath.Join(venv, "pyvenv.cfg")}
	entries, err := os.ReadDir(venvPrograms(venv))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			files = append(files, filepath.Join(venvPrograms(venv), entry.Name()))
		}
	}
	for _, file := range files {
		if err := replaceInFile(file, []byte(from), []byte(to)); err != nil {
			return err
		}
	}
	return nil
}

// replaceInFile writes a new file rather than into the old one, which may be
// a hard link to one in an installer's cache.
func replaceInFile(path string, from, to []byte) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() > venvTextLimit {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data, from) {
		return err
	}
	fresh := path + ".new"
	err = writeUnshared(fresh, bytes.ReplaceAll(data, from, to))
	if err == nil {
		err = os.Chmod(fresh, info.Mode().Perm())
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	return err
}

// writeUnshared writes a file while no child is being started: one that still
// held it open for writing would keep others from running it.
func writeUnshared(path string, data []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, data, 0o600)
}

// removeFolder removes path and all in it, also where folders in it may not be
// written to. A link is removed, not what it points to.
func removeFolder(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		_ = os.Chmod(path, 0o700)
		openFolders(path)
	}
	return os.RemoveAll(path)
}

// openFolders lets this account write to every folder below path, as far as
// they are its own.
func openFolders(path string) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_ = root.Chmod(filepath.FromSlash(name), 0o700)
		}
		return nil
	})
}
