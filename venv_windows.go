package main

import (
	"path/filepath"
)

const (
	// venvsMove says that a virtual environment works elsewhere once the
	// paths in its text files are rewritten. Here they are in programs too.
	venvsMove = false

	// venvPipConfig is pip's settings file of one environment.
	venvPipConfig = "pip.ini"
)

// venvPrograms is the folder of a virtual environment's programs.
func venvPrograms(venv string) string { return filepath.Join(venv, "Scripts") }

// venvPython is a virtual environment's interpreter.
func venvPython(venv string) string { return filepath.Join(venv, "Scripts", "python.exe") }

// outgrown reports whether the interpreter has become another version than
// the one its packages are for. Versions have folders of their own here.
func outgrown(string) bool { return false }
