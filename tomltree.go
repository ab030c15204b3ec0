package main

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// The documents that people write for us, lab.toml and config.toml, are read
// into a tree that keeps the order of keys and the line of each, so that every
// mistake can be told at once with its place. The library scans; what may be
// defined twice, and what TOML 1.0 does not have, is decided here, in time
// that grows with the size of the document alone.

// tomlKind is the sort of a value, in the words a person reads.
type tomlKind string

const (
	tomlString  tomlKind = "a string"
	tomlInteger tomlKind = "an integer"
	tomlFloat   tomlKind = "a float"
	tomlBool    tomlKind = "a boolean"
	tomlTime    tomlKind = "a date or time"
	tomlList    tomlKind = "a list"
	tomlTable   tomlKind = "a table"
)

// tomlMade is how a value came to be, which decides what may be added to it.
type tomlMade int

const (
	madeValue    tomlMade = iota // by "key = value": closed
	madeDotted                   // a table on the way of a dotted key
	madeImplicit                 // a table on the way of a header
	madeHeader                   // a table by its own [header]
	madeTables                   // a list of tables by [[header]]
)

// tomlValue is a value of a document. No key takes a date or time, so the
// text of one is kept as it stands and not checked.
type tomlValue struct {
	kind    tomlKind
	line    int
	text    string       // a string's content, else the value as it is written
	items   []*tomlValue // of a list
	entries []tomlEntry  // of a table, in the document's order

	made     tomlMade
	position map[string]int // of a key in entries
}

type tomlEntry struct {
	key   string
	value *tomlValue
}

// get is the value of key, nil when the table has none.
func (v *tomlValue) get(key string) *tomlValue {
	if i, ok := v.position[key]; ok {
		return v.entries[i].value
	}
	return nil
}

// find is the value at a path of keys, nil when a part of it is not there.
func (v *tomlValue) find(path ...string) *tomlValue {
	for _, key := range path {
		if v = v.get(key); v == nil {
			return nil
		}
	}
	return v
}

func (v *tomlValue) add(key string, value *tomlValue) {
	if v.position == nil {
		v.position = make(map[string]int)
	}
	v.position[key] = len(v.entries)
	v.entries = append(v.entries, tomlEntry{key, value})
}

// integer is the value of an integer; false for another kind, or out of range.
func (v *tomlValue) integer() (int64, bool) {
	if v.kind != tomlInteger {
		return 0, false
	}
	n, err := strconv.ParseInt(v.text, 0, 64)
	return n, err == nil
}

// number is the value of an integer or a float, which may be infinite or NaN.
func (v *tomlValue) number() (float64, bool) {
	if n, ok := v.integer(); ok {
		return float64(n), true
	}
	if v.kind != tomlFloat {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(v.text, "_", ""), 64)
	return n, err == nil
}

// tomlTree is a document as far as it could be read. Whoever checks the
// meaning adds to the findings with report.
type tomlTree struct {
	*tomlText
	root    *tomlValue // never nil
	damaged bool       // parts could not be read: what seems missing may be there

	base    int        // offset in data of what the parser was given
	current *tomlValue // the table of the last header
	path    string     // of current
}

// parseTOML reads a TOML 1.0 document. Whatever data holds, it neither panics
// nor takes long.
func parseTOML(data []byte) *tomlTree {
	root := &tomlValue{kind: tomlTable, made: madeHeader}
	t := &tomlTree{tomlText: newTOMLText(data), root: root, current: root}
	if len(t.findings) > 0 || !t.checkEncoding() || !t.checkVersion() {
		t.damaged = true
		return t
	}
	t.base = len(t.data) - len(bytes.TrimPrefix(t.data, byteOrderMark))
	t.build()
	return t
}

// build reads the expressions one by one. After one that is not TOML it goes
// on with the next line that looks like the start of another.
func (t *tomlTree) build() {
	var p unstable.Parser
	for t.base < len(t.data) && t.untold == 0 {
		p.Reset(t.data[t.base:])
		for p.NextExpression() {
			t.addExpression(p.Expression())
		}
		if p.Error() == nil {
			return
		}
		t.base = t.syntaxError(&p)
	}
}

// statementPattern is a line that begins a new expression: a header, or a key
// and its equals sign. A line inside a broken list does not look like it.
var statementPattern = regexp.MustCompile(
	`(?m)^[ \t]*(\[{1,2}[ \t]*[A-Za-z_][^\],\n]*\]{1,2}[ \t\r]*(#.*)?$|[A-Za-z0-9_-]+[A-Za-z0-9_."' \t-]*=)`)

// syntaxError reports where the parser stopped and returns the offset to go
// on from.
func (t *tomlTree) syntaxError(p *unstable.Parser) int {
	t.damaged = true
	offset, message := len(t.data), "not valid TOML"
	if found, ok := errors.AsType[*unstable.ParserError](p.Error()); ok {
		offset, message = t.base+int(p.Range(found.Highlight).Offset), found.Message
	}
	if strings.Contains(message, "at start of value") {
		message += ` (text needs quotes: "...")`
	}
	t.report(t.line(offset), "", "not TOML 1.0: %s", message)
	lineStart := bytes.LastIndexByte(t.data[:offset], '\n') + 1
	if bytes.HasPrefix(bytes.TrimLeft(t.data[lineStart:], " \t"), []byte("[")) {
		t.current, t.path = &tomlValue{kind: tomlTable}, "" // what follows belongs to a table nobody knows
	}
	rest := offset + lineLength(t.data[offset:])
	if next := statementPattern.FindIndex(t.data[rest:]); next != nil {
		return rest + next[0]
	}
	return len(t.data)
}

