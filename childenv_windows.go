package main

import "strings"

const listSeparator = ';' // between the folders of PATH

// systemVariables are set for every child on this system. Python writes to a
// pipe in the system's code page unless told otherwise, and pages read UTF-8.
var systemVariables = []struct{ name, value string }{{"PYTHONUTF8", "1"}}

// sameVariable reports whether two names stand for one variable.
func sameVariable(a, b string) bool { return strings.EqualFold(a, b) }
