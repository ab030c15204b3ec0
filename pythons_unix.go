//go:build unix

package main

import "strconv"

// defaultPythons returns what to start for the machine's usual Python: the
// first python3 on PATH decides, as it does in a shell.
func defaultPythons(env []string) [][]string {
	for _, name := range []string{"python3", "python"} {
		if path, err := lookPath(name, env); err == nil {
			return [][]string{{path}}
		}
	}
	return nil
}

// versionPythons returns what may be a Python of that version.
func versionPythons(major, minor int, env []string) [][]string {
	found, _ := programsOnPath("python"+strconv.Itoa(major)+"."+strconv.Itoa(minor), env)
	var all [][]string
	for _, path := range found {
		all = append(all, []string{path})
	}
	return all
}
