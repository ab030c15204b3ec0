package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestManifestMustBeARegularSmallFile(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, other := s.addRepo("lab", map[string]string{"x": "x"})
	outside := writeFile(t, filepath.Join(t.TempDir(), "lab.toml"), testManifest, 0o600)
	f := newTestFetcher(t, s)
	for _, test := range []struct {
		files []gitServerFile
		want  string
	}{
		{[]gitServerFile{{path: "lab.toml", mode: "120000", data: outside}}, "is a link"},
		{[]gitServerFile{{path: "lab.toml", mode: "120000", data: "lab.toml"}}, "is a link"},
		{[]gitServerFile{{path: "lab.toml/x", data: testManifest}, {path: "lab.toml.bak", data: "x"}}, "is a folder"},
		{[]gitServerFile{{path: "lab.toml", mode: "160000", data: other}}, "is a submodule"},
		{[]gitServerFile{{path: "lab.toml", data: strings.Repeat("#", manifestLimit+1)}}, "at most 256 KiB"},
	} {
		commit := s.commitFiles("lab", test.files)
		told := wantFailure(t, f, testSource(t, url, commit), kindUnacceptable)
		wantWords(t, told, "lab.toml", test.want)
	}
}

func TestManifestIsThatOfTheCommit(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, none := s.addRepo("lab", map[string]string{"LAB.toml": "x", "sub/lab.toml": "x", "lab.toml.bak": "x"})
	empty := s.commit("lab", map[string]string{"lab.toml": ""})
	largest := s.commitFiles("lab", []gitServerFile{{path: "lab.toml", mode: "100755", data: strings.Repeat("#", manifestLimit)}})
	f := newTestFetcher(t, s)
	_, dst := newDst(t)
	if tree := mustFetch(t, f, testSource(t, url, none), dst); tree.manifest != nil {
		t.Errorf("manifest = %q, want none", tree.manifest)
	}
	_, dst = newDst(t)
	if tree := mustFetch(t, f, testSource(t, url, empty), dst); tree.manifest == nil || len(tree.manifest) > 0 {
		t.Errorf("manifest = %#v, want an empty one", tree.manifest)
	}
	_, dst = newDst(t)
	src := testSource(t, url, largest)
	if tree := mustFetch(t, f, src, dst); len(tree.manifest) != manifestLimit {
		t.Errorf("manifest has %d bytes, want %d", len(tree.manifest), manifestLimit)
	}
	writeFile(t, filepath.Join(dst, "lab.toml"), "changed", 0o700)
	tree, err := f.read(t.Context(), dst, src)
	if err != nil || len(tree.manifest) != manifestLimit {
		t.Errorf("read after a change in the checkout = %v", err)
	}
}

func TestHostileTreesAreRefusedBeforeTheCheckout(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, _ := s.addRepo("lab", map[string]string{"x": "x"})
	blob := s.addObject("lab", "blob", []byte("evil"))
	id, _ := parseObjectID(blob)
	tree := func(entries ...treeEntry) objectID {
		trees := testTrees{}
		root := trees.add(entries...)
		s.addObject("lab", "tree", trees[root])
		return root
	}
	bomb := tree(treeEntry{modeFile, "f", id})
	for range 12 {
		bomb = tree(treeEntry{modeFolder, "a", bomb}, treeEntry{modeFolder, "b", bomb}, treeEntry{modeFolder, "c", bomb})
	}
	hook := tree(treeEntry{modeProgram, "post-checkout", id})
	f := newTestFetcher(t, s)
	for want, root := range map[string]objectID{
		"more than 100000 files": bomb,
		`".git"`:                 tree(treeEntry{modeFolder, ".git", tree(treeEntry{modeFolder, "hooks", hook})}),
		`".GIT"`:                 tree(treeEntry{modeFolder, ".GIT", hook}),
		`".."`:                   tree(treeEntry{modeFolder, "..", hook}),
		"not as git writes it":   tree(treeEntry{modeFile, "a/b", id}),
	} {
		commit := s.commitTree("lab", root.String())
		wantWords(t, wantFailure(t, f, testSource(t, url, commit), kindUnacceptable), want)
	}
}

func TestDamagedCopyIsNoticed(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest, "data.txt": noise(5000)})
	src := testSource(t, url, commit)
	overwrite := func(pattern string, at int) func(*testing.T, string) {
		return func(t *testing.T, dst string) {
			paths, err := filepath.Glob(filepath.Join(dst, ".git", "objects", "pack", pattern))
			if err != nil || len(paths) != 1 {
				t.Fatalf("%s = %q, %v; want one", pattern, paths, err)
			}
			damage(t, paths[0], at)
		}
	}
	for name, harm := range map[string]func(*testing.T, string){
		"pack":          overwrite("*.pack", 2000),
		"pack's end":    overwrite("*.pack", -1),
		"index":         overwrite("*.idx", 1040),
		"pack is gone":  func(t *testing.T, dst string) { removeAll(t, filepath.Join(dst, ".git", "objects")) },
		"no repository": func(t *testing.T, dst string) { removeAll(t, filepath.Join(dst, ".git")) },
		"no head":       func(t *testing.T, dst string) { removeAll(t, filepath.Join(dst, ".git", "HEAD")) },
		"no folder":     func(t *testing.T, dst string) { removeAll(t, dst) },
		"a link": func(t *testing.T, dst string) {
			moved := filepath.Join(t.TempDir(), "moved")
			if err := errors.Join(os.Rename(filepath.Join(dst, ".git"), moved), os.Symlink(moved, filepath.Join(dst, ".git"))); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTestFetcher(t, s)
			_, dst := newDst(t)
			mustFetch(t, f, src, dst)
			harm(t, dst)
			if _, err := f.read(t.Context(), dst, src); !errors.Is(err, errDamagedLab) {
				t.Fatalf("read = %v, want %v", err, errDamagedLab)
			}
			removeAll(t, dst)
			mustFetch(t, f, src, dst)
		})
	}
}

