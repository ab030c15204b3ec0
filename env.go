package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const (
	envPrefix = "lab-" // before the id in the name of an environment's folder

	// venvName is the virtual environment in an environment's folder. Shells
	// show it in the prompt when it is activated.
	venvName = ".venv"

	// unfinishedName marks the folder of an environment that is made in its
	// place. Its maker holds the lock of this file.
	unfinishedName = ".unfinished"

	// makingPrefix and gonePrefix start the names of folders that are not
	// environments yet, and no longer.
	makingPrefix = ".making-"
	gonePrefix   = ".gone-"

	// createSlots is how many are made at once: each keeps a core busy.
	createSlots = 4
)

// environments are the virtual environments of labs, each in a folder of its
// own. One is seen only when it is whole: where environments can be moved it
// is made in a spare place and renamed, and elsewhere a marker stands beside
// it until it is ready.
type environments struct {
	dir                string
	systemSitePackages bool
	inPlace            bool     // environments cannot be moved
	environ            []string // what tools get: this program's variables, cleaned
	ps                 *processes
	log                *slog.Logger
	pythons            *pythons
	making             *flights[bool]
	stop               context.CancelCauseFunc
	slots              chan struct{} // holds a value for each environment being made

	// placing is held while an environment's folder is moved into its place
	// or out of it.
	placing sync.Mutex
}

// newEnvironments returns the environments in the data folder dir, a full
// path. Nothing is made there before the first environment. The owner calls
// close at the end.
func newEnvironments(dir string, cfg config, ps *processes, log *slog.Logger) *environments {
	base, stop := context.WithCancelCause(context.Background())
	environ := cleanEnvironment(os.Environ())
	return &environments{
		dir:                filepath.Join(dir, "envs"),
		systemSitePackages: cfg.systemSitePackages,
		inPlace:            !venvsMove,
		environ:            environ,
		ps:                 ps,
		log:                log,
		pythons:            newPythons(ps, environ, cfg.python),
		making:             newFlights[bool](base),
		stop:               stop,
		slots:              make(chan struct{}, createSlots),
	}
}

// close ends the making of environments and waits until nothing half-made is
// left. Spares are their owners' to discard.
func (e *environments) close() {
	e.stop(problemf(kindNoCapacity, "The program is shutting down."))
	e.making.wait()
}

func checkEnvironmentID(id string) error {
	if labIDPattern.MatchString(id) {
		return nil
	}
	return problemf(kindInvalid, "The environment name %s is not valid: it must be 1 to 64 letters, digits, "+
		"dots, underscores or dashes, and start with a letter or digit.", visible(id))
}

// folder is where the environment id lives. id must be valid.
func (e *environments) folder(id string) string { return filepath.Join(e.dir, envPrefix+id) }

// path is the virtual environment of id, ready or not; "" when id is not valid.
func (e *environments) path(id string) string {
	if !labIDPattern.MatchString(id) {
		return ""
	}
	return filepath.Join(e.folder(id), venvName)
}

// python is the interpreter of the environment id; "" when id is not valid.
func (e *environments) python(id string) string {
	if !labIDPattern.MatchString(id) {
		return ""
	}
	return venvPython(e.path(id))
}

// findPython returns the path of an interpreter of a version such as "3.11",
// for create. When there is none, the problem lists those that there are.
func (e *environments) findPython(ctx context.Context, version string) (string, error) {
	found, err := e.pythons.find(ctx, version)
	return found.path, err
}

// ready reports whether the environment id can be used. It runs nothing.
func (e *environments) ready(id string) bool { return e.fault(id) == "" }

// broken reports whether there is an environment id that cannot be used, such
// as one whose interpreter was removed with the system's old Python. create
// then makes it anew.
func (e *environments) broken(id string) bool {
	if e.ready(id) || !e.exists(id) {
		return false
	}
	_, err := os.Lstat(e.path(id))
	return err == nil
}

// fault says why the environment id cannot be used; "" when it can.
func (e *environments) fault(id string) string {
	if !e.exists(id) {
		return "there is none"
	}
	if _, err := os.Lstat(filepath.Join(e.folder(id), unfinishedName)); err == nil {
		return "it is not finished"
	}
	return venvFault(e.path(id))
}

