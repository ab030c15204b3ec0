package main

import (
	"errors"
	"fmt"
	"os"
)

// makeDataFolder makes the data folder when there is none, and sees to it
// that no other account can enter it. A link to a folder is followed. A
// folder of another account is refused; one of ours that is too open is
// closed, except that root may keep a 0711 that somebody chose: it lets other
// accounts through, and shows them nothing.
func makeDataFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return problemf(kindInternal, "The data folder %s cannot be made.", dir).because(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return problemf(kindInternal, "The data folder %s cannot be read.", dir).because(err)
	}
	if owner, ours := ownership(dir, info); !ours {
		return problemf(kindForbidden, "The data folder %s belongs to %s, who is not running this: "+
			"run it as that account, or choose another folder with AGENT_RUNTIME_RUNTIME_DIR.", dir, owner)
	}
	if info.Mode().Perm() == 0o711 && runsAsRoot() {
		return nil
	}
	if err := tighten(dir, info); err != nil {
		return problemf(kindInternal, "The data folder %s cannot be closed to other accounts.", dir).because(err)
	}
	return nil
}

// makePrivateFolder makes the folder dir, whose parent exists and may be open
// to all, with mode 0700; or checks that the one there is a folder, no link,
// and ours, and closes it.
func makePrivateFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make private folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("check private folder: %w", err)
	}
	if !info.IsDir() {
		return problemf(kindForbidden, "%s is not a folder: remove it, a private folder is needed there.", dir)
	}
	if owner, ours := ownership(dir, info); !ours {
		return problemf(kindForbidden, "%s belongs to %s, who is not running this: remove it, "+
			"a private folder is needed there.", dir, owner)
	}
	return tighten(dir, info)
}
