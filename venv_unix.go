//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
)

const (
	// venvsMove says that a virtual environment works elsewhere once the
	// paths in its text files are rewritten.
	venvsMove = true

	// venvPipConfig is pip's settings file of one environment.
	venvPipConfig = "pip.conf"
)

// venvPrograms is the folder of a virtual environment's programs.
func venvPrograms(venv string) string { return filepath.Join(venv, "bin") }

// venvPython is a virtual environment's interpreter.
func venvPython(venv string) string { return filepath.Join(venv, "bin", "python") }

// versionedPython matches the name of an interpreter that tells its version.
var versionedPython = regexp.MustCompile(`^python3\.[0-9]+$`)

// outgrown reports whether the interpreter that venv links to has become
// another version than the one its packages are for, as happens when the
// system's Python is updated.
func outgrown(venv string) bool {
	real, err := filepath.EvalSymlinks(venvPython(venv))
	if err != nil || !versionedPython.MatchString(filepath.Base(real)) {
		return false
	}
	_, err = os.Stat(filepath.Join(venv, "lib", filepath.Base(real)))
	return os.IsNotExist(err)
}
