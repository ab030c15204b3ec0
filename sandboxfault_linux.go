package main

import "fmt"

// What may be missing on a Linux machine, besides what bubblewrap says itself.

func faultMachine(goarch string) *isolationFault {
	return &isolationFault{"platform", "there is no system-call filter for " + goarch + " processors",
		"Use a computer with an amd64 or arm64 processor"}
}

func faultMissing(program, pkg string) *isolationFault {
	return &isolationFault{program + "_missing", program + " is not installed", "Install it: " + installHint(pkg)}
}

func faultSetuid(path string) *isolationFault {
	return &isolationFault{"bwrap_setuid", path + " is installed set-user-id, which lacks what is needed",
		"Remove that bit: sudo chmod u-s " + path}
}

func faultOld(version string) *isolationFault {
	return &isolationFault{"bwrap_old", "bubblewrap is too old (" + visible(version) + ")",
		"Install bubblewrap 0.8 or newer"}
}

func faultView(err error) *isolationFault {
	return &isolationFault{"root_limited",
		fmt.Sprintf("root may not give commands a view of their own here (%v)", err),
		"Run the runtime as an ordinary user"}
}

// faultOwner is for a root that is none: one in a user namespace, as containers
// without privileges have it, where other users may not exist.
func faultOwner(uid int) *isolationFault {
	return &isolationFault{"root_limited",
		fmt.Sprintf("root may not give folders to user %d here (sandbox.uid)", uid),
		"Run the runtime as an ordinary user"}
}

func faultUID() *isolationFault {
	return &isolationFault{"uid", "sandbox.uid is 0, and commands never run as root",
		"Set sandbox.uid in config.toml to an unprivileged user's number"}
}

func faultRuntimeDir(dir string) *isolationFault {
	return &isolationFault{"runtime_dirs", "sandbox.runtime_dirs would show all of " + visible(dir) + " to commands",
		"Name a folder in config.toml that holds one runtime and nothing else"}
}
