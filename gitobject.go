package main

// The objects of a git repository, as the bytes that their ids are made of:
// what a commit and a tree hold, and how `git cat-file --batch` hands them
// over. Nothing here trusts git or the disk: a caller compares hashObject of
// what it read with the id it asked for.

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The modes that a tree gives its entries.
const (
	modeFolder    = 0o040000
	modeFile      = 0o100644
	modeProgram   = 0o100755
	modeOldFile   = 0o100664 // written by early versions of git; an ordinary file
	modeLink      = 0o120000
	modeSubmodule = 0o160000
)

var (
	errObjectMissing  = errors.New("object is missing")
	errObjectTooLarge = errors.New("object is larger than it may be")
	errObjectInvalid  = errors.New("object is not valid")
)

// objectID names an object by the SHA-1 of its kind, size and bytes.
type objectID [sha1.Size]byte

func (id objectID) String() string { return hex.EncodeToString(id[:]) }

// parseObjectID reads 40 lower-case hex digits.
func parseObjectID(s string) (objectID, bool) {
	var id objectID
	if len(s) != 2*len(id) || strings.Trim(s, "0123456789abcdef") != "" {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil
}

// hashObject is the id of an object with these bytes.
func hashObject(kind string, data []byte) objectID {
	h := sha1.New()
	fmt.Fprintf(h, "%s %d\x00", kind, len(data))
	h.Write(data)
	return objectID(h.Sum(nil))
}

// parseCommit returns the tree of a commit, which its first line names.
func parseCommit(data []byte) (tree objectID, err error) {
	line, _, found := bytes.Cut(data, []byte("\n"))
	digits, isTree := bytes.CutPrefix(line, []byte("tree "))
	tree, isID := parseObjectID(string(digits))
	if !found || !isTree || !isID {
		return objectID{}, fmt.Errorf("%w: a commit must start with its tree", errObjectInvalid)
	}
	return tree, nil
}

// treeEntry is one line of a tree: a file, link, folder or submodule.
type treeEntry struct {
	mode uint32
	name string // not empty and without a slash; otherwise any bytes
	id   objectID
}

// parseTree reads a tree. Entries must stand in git's order and each name may
// stand only once, so that one path means one thing to every reader.
func parseTree(data []byte) ([]treeEntry, error) {
	var entries []treeEntry
	names := make(map[string]bool)
	for len(data) > 0 {
		e, rest, err := cutTreeEntry(data)
		if err != nil {
			return nil, err
		}
		if names[e.name] {
			return nil, fmt.Errorf("%w: a tree names %q twice", errObjectInvalid, e.name)
		}
		if n := len(entries); n > 0 && entries[n-1].sortKey() >= e.sortKey() {
			return nil, fmt.Errorf("%w: a tree has %q out of order", errObjectInvalid, e.name)
		}
		names[e.name] = true
		entries = append(entries, e)
		data = rest
	}
	return entries, nil
}

func cutTreeEntry(data []byte) (e treeEntry, rest []byte, err error) {
	digits, rest, ok1 := bytes.Cut(data, []byte(" "))
	name, rest, ok2 := bytes.Cut(rest, []byte{0})
	if !ok1 || !ok2 || len(rest) < len(e.id) {
		return e, nil, fmt.Errorf("%w: a tree ends within an entry", errObjectInvalid)
	}
	mode, err := parseMode(string(digits))
	if err != nil {
		return e, nil, err
	}
	if len(name) == 0 || bytes.IndexByte(name, '/') >= 0 {
		return e, nil, fmt.Errorf("%w: a tree holds the name %q", errObjectInvalid, name)
	}
	e = treeEntry{mode: mode, name: string(name), id: objectID(rest[:len(e.id)])}
	return e, rest[len(e.id):], nil
}

func parseMode(digits string) (uint32, error) {
	switch mode, _ := strconv.ParseUint(digits, 8, 32); mode {
	case modeFolder, modeFile, modeProgram, modeLink, modeSubmodule:
		return uint32(mode), nil
	case modeOldFile:
		return modeFile, nil
	}
	return 0, fmt.Errorf("%w: a tree holds the mode %q", errObjectInvalid, digits)
}

// sortKey orders entries as git does: a folder as if its name ended in a slash.
func (e treeEntry) sortKey() string {
	if e.mode == modeFolder {
		return e.name + "/"
	}
	return e.name
}

// objectHeader is the line that `git cat-file` writes ahead of an object.
type objectHeader struct {
	id   objectID
	kind string // commit, tree, blob or tag
	size int64
}

// readObjectHeader reads the next header. The line must fit into the reader's
// buffer. It returns errObjectMissing when git says that it has no such object,
// and io.EOF when there is no further line.
func readObjectHeader(r *bufio.Reader) (objectHeader, error) {
	line, err := r.ReadSlice('\n')
	if err == io.EOF && len(line) == 0 {
		return objectHeader{}, io.EOF
	}
	if err != nil {
		return objectHeader{}, fmt.Errorf("%w: its header: %w", errObjectInvalid, err)
	}
	fields := strings.Split(strings.TrimSuffix(string(line), "\n"), " ")
	id, ok := parseObjectID(fields[0])
	if ok && len(fields) == 2 && fields[1] == "missing" {
		return objectHeader{id: id}, errObjectMissing
	}
	if !ok || len(fields) != 3 {
		return objectHeader{}, fmt.Errorf("%w: its header is %.100q", errObjectInvalid, line)
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || size < 0 {
		return objectHeader{}, fmt.Errorf("%w: its size is %.40q", errObjectInvalid, fields[2])
	}
	switch fields[1] {
	case "commit", "tree", "blob", "tag":
		return objectHeader{id: id, kind: fields[1], size: size}, nil
	}
	return objectHeader{}, fmt.Errorf("%w: its kind is %.40q", errObjectInvalid, fields[1])
}

// readObjectBody reads the bytes that follow header h. More than limit bytes
// are not read at all: the error is errObjectTooLarge.
func readObjectBody(r *bufio.Reader, h objectHeader, limit int64) ([]byte, error) {
	if h.size > limit {
		return nil, errObjectTooLarge
	}
	data := make([]byte, h.size+1) // with the line end that follows
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("%w: its bytes: %w", errObjectInvalid, err)
	}
	if data[h.size] != '\n' {
		return nil, fmt.Errorf("%w: no line end follows it", errObjectInvalid)
	}
	return data[:h.size], nil
}
