package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
)

const (
	// socketPathLimit is the length in bytes of the longest path of a Unix
	// socket on the strictest of the systems (macOS: 104 with its NUL).
	socketPathLimit = 103

	// socketNameLimit is the length in bytes of the longest name that a
	// socket in the folder of socketFolder may have.
	socketNameLimit = 38
)

// socketFolder makes, when needed, and returns the private folder for the
// Unix sockets of the runtime whose data folder is dir. It is the same for
// every process of the same account: the subfolder run of the data folder, or
// a folder among the temporary files when that path is too long for a socket.
func socketFolder(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(dir, "run")
	if !fitsSocket(folder) {
		sum := sha256.Sum256([]byte(dir))
		folder = filepath.Join(os.TempDir(), "ar-"+hex.EncodeToString(sum[:6]))
	}
	if !fitsSocket(folder) {
		return "", problemf(kindInternal, "The folders %s and %s have too long a name for a socket: "+
			"choose a data folder with a shorter path.", dir, os.TempDir())
	}
	return folder, makePrivateFolder(folder)
}

// fitsSocket reports whether a socket with the longest name fits into folder.
func fitsSocket(folder string) bool {
	return len(folder)+len("/")+socketNameLimit <= socketPathLimit
}
