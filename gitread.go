package main

// Reading a commit from a repository's objects. Git hands them over; their
// ids are worked out again here, from the commit down to the manifest, so
// that nothing on the disk can pass for what was approved.

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	maxLabBytes        = 4 << 30  // of all files of a lab
	maxAttributesBytes = 64 << 10 // of an attributes file that is looked into
	maxAttributesFiles = 100
	maxPointerBytes    = 1024 // of a large-file pointer, by its own definition
	manifestName       = "lab.toml"
	pointerStart       = "version https://git-lfs.github.com/spec/"
)

// read reads from the checkout in dir, which fetch made, what the commit of
// src holds. The error is errDamagedLab when the copy is not whole.
func (f *fetcher) read(ctx context.Context, dir string, src source) (*commitTree, error) {
	program, err := f.program(ctx)
	if err != nil {
		return nil, err
	}
	gitDir := filepath.Join(dir, ".git")
	info, err := os.Lstat(gitDir)
	if err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: it has no .git folder: %w", errDamagedLab, cmp.Or(err, os.ErrNotExist))
	}
	if owner, ours := ownership(gitDir, info); !ours {
		return nil, fmt.Errorf("%w: %s belongs to %s", errDamagedLab, dir, owner)
	}
	if err := f.checkPacks(ctx, gitDir); err != nil {
		return nil, err
	}
	tree, err := f.readCommit(ctx, program, dir, src)
	return tree, tellGitError(err, src, 1)
}

// checkPacks compares the packs and their indexes with the checksum at their
// end, unless that was done before.
func (f *fetcher) checkPacks(ctx context.Context, gitDir string) error {
	for _, pattern := range []string{"*.pack", "*.idx"} {
		paths, err := filepath.Glob(filepath.Join(globEscape(gitDir), "objects", "pack", pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			if err := f.checkPack(ctx, path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fetcher) checkPack(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a file", errDamagedLab, path)
	}
	stamp, sure := stampOf(info)
	f.mu.Lock()
	known := sure && f.packs[path] == stamp
	f.mu.Unlock()
	if known {
		return nil
	}
	read := time.Now()
	if err := checkTrailer(ctx, path, info.Size()); err != nil {
		return err
	}
	if sure && stamp.settled(read) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.packs[path] = stamp
	}
	return nil
}

// checkTrailer compares a file's bytes with the SHA-1 in its last twenty.
func checkTrailer(ctx context.Context, path string, size int64) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamagedLab, err)
	}
	defer file.Close()
	h, body := sha1.New(), io.LimitReader(file, max(size-sha1.Size, 0))
	for err == nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err = io.CopyN(h, body, 16<<20)
	}
	trailer := make([]byte, sha1.Size)
	if err != io.EOF {
		return fmt.Errorf("%w: %w", errDamagedLab, err)
	}
	if _, err := io.ReadFull(file, trailer); err != nil || !bytes.Equal(h.Sum(nil), trailer) {
		return fmt.Errorf("%w: %s does not match its checksum", errDamagedLab, path)
	}
	return nil
}

// globEscape makes a path stand for itself in a pattern. Where a backslash
// separates folders, patterns know no escape, and brackets must do.
func globEscape(path string) string {
	if filepath.Separator == '\\' {
		return strings.ReplaceAll(path, "[", "[[]")
	}
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "*", `\*`, "?", `\?`).Replace(path)
}

// readCommit reads what the commit of src holds. Errors of git are not yet
// told as problems.
func (f *fetcher) readCommit(ctx context.Context, program, dir string, src source) (*commitTree, error) {
	store, err := f.openObjects(ctx, program, dir)
	if err != nil {
		return nil, err
	}
	defer store.close()
	commit, err := store.commit(src)
	if err != nil {
		return nil, err
	}
	root, err := parseCommit(commit)
	if err != nil {
		return nil, problemf(kindUnacceptable, "%s is not a commit as git writes it.", src.commit).because(err)
	}
	files, submodules, err := walkTree(root, func(id objectID) ([]byte, error) {
		return store.get(id, "tree", maxTreeBytes)
	})
	if err != nil {
		return nil, err
	}
	if slices.Contains(submodules, manifestName) {
		return nil, problemf(kindUnacceptable, "lab.toml is a submodule in this commit: it must be a regular file.")
	}
	sizes, err := f.blobSizes(ctx, program, dir, files)
	if err != nil {
		return nil, err
	}
	return readFiles(store, files, sizes, len(submodules))
}

// readFiles makes the tree of a commit from the list of its files.
func readFiles(store *objectStore, files []treeFile, sizes map[objectID]int64, submodules int) (*commitTree, error) {
	total, err := contentSize(files, sizes)
	if err != nil {
		return nil, err
	}
	manifest, err := readManifest(store, files, sizes)
	if err != nil {
		return nil, err
	}
	pointers, err := countPointers(store, files, sizes)
	if err != nil {
		return nil, err
	}
	return &commitTree{
		manifest: manifest,
		files:    files,
		notices:  labNotices(pointers, submodules),
		bytes:    total,
		clean:    make(map[string]fileStamp),
	}, nil
}