// exists reports whether id has a folder of exactly that name. A disk that
// does not tell a from A gives another id's folder too.
func (e *environments) exists(id string) bool {
	if !labIDPattern.MatchString(id) {
		return false
	}
	if _, err := os.Lstat(e.folder(id)); err != nil {
		return false
	}
	entries, err := os.ReadDir(e.dir)
	return err == nil && listed(entries, envPrefix+id)
}

func listed(entries []fs.DirEntry, name string) bool {
	return slices.ContainsFunc(entries, func(entry fs.DirEntry) bool { return entry.Name() == name })
}

// remove removes the environment id and all that is installed in it. The
// caller sees to it that nothing runs in it.
func (e *environments) remove(id string) error {
	if err := checkEnvironmentID(id); err != nil {
		return err
	}
	gone, err := e.takeAway(id)
	if err != nil {
		return err
	}
	if err := removeFolder(gone); err != nil {
		return fmt.Errorf("remove environment: %w", err)
	}
	return nil
}

// takeAway moves the folder of id out of its place, so that it is gone at
// once and whole.
func (e *environments) takeAway(id string) (gone string, err error) {
	e.placing.Lock()
	defer e.placing.Unlock()
	if !e.exists(id) {
		return "", problemf(kindNotFound, "There is no environment %s.", id)
	}
	return e.moveAside(e.folder(id))
}

// moveAside renames path to a new name that is swept at the next start.
func (e *environments) moveAside(path string) (gone string, err error) {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		_ = os.Chmod(path, 0o700) // a folder that is moved to another must be writable
	}
	gone = filepath.Join(e.dir, gonePrefix+rand.Text())
	if err := os.Rename(path, gone); err != nil {
		return "", problemf(kindConflict, "The environment's folder cannot be moved: close the programs that use it, "+
			"then try again.").because(err)
	}
	return gone, nil
}

// environment is one entry of a list.
type environment struct {
	id     string
	python string // version; "" when it does not say
	ready  bool
}

// list returns the environments in order of their ids. It runs nothing.
func (e *environments) list() ([]environment, error) {
	entries, err := os.ReadDir(e.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list environments: %w", err)
	}
	var all []environment
	for _, entry := range entries {
		id, ok := strings.CutPrefix(entry.Name(), envPrefix)
		if !ok || !labIDPattern.MatchString(id) {
			continue
		}
		if _, err := os.Lstat(e.path(id)); err == nil {
			all = append(all, environment{id: id, python: venvVersion(e.path(id)), ready: e.ready(id)})
		}
	}
	slices.SortFunc(all, func(a, b environment) int { return strings.Compare(a.id, b.id) })
	return all, nil
}

// sweep removes what a program that was killed left half-made or half-removed.
// What another running program is making is left alone.
func (e *environments) sweep() {
	entries, _ := os.ReadDir(e.dir)
	for _, entry := range entries {
		path := filepath.Join(e.dir, entry.Name())
		var err error
		switch name := entry.Name(); {
		case strings.HasPrefix(name, gonePrefix):
			err = removeFolder(path)
		case strings.HasPrefix(name, makingPrefix):
			_, err = sweepAbandoned(filepath.Join(path, unfinishedName), path)
		case strings.HasPrefix(name, envPrefix):
			err = sweepUnfinished(path)
		}
		if err != nil {
			e.log.Warn("environment not swept", "folder", entry.Name(), "error", err)
		}
	}
}

// sweepUnfinished removes the environment in folder if it was being made in
// its place, and folder with it when that leaves it empty.
func sweepUnfinished(folder string) error {
	mark := filepath.Join(folder, unfinishedName)
	if _, err := os.Lstat(mark); err != nil {
		return nil
	}
	swept, err := sweepAbandoned(mark, filepath.Join(folder, venvName))
	if swept {
		_ = os.Remove(mark)
		_ = os.Remove(folder) // only if it is empty
	}
	return err
}

// sweepAbandoned removes path unless its maker still holds the lock of mark.
func sweepAbandoned(mark, path string) (swept bool, err error) {
	unlock, err := lockFile(mark, 0)
	if errors.Is(err, errLocked) {
		return false, nil
	}
	if err == nil {
		unlock()
	}
	err = removeFolder(path)
	return err == nil, err
}
