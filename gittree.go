package main

// What a commit puts on the disk, found out before anything is put there: the
// list of its files, refused when it is too large, too deep, or holds a name
// that could lead out of the checkout or into git's own folder.

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// What a lab may be. A tree can name the same folder any number of times, so
// a few kilobytes could otherwise unfold into any number of files.
const (
	maxLabEntries   = 100_000  // files and folders
	maxLabDepth     = 64       // folders within folders
	maxLabPath      = 1024     // bytes of a path; macOS takes no longer ones
	maxTreeBytes    = 8 << 20  // of one tree object
	maxAllTreeBytes = 64 << 20 // of all different tree objects
)

// treeFile is a file or link of a commit.
type treeFile struct {
	path string // with slashes, relative to the checkout
	mode uint32
	blob objectID
}

// treeWalk unfolds the tree of a commit. Every tree is loaded once, however
// often it is named, and counted before it is unfolded.
type treeWalk struct {
	load  func(objectID) ([]byte, error) // the checked bytes of a tree
	trees map[objectID]treeNode
	bytes int

	files      []treeFile
	submodules []string
}

// treeNode is a loaded tree with what it unfolds to.
type treeNode struct {
	entries []treeEntry
	total   int // files and folders below, at most maxLabEntries
	height  int // folders within folders below
}

// walkTree lists the files of the tree root, sorted by path, and the paths of
// its submodules, which are not among the files.
func walkTree(root objectID, load func(objectID) ([]byte, error)) (files []treeFile, submodules []string, err error) {
	w := &treeWalk{load: load, trees: make(map[objectID]treeNode)}
	if _, err := w.count(root, 0); err != nil {
		return nil, nil, err
	}
	if err := w.unfold(root, ""); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(w.files, func(a, b treeFile) int { return cmp.Compare(a.path, b.path) })
	return w.files, w.submodules, nil
}

func (w *treeWalk) count(id objectID, depth int) (treeNode, error) {
	if node, ok := w.trees[id]; ok {
		return node, nil
	}
	if depth > maxLabDepth {
		return treeNode{}, errTooDeep()
	}
	node, err := w.read(id)
	if err != nil {
		return treeNode{}, err
	}
	for _, e := range node.entries {
		node.total++
		if e.mode == modeFolder {
			below, err := w.count(e.id, depth+1)
			if err != nil {
				return treeNode{}, err
			}
			node.total += below.total
			node.height = max(node.height, below.height+1)
		}
		if node.height > maxLabDepth {
			return treeNode{}, errTooDeep()
		}
		if node.total > maxLabEntries {
			return treeNode{}, problemf(kindUnacceptable,
				"This commit holds more than %d files and folders, the most that a lab may have.", maxLabEntries)
		}
	}
	w.trees[id] = node
	return node, nil
}

func errTooDeep() error {
	return problemf(kindUnacceptable,
		"This commit holds folders more than %d deep within each other, the most that a lab may have.", maxLabDepth)
}

func (w *treeWalk) read(id objectID) (treeNode, error) {
	data, err := w.load(id)
	if err != nil {
		return treeNode{}, err
	}
	if w.bytes += len(data); w.bytes > maxAllTreeBytes {
		return treeNode{}, problemf(kindUnacceptable,
			"The listing of this commit's files is larger than %d MiB, the most that a lab may have.", maxAllTreeBytes>>20)
	}
	entries, err := parseTree(data)
	if err != nil {
		return treeNode{}, problemf(kindUnacceptable, "A folder of this commit is not as git writes it: the repository must be repaired.").because(err)
	}
	return treeNode{entries: entries}, nil
}

func (w *treeWalk) unfold(id objectID, prefix string) error {
	for _, e := range w.trees[id].entries {
		path := prefix + e.name
		if !safeName(e.name) {
			return problemf(kindUnacceptable,
				"This commit holds %q, a name that a lab may not have because it can lead out of the lab's folder or into git's own.", visible(path))
		}
		if len(path) > maxLabPath {
			return problemf(kindUnacceptable, "This commit holds a path longer than %d bytes: %q and so on.", maxLabPath, visible(path[:80]))
		}
		switch e.mode {
		case modeSubmodule:
			w.submodules = append(w.submodules, path)
		case modeFolder:
			if err := w.unfold(e.id, path+"/"); err != nil {
				return err
			}
		default:
			w.files = append(w.files, treeFile{path: path, mode: e.mode, blob: e.id})
		}
	}
	return nil
}

// safeName reports whether a file of this name stays where it is put, on any
// disk. Some disks take other spellings of git's own folder for it: in other
// case, with dots or blanks after it, with invisible letters in it, or with
// its short name.
func safeName(name string) bool {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return false
	}
	if filepath.Separator == '\\' && (strings.ContainsAny(name, `\:`) || !filepath.IsLocal(name)) {
		return false
	}
	stream, _, _ := strings.Cut(name, ":")
	plain := strings.ToLower(strings.TrimRight(strings.Map(dropIgnored, stream), ". "))
	return plain != "" && plain != ".git" && plain != "git~1"
}

// dropIgnored leaves out the letters that macOS passes over when it compares
// names.
func dropIgnored(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}

// caseCollisions returns the pairs of paths that a disk which does not tell
// upper from lower case would make one: two files, or a file and a folder.
func caseCollisions(paths []string) [][2]string {
	files := make(map[string]string, len(paths))
	var pairs [][2]string
	for _, path := range paths {
		key := foldCase(path)
		if other, ok := files[key]; ok {
			pairs = append(pairs, [2]string{other, path})
			continue
		}
		files[key] = path
	}
	seen := make(map[string]bool)
	for _, path := range paths {
		for i := strings.LastIndexByte(path, '/'); i > 0 && !seen[path[:i]]; i = strings.LastIndexByte(path[:i], '/') {
			seen[path[:i]] = true
			if file, ok := files[foldCase(path[:i])]; ok {
				pairs = append(pairs, [2]string{file, path[:i]})
			}
		}
	}
	return pairs
}

// foldCase is equal for paths that differ only in case.
func foldCase(path string) string { return strings.ToLower(strings.ToUpper(path)) }
