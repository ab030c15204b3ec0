package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestLookPathFindsOnlyProgramsInFullFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"first", "second", "relative"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	put := func(path string, mode os.FileMode) string {
		path = filepath.Join(dir, path)
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	both := put("first/both", 0o700)
	put("second/both", 0o700)
	put("first/later", 0o600)
	later := put("second/later", 0o700)
	put("second/plain", 0o600)
	put("relative/hidden", 0o700)
	if err := os.Mkdir(filepath.Join(dir, "first", "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, filepath.Join(dir, "relative"))
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=/nothing", "PATH=" + relative + "::.:" + dir + "/first:" + dir + "/second"}
	for _, c := range []struct {
		name, want string
		err        error
	}{
		{"both", both, nil},
		{"later", later, nil},
		{"plain", "", fs.ErrPermission},
		{"hidden", "", exec.ErrNotFound},
		{"folder", "", exec.ErrNotFound},
		{"missing", "", exec.ErrNotFound},
		{"", "", exec.ErrNotFound},
		{".", "", exec.ErrNotFound},
		{"..", "", exec.ErrNotFound},
		{"../first/both", "", exec.ErrNotFound},
		{"a\x00b", "", exec.ErrNotFound},
	} {
		got, err := lookPath(c.name, env)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("lookPath(%q) = %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
	if _, err := lookPath("both", nil); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("lookPath without a PATH = %v, want exec.ErrNotFound", err)
	}
}
