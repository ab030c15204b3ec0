package main

import (
	"context"
	"strings"
)

// installHint is the command that installs pkg, named as Debian names it, on
// this machine.
func installHint(pkg string) string {
	switch {
	case pkg == "git":
		return "winget install Git.Git"
	case strings.HasPrefix(pkg, "python3"):
		return "winget install Python.Python.3.13"
	}
	return "winget install " + pkg
}

// isSystemStub reports whether path only offers to install the tool it is
// named after. Here such a program answers by failing, so nothing needs to be
// known of it beforehand.
func isSystemStub(context.Context, *processes, string) bool { return false }
