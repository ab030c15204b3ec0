package main

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Folders of a sandbox, within its own.
const (
	workspaceFolder = "workspace"
	scratchFolder   = "scratch" // what is /tmp and /dev/shm inside, emptied after every exec
	tmpFolder       = "scratch/tmp"
	shmFolder       = "scratch/shm"
	snapshotsFolder = "snapshots"
)

// Why an exec was ended before its command was through.
const (
	endedByTime      = "time"
	endedByMemory    = "memory"
	endedByDisk      = "disk"
	endedByProcesses = "processes"
)

// sandboxCommand is one command to run in a sandbox.
type sandboxCommand struct {
	folder  string // the sandbox's
	argv    []string
	timeout time.Duration
	used    treeSize // by workspace and scratch
	deep    bool     // the workspace has too many levels
	quota   treeSize // for both
	keys    *folderKeys
}

// sandboxResult is how a command ended, whatever its own status.
type sandboxResult struct {
	status         int
	stdout, stderr string
	truncated      bool // an output was longer than what is kept
	duration       time.Duration
	limit          string // what ended it, see above; "" when it ended by itself
}

// makeSandboxFolders makes the folders within a sandbox's own. Where commands
// run as another user, that user may pass through the sandbox's folder and owns
// what it works in, and nothing else.
func makeSandboxFolders(folder string, who *owner) error {
	folders := []string{workspaceFolder, scratchFolder, tmpFolder, shmFolder}
	for _, name := range folders {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			return err
		}
	}
	if who == nil {
		return nil
	}
	for _, name := range folders {
		if err := os.Chown(filepath.Join(folder, name), who.uid, who.gid); err != nil {
			return err
		}
	}
	return errors.Join(os.Chown(folder, 0, who.gid), os.Chmod(folder, 0o710))
}