func removeAll(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// damage changes one byte of a file; a negative place counts from its end.
func damage(t *testing.T, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[(at+len(data))%len(data)] ^= 0xff
	removeAll(t, path)
	writeFile(t, path, string(data), 0o400)
}

func TestObjectThatDoesNotHashToItsIDIsNoticed(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	src := testSource(t, url, commit)
	f := newTestFetcher(t, s)
	for name, object := range map[string]string{"manifest": commit + ":lab.toml", "tree": commit + "^{tree}", "commit": commit} {
		_, dst := newDst(t)
		mustFetch(t, f, src, dst)
		// Git does not hash what it reads: another object's file under this name passes.
		id := strings.TrimSpace(s.git("lab", nil, "rev-parse", object))
		forged := s.addObject("lab", map[string]string{"manifest": "blob", "tree": "tree", "commit": "commit"}[name], []byte{})
		forgery, err := os.ReadFile(filepath.Join(s.repoPath("lab"), "objects", forged[:2], forged[2:]))
		if err != nil {
			t.Fatal(err)
		}
		objects := filepath.Join(dst, ".git", "objects")
		removeAll(t, filepath.Join(objects, "pack"))
		unpackFrom(t, s.repoPath("lab"), objects)
		loose := filepath.Join(objects, id[:2], id[2:])
		removeAll(t, loose)
		writeFile(t, loose, string(forgery), 0o400)
		if _, err := f.read(t.Context(), dst, src); !errors.Is(err, errDamagedLab) {
			t.Errorf("read with a forged %s = %v, want %v", name, err, errDamagedLab)
		}
	}
}

// unpackFrom copies the objects of a repository, one file each, to a folder.
func unpackFrom(t *testing.T, repo, objects string) {
	t.Helper()
	packs, _ := filepath.Glob(filepath.Join(repo, "objects", "pack", "*.pack"))
	s := &gitServer{t: t, root: t.TempDir()}
	s.git("", nil, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--", "unpacked")
	for _, pack := range packs {
		file, err := os.Open(pack)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		s.git("unpacked", file, "unpack-objects", "-q")
	}
	for _, from := range []string{repo, s.repoPath("unpacked")} {
		loose, _ := filepath.Glob(filepath.Join(from, "objects", "??", "*"))
		for _, path := range loose {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(objects, filepath.Base(filepath.Dir(path)), filepath.Base(path))
			if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
				writeFile(t, to, string(data), 0o400)
			}
		}
	}
}

func TestCopyOfAnotherAccountIsNotRead(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	f := newTestFetcher(t, s)
	_, dst := newDst(t)
	src := testSource(t, url, commit)
	mustFetch(t, f, src, dst)
	if err := os.Chown(filepath.Join(dst, ".git"), 4242, 4242); err != nil {
		t.Fatal(err)
	}
	_, err := f.read(t.Context(), dst, src)
	if !errors.Is(err, errDamagedLab) || !strings.Contains(err.Error(), "4242") {
		t.Errorf("read = %v, want %v with the owner", err, errDamagedLab)
	}
}

func TestRepositoryAroundTheDataFolderIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	outer := t.TempDir()
	s.git("", nil, "init", "--quiet", "--", outer)
	config := filepath.Join(outer, ".git", "config")
	writeFile(t, config, "[http]\n\tproxy = http://127.0.0.1:1\n[core]\n\thooksPath = x\n\tworktree = /\n", 0o600)
	dst := filepath.Join(outer, "labs", "lab-1", "0123456789ab")
	mustFetch(t, newTestFetcher(t, s), testSource(t, url, commit), dst)
}

func TestManyReadersOfOneCopy(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest, "a/b": "b"})
	f := newTestFetcher(t, s)
	_, dst := newDst(t)
	src := testSource(t, url, commit)
	shared := mustFetch(t, f, src, dst)
	var readers sync.WaitGroup
	for range 6 {
		readers.Go(func() {
			if _, err := f.read(t.Context(), dst, src); err != nil {
				t.Errorf("read = %v", err)
			}
			if modified := shared.modified(dst); len(modified) > 0 {
				t.Errorf("modified = %q", modified)
			}
		})
	}
	readers.Wait()
}

func TestReadNamesAMissingGit(t *testing.T) {
	t.Parallel()
	f := newFetcher(newProcesses(), nil, slog.New(slog.DiscardHandler))
	if _, err := f.read(t.Context(), t.TempDir(), source{}); !isKind(err, kindMissingTool) {
		t.Errorf("read = %v, want a missing tool", err)
	}
}
