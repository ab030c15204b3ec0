package main

import (
	"path/filepath"
	"strings"
)

// programFiles returns the names of files that hold the program name: with
// each extension that the system takes for a program's.
func programFiles(name string, env []string) []string {
	list, _ := variable(env, "PATHEXT")
	if list == "" {
		list = ".COM;.EXE;.BAT;.CMD"
	}
	var files []string
	for ext := range strings.SplitSeq(list, ";") {
		if ext == "" {
			continue
		}
		if strings.EqualFold(filepath.Ext(name), ext) {
			return []string{name}
		}
		files = append(files, name+strings.ToLower(ext))
	}
	return files
}

func mayExecute(string) bool { return true }
