package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// lookPath finds the program that a child with the variables env would get
// for name, which has no slash. Only absolute folders of PATH count: a
// relative one would mean another program in every folder. The error is a
// problem that wraps exec.ErrNotFound, or fs.ErrPermission when the only file
// of that name may not be executed.
func lookPath(name string, env []string) (string, error) {
	found, refused := programsOnPath(name, env)
	switch {
	case len(found) > 0:
		return found[0], nil
	case refused != "":
		return "", problemf(kindMissingTool, "%s may not be executed: it has no permission for it.", visible(refused)).because(fs.ErrPermission)
	}
	return "", problemf(kindMissingTool, "%s was not found on PATH.", visible(name)).because(exec.ErrNotFound)
}

// programsOnPath returns every program of that name on the PATH in env, in
// order, and the first file that has the name but may not be executed.
func programsOnPath(name string, env []string) (found []string, refused string) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"+string(filepath.Separator)) {
		return nil, ""
	}
	path, _ := variable(env, "PATH")
	for dir := range strings.SplitSeq(path, string(listSeparator)) {
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, file := range programFiles(name, env) {
			candidate := filepath.Join(dir, file)
			info, err := os.Stat(candidate)
			switch {
			case err != nil || !info.Mode().IsRegular():
			case mayExecute(candidate):
				found = append(found, candidate)
			case refused == "":
				refused = candidate
			}
		}
	}
	return found, refused
}
