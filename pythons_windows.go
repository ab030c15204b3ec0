package main

import "strconv"

// defaultPythons returns what to start for the machine's usual Python. Any of
// them may be a stub that only offers the store, so each is tried in turn.
func defaultPythons(env []string) [][]string {
	var all [][]string
	for _, argv := range [][]string{{"py", "-3"}, {"python"}, {"python3"}} {
		if path, err := lookPath(argv[0], env); err == nil {
			all = append(all, append([]string{path}, argv[1:]...))
		}
	}
	return all
}

// versionPythons returns what may be a Python of that version.
func versionPythons(major, minor int, env []string) [][]string {
	path, err := lookPath("py", env)
	if err != nil {
		return nil
	}
	return [][]string{{path, "-" + strconv.Itoa(major) + "." + strconv.Itoa(minor)}}
}
