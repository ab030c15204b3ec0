package main

import (
	"context"
	"os"
)

// installHint is the command that installs pkg, named as Debian names it, on
// this machine.
func installHint(pkg string) string {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if data, err := os.ReadFile(path); err == nil {
			return linuxHint(string(data), pkg)
		}
	}
	return linuxHint("", pkg)
}

// isSystemStub reports whether path only offers to install the tool it is
// named after. This system has no such programs.
func isSystemStub(context.Context, *processes, string) bool { return false }
