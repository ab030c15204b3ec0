package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	tomlSizeLimit = 256 << 10 // bytes; a text for people, not for data
	tomlDepth     = 16        // lists and inline tables in each other; no key here takes more than four
	maxFindings   = 100       // more help nobody, and each costs memory
)

// finding is one mistake in a document.
type finding struct {
	Line    int    // 1 is the first; 0 is the document as a whole
	Path    string // the key, such as actions.greet.steps[0]; may be empty
	Message string // what is wrong and what would be right, without a full stop
}

// String is the finding as one line, safe to print on a terminal.
func (f finding) String() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	return b.String() + f.Message
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// tomlText is the text of a TOML document, and what is wrong with it.
type tomlText struct {
	data     []byte
	newlines []int // offsets of the line ends in data
	findings []finding
	untold   int // findings beyond maxFindings
}

// newTOMLText takes a document to check and parse. One that is larger than
// the limit is refused, and held empty.
func newTOMLText(data []byte) *tomlText {
	t := &tomlText{}
	if len(data) > tomlSizeLimit {
		t.report(0, "", "the file is larger than %d bytes (256 KiB)", tomlSizeLimit)
		return t
	}
	t.data = slices.Clip(data) // the parser derives offsets from the capacity
	for i, c := range data {
		if c == '\n' {
			t.newlines = append(t.newlines, i)
		}
	}
	return t
}

// report adds a finding. The message is made safe for a terminal here.
func (t *tomlText) report(line int, path, format string, args ...any) {
	if len(t.findings) >= maxFindings {
		t.untold++
		return
	}
	t.findings = append(t.findings, finding{line, path, visible(fmt.Sprintf(format, args...))})
}

// sorted returns all findings by line, those of one line as they were found.
func (t *tomlText) sorted() []finding {
	sorted := slices.SortedStableFunc(slices.Values(t.findings), func(a, b finding) int { return cmp.Compare(a.Line, b.Line) })
	if t.untold > 0 {
		sorted = append(sorted, finding{Message: fmt.Sprintf("and %d more mistakes", t.untold)})
	}
	return sorted
}

// line is the line of the byte at offset.
func (t *tomlText) line(offset int) int {
	i, _ := slices.BinarySearch(t.newlines, offset)
	return i + 1
}

// checkEncoding refuses what is not plain UTF-8 text, with the byte at fault, and
// reports whether reading on makes sense.
func (t *tomlText) checkEncoding() bool {
	if bytes.HasPrefix(t.data, []byte("\xFF\xFE")) || bytes.HasPrefix(t.data, []byte("\xFE\xFF")) {
		t.report(1, "", "the file is UTF-16 (byte 0); save it as UTF-8")
		return false
	}
	if i := bytes.IndexByte(t.data, 0); i >= 0 {
		t.report(t.line(i), "", "byte %d is NUL; the file must be UTF-8 text", i)
	}
	if i := invalidUTF8(t.data); i >= 0 {
		t.report(t.line(i), "", "byte %d (0x%02X) is not valid UTF-8; save the file as UTF-8", i, t.data[i])
	}
	if i := loneCR(t.data); i >= 0 {
		t.report(t.line(i), "", "byte %d is a carriage return without a line feed; lines must end in LF or CRLF", i)
	}
	readable := len(t.findings) == 0
	if bytes.HasPrefix(t.data, byteOrderMark) {
		t.report(1, "", "the file starts with a byte order mark (byte 0); save it as UTF-8 without one")
	}
	return readable
}

// invalidUTF8 is the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// loneCR is the offset of the first carriage return without line feed, or -1.
func loneCR(data []byte) int {
	for i, c := range data {
		if c == '\r' && (i+1 == len(data) || data[i+1] != '\n') {
			return i
		}
	}
	return -1
}

// checkVersion refuses what later versions of TOML allow and the parser takes:
// line breaks and a last comma in inline tables, and two escapes. Deep nesting
// ends the reading, before anything recursive sees it; then it returns false.
func (t *tomlText) checkVersion() bool {
	var open []byte // brackets not yet closed; a brace told about once becomes a '|'
	comma := false  // the last thing was a comma
	for i := 0; i < len(t.data); i++ {
		c := t.data[i]
		inner := len(open) - 1
		switch c {
		case ' ', '\t', '\r':
			continue
		case '\n':
			if inner >= 0 && open[inner] == '{' {
				t.report(t.line(i), "", "an inline table { } must be on one line")
				open[inner] = '|'
			}
			continue
		case '#':
			i += lineLength(t.data[i:]) - 1
			continue
		case '"', '\'':
			i = t.skipString(i) - 1
		case '[', '{':
			if len(open) == tomlDepth {
				t.report(t.line(i), "", "lists and inline tables are nested more than %d deep", tomlDepth)
				return false
			}
			open = append(open, c)
		case ']', '}':
			if c == '}' && comma {
				t.report(t.line(i), "", "an inline table { } must not end in a comma")
			}
			open = open[:max(inner, 0)]
		}
		comma = c == ','
	}
	return true
}

// skipString returns the offset after the string that begins at start, or
// where it stops being one, and refuses escapes that TOML 1.0 does not have.
func (t *tomlText) skipString(start int) int {
	quote := t.data[start]
	triple := bytes.HasPrefix(t.data[start:], bytes.Repeat([]byte{quote}, 3))
	i := start + 1
	if triple {
		i += 2
	}
	for i < len(t.data) {
		c := t.data[i]
		switch {
		case c == '\\' && quote == '"':
			if i+1 < len(t.data) && (t.data[i+1] == 'e' || t.data[i+1] == 'x') {
				t.report(t.line(i), "", `TOML 1.0 has no escape \%c; write the character as \u and four hexadecimal digits`, t.data[i+1])
			}
			i += 2
		case c == quote && triple:
			n := len(t.data[i:]) - len(bytes.TrimLeft(t.data[i:], string(quote)))
			i += n
			if n >= 3 {
				return i
			}
		case c == quote:
			return i + 1
		case c == '\n' && !triple:
			return i
		default:
			i++
		}
	}
	return len(t.data)
}

// lineLength is how many bytes of data come before its first line feed.
func lineLength(data []byte) int {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i
	}
	return len(data)
}