// blobSizes asks git for the sizes of the files' blobs.
func (f *fetcher) blobSizes(ctx context.Context, program, dir string, files []treeFile) (map[objectID]int64, error) {
	sizes := make(map[objectID]int64, len(files))
	var ask, answer bytes.Buffer
	for _, file := range files {
		if _, asked := sizes[file.blob]; !asked {
			sizes[file.blob] = -1
			ask.WriteString(file.blob.String() + "\n")
		}
	}
	err := f.run(ctx, f.localCommand(program, dir, &ask, &answer, "cat-file", "--batch-check", "--buffer"))
	if err != nil {
		return nil, damagedUnlessTold(err)
	}
	r := bufio.NewReader(&answer)
	for range len(sizes) {
		h, err := readObjectHeader(r)
		if err != nil || h.kind != "blob" || sizes[h.id] != -1 {
			return nil, fmt.Errorf("%w: the size of %s: %w", errDamagedLab, h.id, cmp.Or(err, errObjectInvalid))
		}
		sizes[h.id] = h.size
	}
	return sizes, nil
}

// contentSize adds up what the files will take on the disk.
func contentSize(files []treeFile, sizes map[objectID]int64) (int64, error) {
	var total int64
	for _, file := range files {
		size := sizes[file.blob]
		if size > maxLabBytes-total {
			return 0, problemf(kindUnacceptable, "The files of this commit are larger than %d GiB, the most that a lab may have.", maxLabBytes>>30)
		}
		total += size
	}
	return total, nil
}

func readManifest(store *objectStore, files []treeFile, sizes map[objectID]int64) ([]byte, error) {
	i, found := slices.BinarySearchFunc(files, manifestName, func(f treeFile, name string) int { return strings.Compare(f.path, name) })
	if !found {
		return nil, noManifestFolder(files, i)
	}
	if files[i].mode == modeLink {
		return nil, problemf(kindUnacceptable, "lab.toml is a link in this commit: it must be a regular file.")
	}
	if size := sizes[files[i].blob]; size > manifestLimit {
		return nil, problemf(kindUnacceptable, "lab.toml is %d bytes long: it may have at most %d KiB.", size, manifestLimit>>10)
	}
	return store.get(files[i].blob, "blob", manifestLimit)
}

// noManifestFolder refuses a folder where lab.toml should be; next is where it
// would stand among the files.
func noManifestFolder(files []treeFile, next int) error {
	for _, file := range files[next:] {
		if strings.HasPrefix(file.path, manifestName+"/") {
			return problemf(kindUnacceptable, "lab.toml is a folder in this commit: it must be a regular file.")
		}
		if !strings.HasPrefix(file.path, manifestName) {
			break
		}
	}
	return nil
}

// countPointers counts the files that stand for large ones kept elsewhere. It
// looks only where an attributes file speaks of them.
func countPointers(store *objectStore, files []treeFile, sizes map[objectID]int64) (int, error) {
	spoken, err := speaksOfPointers(store, files, sizes)
	if err != nil || !spoken {
		return 0, err
	}
	count := 0
	for _, file := range files {
		size := sizes[file.blob]
		if file.mode == modeLink || size < int64(len(pointerStart)) || size >= maxPointerBytes {
			continue
		}
		data, err := store.get(file.blob, "blob", maxPointerBytes)
		if err != nil {
			return 0, err
		}
		if bytes.HasPrefix(data, []byte(pointerStart)) {
			count++
		}
	}
	return count, nil
}

func speaksOfPointers(store *objectStore, files []treeFile, sizes map[objectID]int64) (bool, error) {
	seen := 0
	for _, file := range files {
		if filepath.Base(file.path) != ".gitattributes" || sizes[file.blob] > maxAttributesBytes || seen == maxAttributesFiles {
			continue
		}
		seen++
		data, err := store.get(file.blob, "blob", maxAttributesBytes)
		if err != nil || bytes.Contains(data, []byte("filter=lfs")) {
			return err == nil, err
		}
	}
	return false, nil
}

// labNotices tells what of a lab is not there after a fetch.
func labNotices(pointers, submodules int) []string {
	var notices []string
	switch {
	case pointers == 1:
		notices = append(notices, "1 file of this lab is only a Git LFS pointer: the large file that it stands for was not fetched.")
	case pointers > 1:
		notices = append(notices, fmt.Sprintf("%d files of this lab are only Git LFS pointers: the large files that they stand for were not fetched.", pointers))
	}
	switch {
	case submodules == 1:
		notices = append(notices, "1 submodule of this lab was not fetched: its folder is empty.")
	case submodules > 1:
		notices = append(notices, fmt.Sprintf("%d submodules of this lab were not fetched: their folders are empty.", submodules))
	}
	return notices
}
