package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// testTrees keeps trees by their ids.
type testTrees map[objectID][]byte

// add keeps a tree of these entries, which stand in git's order.
func (t testTrees) add(entries ...treeEntry) objectID {
	var data []byte
	for _, e := range entries {
		data = fmt.Appendf(data, "%o %s\x00", e.mode, e.name)
		data = append(data, e.id[:]...)
	}
	id := hashObject("tree", data)
	t[id] = data
	return id
}

func (t testTrees) load(id objectID) ([]byte, error) {
	data, ok := t[id]
	if !ok {
		return nil, errObjectMissing
	}
	return data, nil
}

func TestHashObjectIsGitsID(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"tree": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
		"blob": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
	} {
		if got := hashObject(kind, nil).String(); got != want {
			t.Errorf("id of the empty %s = %s, want %s", kind, got, want)
		}
	}
}

func TestTreeIsUnfoldedToSortedPaths(t *testing.T) {
	t.Parallel()
	trees, blob := testTrees{}, hashObject("blob", nil)
	sub := trees.add(treeEntry{modeFile, "x", blob}, treeEntry{modeLink, "y", blob})
	root := trees.add(
		treeEntry{modeProgram, "a-b", blob},
		treeEntry{modeFile, "a.b", blob},
		treeEntry{modeFolder, "a", sub},
		treeEntry{modeSubmodule, "m", blob},
		treeEntry{modeOldFile, "z", blob},
	)
	files, submodules, err := walkTree(root, trees.load)
	if err != nil {
		t.Fatal(err)
	}
	want := []treeFile{{"a-b", modeProgram, blob}, {"a.b", modeFile, blob}, {"a/x", modeFile, blob}, {"a/y", modeLink, blob}, {"z", modeFile, blob}}
	if !slices.Equal(files, want) || !slices.Equal(submodules, []string{"m"}) {
		t.Errorf("files = %v, submodules = %q; want %v, m", files, submodules, want)
	}
}

func TestTreeBombIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	blob := hashObject("blob", nil)
	for _, bottom := range [][]treeEntry{{{modeFile, "f", blob}}, nil} {
		trees := testTrees{}
		id := trees.add(bottom...)
		for range 40 {
			var entries []treeEntry
			for i := range 10 {
				entries = append(entries, treeEntry{modeFolder, fmt.Sprintf("d%d", i), id})
			}
			id = trees.add(entries...)
		}
		start := time.Now()
		_, _, err := walkTree(id, trees.load)
		if !isKind(err, kindUnacceptable) || time.Since(start) > 10*time.Second {
			t.Errorf("walkTree = %v after %v, want a refusal at once", err, time.Since(start))
		}
	}
}

func TestTreeLimits(t *testing.T) {
	t.Parallel()
	blob := hashObject("blob", nil)
	many := func(n int) (testTrees, objectID) {
		trees, entries := testTrees{}, make([]treeEntry, n)
		for i := range entries {
			entries[i] = treeEntry{modeFile, fmt.Sprintf("%06d", i), blob}
		}
		return trees, trees.add(entries...)
	}
	nested := func(depth int) (testTrees, objectID) {
		trees := testTrees{}
		id := trees.add(treeEntry{modeFile, "f", blob})
		for range depth {
			id = trees.add(treeEntry{modeFolder, "d", id})
		}
		return trees, id
	}
	long := func(name int) (testTrees, objectID) {
		trees := testTrees{}
		return trees, trees.add(treeEntry{modeFile, strings.Repeat("n", name), blob})
	}
	for _, test := range []struct {
		name  string
		make  func(int) (testTrees, objectID)
		limit int
	}{{"entries", many, maxLabEntries}, {"depth", nested, maxLabDepth}, {"path", long, maxLabPath}} {
		trees, root := test.make(test.limit)
		if _, _, err := walkTree(root, trees.load); err != nil {
			t.Errorf("%s at the limit: %v", test.name, err)
		}
		trees, root = test.make(test.limit + 1)
		if _, _, err := walkTree(root, trees.load); !isKind(err, kindUnacceptable) {
			t.Errorf("%s above the limit: %v, want a refusal", test.name, err)
		}
	}
}

func TestNamesThatLeadElsewhereAreRefused(t *testing.T) {
	t.Parallel()
	blob := hashObject("blob", nil)
	for _, name := range []string{"..", ".", ".git", ".GIT", ".Git", ".git.", ".git ", ".git . .", ".g\u200cit", "\ufeff.git", "git~1", "GIT~1",
		".git::$INDEX_ALLOCATION", ".git:x"} {
		for _, mode := range []uint32{modeFile, modeFolder, modeLink} {
			trees := testTrees{}
			id := blob
			if mode == modeFolder {
				id = trees.add(treeEntry{modeFile, "f", blob})
			}
			root := trees.add(treeEntry{mode, name, id})
			if _, _, err := walkTree(root, trees.load); !isKind(err, kindUnacceptable) {
				t.Errorf("name %q, mode %o: %v, want a refusal", name, mode, err)
			}
		}
	}
	for _, name := range []string{".gitignore", ".github", "git", "a.git", "...x", "-rf", "ä", "a b", ".git~1x"} {
		if !safeName(name) {
			t.Errorf("name %q is refused", name)
		}
	}
}

