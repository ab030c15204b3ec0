package main

import (
	"slices"
	"strings"
)

// droppedVariables point a Python at modules, folders or settings other than
// its own environment's, or make one that should end ask for more to do,
// wherever the person's shell got them from. Settings
// of the package index, of proxies and of certificates are kept.
var droppedVariables = []string{
	"PYTHONHOME", "PYTHONPATH", "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR", "PYTHONINSPECT", "__PYVENV_LAUNCHER__",
	"VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT",
	"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON",
}

// droppedPrefixes start the names of more of them, and of what is this
// program's own and may be secret.
var droppedPrefixes = []string{"AGENT_RUNTIME_", "CONDA_", "_CONDA_", "_CE_"}

// condaLibraries are set for a conda environment that is active, and are the
// person's own otherwise.
var condaLibraries = []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}

// cleanEnvironment returns environ without what would lead a Python astray,
// and with installs for the user alone switched off: they fail inside a
// virtual environment.
func cleanEnvironment(environ []string) []string {
	_, conda := variable(environ, "CONDA_PREFIX")
	kept := make([]string, 0, len(environ)+8)
	for _, entry := range environ {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || isDropped(name, conda) {
			continue
		}
		kept = append(kept, entry)
	}
	return append(kept, "PIP_USER=0")
}

func isDropped(name string, conda bool) bool {
	for _, dropped := range droppedVariables {
		if sameVariable(name, dropped) {
			return true
		}
	}
	for _, prefix := range droppedPrefixes {
		if len(name) >= len(prefix) && sameVariable(name[:len(prefix)], prefix) {
			return true
		}
	}
	for _, library := range condaLibraries {
		if conda && sameVariable(name, library) {
			return true
		}
	}
	return false
}

// childEnvironment is what the actions and kernels of a lab get of environ,
// the variables of this program: all but what leads a Python astray, with the
// virtual environment venv first on PATH. Output goes to a page that shows it
// live and in colour, so Python is told not to hold it back and programs are
// told to colour it, unless the person chose otherwise. With venv "" there is
// no virtual environment.
func childEnvironment(environ []string, venv string) []string {
	env := cleanEnvironment(environ)
	if venv != "" {
		path := venvPrograms(venv)
		if old, _ := variable(env, "PATH"); old != "" {
			path += string(listSeparator) + old
		}
		env = setVariable(env, "PATH", path)
		env = setVariable(env, "VIRTUAL_ENV", venv)
	}
	env = setUnlessPresent(env, "PYTHONUNBUFFERED", "1")
	for _, v := range systemVariables {
		env = setVariable(env, v.name, v.value)
	}
	if !wantsPlain(env) {
		env = setUnlessPresent(env, "FORCE_COLOR", "1")
		env = setUnlessPresent(env, "CLICOLOR_FORCE", "1")
	}
	if term, _ := variable(env, "TERM"); term == "" || term == "dumb" {
		env = setVariable(env, "TERM", "xterm-256color")
	}
	return env
}

// wantsPlain reports whether the person asked for output without colour.
func wantsPlain(env []string) bool {
	if v, _ := variable(env, "NO_COLOR"); v != "" {
		return true
	}
	for _, name := range []string{"FORCE_COLOR", "CLICOLOR_FORCE"} {
		if v, _ := variable(env, name); v == "0" || v == "false" {
			return true
		}
	}
	return false
}

// variable returns the value of a variable in env. The last entry counts, as
// it does when a child is started.
func variable(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if n, v, found := strings.Cut(entry, "="); found && sameVariable(n, name) {
			value, ok = v, true
		}
	}
	return value, ok
}

// setVariable returns env with name set once. It may reuse env's memory.
func setVariable(env []string, name, value string) []string {
	kept := env[:0]
	for _, entry := range env {
		if n, _, _ := strings.Cut(entry, "="); !sameVariable(n, name) {
			kept = append(kept, entry)
		}
	}
	return append(kept, name+"="+value)
}

// inFolder returns env for a program that starts in dir, which it must be told
// about in PWD as well: some look there before they ask the system. The folder
// that this program was started in, and the one before, are nobody's business.
func inFolder(env []string, dir string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return sameVariable(name, "OLDPWD")
	})
	return setVariable(env, "PWD", dir)
}

func setUnlessPresent(env []string, name, value string) []string {
	if _, ok := variable(env, name); ok {
		return env
	}
	return append(env, name+"="+value)
}
