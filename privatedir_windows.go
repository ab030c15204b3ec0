package main

import "os"

// ownership finds every file to be ours: this system keeps other accounts out
// of a person's profile, where the data folder and temporary files are.
func ownership(os.FileInfo) (owner string, ours bool) { return "", true }

func runsAsRoot() bool { return false }

// tighten has nothing to do: a mode here does not say who may use a folder.
func tighten(string, os.FileInfo) error { return nil }

// openToOthers finds nothing to be open, for the same reason.
func openToOthers(os.FileInfo) bool { return false }