func TestTreesThatReadersTakeDifferentlyAreRefused(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("i", 20)
	for name, data := range map[string]string{
		"twice":                "100644 a\x00" + id + "100644 a\x00" + id,
		"file and folder":      "100644 a\x00" + id + "100644 a.b\x00" + id + "40000 a\x00" + id,
		"out of order":         "100644 b\x00" + id + "100644 a\x00" + id,
		"slash":                "100644 a/b\x00" + id,
		"empty name":           "100644 \x00" + id,
		"cut in the id":        "100644 a\x00" + id[:19],
		"cut in the name":      "100644 a",
		"cut in the mode":      "1006",
		"device":               "60000 a\x00" + id,
		"mode that is no mode": "10x644 a\x00" + id,
		"no mode":              " a\x00" + id,
	} {
		if entries, err := parseTree([]byte(data)); !errors.Is(err, errObjectInvalid) {
			t.Errorf("%s: parseTree = %v, %v; want it refused", name, entries, err)
		}
	}
}

func TestCaseCollisions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		paths []string
		want  [][2]string
	}{
		{[]string{"a", "b", "c/a"}, nil},
		{[]string{"Data/a", "data/a", "lab.toml", "LAB.toml"}, [][2]string{{"Data/a", "data/a"}, {"lab.toml", "LAB.toml"}}},
		{[]string{"A", "a/b"}, [][2]string{{"A", "a"}}},
		{[]string{"Data/x", "data/y"}, nil},
		{[]string{"Ä", "ä"}, [][2]string{{"Ä", "ä"}}},
	} {
		if got := caseCollisions(test.paths); !slices.Equal(got, test.want) {
			t.Errorf("caseCollisions(%q) = %q, want %q", test.paths, got, test.want)
		}
	}
}

func FuzzTree(f *testing.F) {
	id := strings.Repeat("i", 20)
	f.Add([]byte("100644 a\x00" + id + "40000 b\x00" + id))
	f.Add([]byte("120000 .git\x00" + id))
	f.Add([]byte("160000 \xff\x00" + id))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseTree(data)
		if err != nil {
			if !errors.Is(err, errObjectInvalid) {
				t.Errorf("parseTree(%q) = %v, want %v", data, err, errObjectInvalid)
			}
			return
		}
		for i, e := range entries {
			if e.name == "" || strings.ContainsAny(e.name, "/\x00") {
				t.Errorf("name %q", e.name)
			}
			if i > 0 && entries[i-1].sortKey() >= e.sortKey() {
				t.Errorf("%q stands before %q", entries[i-1].name, e.name)
			}
		}
		files, _, err := walkTree(objectID{}, func(id objectID) ([]byte, error) {
			if id == (objectID{}) {
				return data, nil
			}
			return nil, nil
		})
		for _, file := range files {
			if err == nil && !safeName(file.path) {
				t.Errorf("path %q is let through", file.path)
			}
		}
	})
}

func FuzzCommit(f *testing.F) {
	f.Add([]byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor x\n"))
	f.Add([]byte("tree 4B825dc642cb6eb9a060e54bf8d69288fbee4904\n"))
	f.Add([]byte("tree "))
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, err := parseCommit(data)
		if err == nil && !strings.HasPrefix(string(data), "tree "+tree.String()+"\n") {
			t.Errorf("parseCommit(%q) = %v, which it does not start with", data, tree)
		}
	})
}

func FuzzCatFile(f *testing.F) {
	id := strings.Repeat("ab", 20)
	f.Add([]byte(id + " blob 3\nabc\n" + id + " missing\n"))
	f.Add([]byte(id + " tree 99999999999999999999\n"))
	f.Add([]byte(id + " blob 1000000000\n"))
	f.Add([]byte(id + " commit -1\n"))
	f.Add([]byte(strings.Repeat("x", 5000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 100
		whole := readCatFile(t, data, false, limit)
		if split := readCatFile(t, data, true, limit); split != whole {
			t.Errorf("read in one piece: %s; byte by byte: %s", whole, split)
		}
	})
}

// readCatFile reads objects until one cannot be read, and describes them.
func readCatFile(t *testing.T, data []byte, split bool, limit int64) string {
	var source io.Reader = bytes.NewReader(data)
	if split {
		source = iotest.OneByteReader(source)
	}
	r := bufio.NewReader(source)
	var read strings.Builder
	for {
		h, err := readObjectHeader(r)
		if errors.Is(err, errObjectMissing) {
			fmt.Fprintf(&read, "%v missing ", h.id)
			continue
		}
		if err != nil {
			return read.String() + err.Error()
		}
		body, err := readObjectBody(r, h, limit)
		if err != nil {
			return read.String() + err.Error()
		}
		if int64(len(body)) != h.size || h.size > limit {
			t.Errorf("%d bytes of an object of %d were read, with a limit of %d", len(body), h.size, limit)
		}
		fmt.Fprintf(&read, "%v %s %q ", h.id, h.kind, body)
	}
}
