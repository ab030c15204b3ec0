package main

import (
	"context"
	"os/exec"
	"strings"
)

// installHint is the command that installs pkg, named as Debian names it, on
// this machine.
func installHint(pkg string) string {
	switch {
	case pkg == "git":
		return "xcode-select --install"
	case strings.HasPrefix(pkg, "python3"):
		return "xcode-select --install (or brew install python3)"
	}
	return "brew install " + pkg
}

// isSystemStub reports whether path only offers to install the tool it is
// named after: those in /usr/bin open a window when Apple's command line
// tools are missing, so that is asked first.
func isSystemStub(ctx context.Context, ps *processes, path string) bool {
	if !strings.HasPrefix(path, "/usr/bin/") {
		return false
	}
	return ps.run(exec.CommandContext(ctx, "/usr/bin/xcode-select", "-p")) != nil
}
