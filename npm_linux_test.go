package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// npmFolder is where the programs from npm are that the tests run; node finds
// them for a script in it.
func npmFolder(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("testdata", "npm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("this test needs node: sudo apt-get install nodejs npm")
	}
	if _, err := os.Stat(filepath.Join(folder, "node_modules")); err != nil {
		t.Skip("this test needs packages of npm: npm ci --prefix testdata/npm --ignore-scripts")
	}
	return folder
}