func (t *tomlTree) addExpression(node *unstable.Node) {
	switch node.Kind {
	case unstable.Table, unstable.ArrayTable:
		keys := t.keys(node)
		t.current = t.openTable(keys, node.Kind == unstable.ArrayTable)
		t.path = keysPath("", keys)
	case unstable.KeyValue:
		t.addPair(t.current, t.path, node)
	}
}

// tomlKey is one part of a dotted key.
type tomlKey struct {
	name string
	line int
}

// keys are the parts of node's key, at least one.
func (t *tomlTree) keys(node *unstable.Node) []tomlKey {
	var keys []tomlKey
	for it := node.Key(); it.Next(); {
		part := it.Node()
		keys = append(keys, tomlKey{string(part.Data), t.nodeLine(part)})
	}
	return keys
}

func (t *tomlTree) nodeLine(node *unstable.Node) int {
	return t.line(t.base + int(node.Raw.Offset))
}

// openTable finds or makes the table of a header; list is true for [[header]].
// When the header clashes it reports that, and returns a table of no document.
func (t *tomlTree) openTable(keys []tomlKey, list bool) *tomlValue {
	table := t.root
	last := len(keys) - 1
	for i, key := range keys[:last] {
		next := table.get(key.name)
		if next == nil {
			next = &tomlValue{kind: tomlTable, line: key.line, made: madeImplicit}
			table.add(key.name, next)
		}
		if next.made == madeTables {
			next = next.items[len(next.items)-1]
		}
		if next.made == madeValue {
			return t.clash("", keys[:i+1], next)
		}
		table = next
	}
	key := keys[last]
	opened := &tomlValue{kind: tomlTable, line: key.line, made: madeHeader}
	old := table.get(key.name)
	switch {
	case old == nil && list:
		table.add(key.name, &tomlValue{kind: tomlList, line: key.line, made: madeTables, items: []*tomlValue{opened}})
	case old == nil:
		table.add(key.name, opened)
	case list && old.made == madeTables:
		old.items = append(old.items, opened)
	case !list && old.made == madeImplicit:
		old.made, old.line = madeHeader, key.line
		return old
	default:
		return t.clash("", keys, old)
	}
	return opened
}

// addPair puts a key and its value into table, which is at path.
func (t *tomlTree) addPair(table *tomlValue, path string, node *unstable.Node) {
	keys := t.keys(node)
	last := len(keys) - 1
	for i, key := range keys[:last] {
		next := table.get(key.name)
		if next == nil {
			next = &tomlValue{kind: tomlTable, line: key.line, made: madeDotted}
			table.add(key.name, next)
		}
		if next.made != madeDotted {
			t.clash(path, keys[:i+1], next)
			return
		}
		table = next
	}
	if old := table.get(keys[last].name); old != nil {
		t.clash(path, keys, old)
		return
	}
	table.add(keys[last].name, t.value(node.Value(), keysPath(path, keys), keys[last].line))
}

// clash reports a key below path that is defined already, and returns a table
// that belongs to no document, for what follows.
func (t *tomlTree) clash(path string, keys []tomlKey, old *tomlValue) *tomlValue {
	t.report(keys[len(keys)-1].line, keysPath(path, keys), "is already defined as %s on line %d; a key may be defined only once", old.kind, old.line)
	return &tomlValue{kind: tomlTable}
}

// value builds the tree of a value. The parser knows no place for a list: one
// after a key gets the line of the key, one in a list that of its first item.
func (t *tomlTree) value(node *unstable.Node, path string, line int) *tomlValue {
	v := &tomlValue{line: line, text: string(node.Data)}
	if node.Raw.Length > 0 {
		v.line = t.nodeLine(node)
	}
	switch node.Kind {
	case unstable.String:
		v.kind = tomlString
	case unstable.Integer:
		v.kind = tomlInteger
	case unstable.Float:
		v.kind = tomlFloat
	case unstable.Bool:
		v.kind = tomlBool
	case unstable.InlineTable:
		v.kind = tomlTable
		for it := node.Children(); it.Next(); {
			t.addPair(v, path, it.Node())
		}
	case unstable.Array:
		v.kind = tomlList
		for it := node.Children(); it.Next(); {
			item := t.value(it.Node(), path+"[]", line)
			if len(item.items) > 0 {
				item.line = item.items[0].line
			}
			v.items = append(v.items, item)
			line = item.line
		}
	default:
		v.kind = tomlTime
	}
	return v
}

var bareKeyPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// keyPath is the path of key below path, as one would write it in TOML, with
// a long key cut and everything safe for a terminal.
func keyPath(path, key string) string {
	key = shorten(key, 50)
	if !bareKeyPattern.MatchString(key) {
		key = `"` + visible(key) + `"`
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// keysPath is the path of a dotted key below path. A long one is cut.
func keysPath(path string, keys []tomlKey) string {
	const shown = 4
	for _, key := range keys[:min(len(keys), shown)] {
		path = keyPath(path, key.name)
	}
	if len(keys) > shown {
		path += ".…"
	}
	return path
}

// unknownKeys reports every key of table but the known ones.
func (t *tomlTree) unknownKeys(table *tomlValue, path string, known ...string) {
	for _, entry := range table.entries {
		if !slices.Contains(known, entry.key) {
			t.report(entry.value.line, keyPath(path, entry.key), "is not a key that belongs here; known are %s", strings.Join(known, ", "))
		}
	}
}
