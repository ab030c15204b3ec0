package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestModifiedListsEveryKindOfChange(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, _ := s.addRepo("lab", nil)
	var files []gitServerFile
	for _, path := range []string{"bytes", "same", "gone", "mode", "pipe", "folder", "linked", "dir/inner", "dir2/inner", "longer", "empty"} {
		files = append(files, gitServerFile{path: path, data: "data of a file\n"})
	}
	files = append(files,
		gitServerFile{path: "lab.toml", data: testManifest},
		gitServerFile{path: "program", mode: "100755", data: "#!/bin/sh\n"},
		gitServerFile{path: "link", mode: "120000", data: "same"},
		gitServerFile{path: "link2", mode: "120000", data: "same"},
		gitServerFile{path: "link3", mode: "120000", data: "same"})
	commit := s.commitFiles("lab", files)
	f := newTestFetcher(t, s)
	_, dst := newDst(t)
	tree := mustFetch(t, f, testSource(t, url, commit), dst)
	at := func(name string) string { return filepath.Join(dst, name) }
	writeFile(t, at("bytes"), "data of A file\n", 0o600)
	writeFile(t, at("longer"), "data of a file\n\n", 0o600)
	writeFile(t, at("empty"), "", 0o600)
	writeFile(t, at("learner's own"), "x", 0o600)
	err := errors.Join(
		os.Remove(at("gone")), os.Chmod(at("mode"), 0o700), os.Chmod(at("program"), 0o600),
		os.Remove(at("pipe")), makePipe(at("pipe")),
		os.Remove(at("folder")), os.Mkdir(at("folder"), 0o700),
		os.Remove(at("linked")), os.Symlink("same", at("linked")),
		os.Rename(at("dir"), at("moved")), os.Symlink("moved", at("dir")),
		os.Remove(at("link2")), os.Symlink("other", at("link2")),
		os.Remove(at("link3")), os.WriteFile(at("link3"), []byte("same"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	got := strings.Join(tree.modified(dst), " ")
	if want := "bytes dir/inner empty folder gone link2 link3 linked longer mode pipe program"; got != want {
		t.Errorf("modified = %q, want %q", got, want)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	removeAll(t, dst)
	if got := tree.modified(dst); len(got) != len(tree.files) {
		t.Errorf("modified without a folder = %q, want all", got)
	}
}

func TestModifiedDoesNotReadUnchangedFilesAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree := &commitTree{clean: make(map[string]fileStamp)}
	for i := range 1000 {
		name := fmt.Sprintf("%03d", i)
		writeFile(t, filepath.Join(dir, name), name, 0o600)
		tree.files = append(tree.files, treeFile{name, modeFile, hashObject("blob", []byte(name))})
	}
	deadline := time.Now().Add(30 * time.Second)
	for len(tree.clean) < len(tree.files) {
		if modified := tree.modified(dir); len(modified) > 0 || time.Now().After(deadline) {
			t.Fatalf("modified = %q; %d of %d files are known", modified, len(tree.clean), len(tree.files))
		}
	}
	start := time.Now()
	tree.modified(dir)
	t.Logf("second look at 1000 files: %v", time.Since(start))
	changed := filepath.Join(dir, "500")
	info, err := os.Stat(changed)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, changed, "5x0", 0o600)
	if err := os.Chtimes(changed, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if modified := tree.modified(dir); len(modified) != 1 || modified[0] != "500" {
		t.Errorf("modified after a change that kept size and time = %q, want 500", modified)
	}
}

func TestFileIsNotTrustedBeforeItsClockHasMovedOn(t *testing.T) {
	t.Parallel()
	read := time.Unix(1000, 500_000_000)
	for _, test := range []struct {
		name  string
		ctime time.Time
		want  bool
	}{
		{"same tick", read, false},
		{"just before", read.Add(-time.Millisecond), false},
		{"future", read.Add(time.Hour), false},
		{"long before", read.Add(-time.Second), true},
		{"whole seconds, just before", time.Unix(999, 0), false},
		{"whole seconds, long before", time.Unix(990, 0), true},
	} {
		stamp := fileStamp{mtime: time.Unix(900, 0).UnixNano(), ctime: test.ctime.UnixNano()}
		if got := stamp.settled(read); got != test.want {
			t.Errorf("%s: settled = %v, want %v", test.name, got, test.want)
		}
	}
}

func TestDiskThatTellsCaseIsNotTakenForOneThatFoldsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := os.Lstat(strings.ToUpper(dir))
	if got, want := foldsCase(dir), err == nil; got != want {
		t.Errorf("foldsCase = %v, want %v", got, want)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}
