//go:build unix

package main

const listSeparator = ':' // between the folders of PATH

// systemVariables are set for every child on this system.
var systemVariables []struct{ name, value string }

// sameVariable reports whether two names stand for one variable.
func sameVariable(a, b string) bool { return a == b }
