//go:build unix

package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// ownership tells in words who owns the file that info is about, and whether
// that is the account that this program runs as.
func ownership(_ string, info os.FileInfo) (owner string, ours bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "an unknown account", false
	}
	id := strconv.FormatUint(uint64(stat.Uid), 10)
	if int(stat.Uid) == os.Geteuid() {
		return id, true
	}
	if account, err := user.LookupId(id); err == nil {
		return fmt.Sprintf("the account %q", account.Username), false
	}
	return "the account number " + id, false
}

func runsAsRoot() bool { return os.Geteuid() == 0 }

// tighten gives the folder dir, of which info tells, the mode 0700.
func tighten(dir string, info os.FileInfo) error {
	const own = 0o700
	if info.Mode().Perm() == own {
		return nil
	}
	return os.Chmod(dir, own)
}

// openToOthers reports whether other accounts can read or write what info is
// about, if they come to it.
func openToOthers(info os.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }
