package main

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// told is what parseTOML finds wrong with text, each as one line.
func told(text string) []string {
	var lines []string
	for _, f := range parseTOML([]byte(text)).sorted() {
		lines = append(lines, f.String())
	}
	return lines
}

func TestEncodingOfDocuments(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"LF", "a = 1\nb = 2\n", ""},
		{"CRLF", "a = 1\r\nb = 2\r\n", ""},
		{"no final line end", "a = 1", ""},
		{"empty", "", ""},
		{"letters beyond ASCII", "a = \"ä\u2028\" # 你好\n", ""},
		{"byte order mark", "\xEF\xBB\xBFa = 1\n", "line 1: the file starts with a byte order mark (byte 0); save it as UTF-8 without one"},
		{"NUL", "a = 1\n\x00", "line 2: byte 6 is NUL; the file must be UTF-8 text"},
		{"lone CR", "a = 1\n# b\rc = 2\n", "line 2: byte 9 is a carriage return without a line feed; lines must end in LF or CRLF"},
		{"CR at the end", "a = 1\r", "line 1: byte 5 is a carriage return without a line feed; lines must end in LF or CRLF"},
		{"not UTF-8", "a = \"\xff\"", "line 1: byte 5 (0xFF) is not valid UTF-8; save the file as UTF-8"},
		{"surrogate", "a = \"\xed\xa0\x80\"", "line 1: byte 5 (0xED) is not valid UTF-8; save the file as UTF-8"},
		{"UTF-16 little end", "\xff\xfea\x00=\x001\x00", "line 1: the file is UTF-16 (byte 0); save it as UTF-8"},
		{"UTF-16 big end", "\xfe\xff\x00a\x00=\x001", "line 1: the file is UTF-16 (byte 0); save it as UTF-8"},
	}
	for _, test := range tests {
		if got := strings.Join(told(test.text), "\n"); got != test.want {
			t.Errorf("%s: parseTOML(%q) finds %q, want %q", test.name, test.text, got, test.want)
		}
	}
}

func TestNewerSyntaxIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"line break in an inline table", "a = {b = 1,\n\n c = {d = 2}}\n", "line 1: an inline table { } must be on one line"},
		{"comment in an inline table", "a = { # b\n}\n", "line 1: an inline table { } must be on one line"},
		{"last comma in an inline table", "a = {b = 1, }\n", "line 1: an inline table { } must not end in a comma"},
		{"escape e", `a = "\e[0m"`, `line 1: TOML 1.0 has no escape \e; write the character as \u and four hexadecimal digits`},
		{"escape x in a key", `"\x41" = 1`, `line 1: TOML 1.0 has no escape \x; write the character as \u and four hexadecimal digits`},
		{"escape x over lines", "a = \"\"\"\n\\x41\"\"\"", `line 2: TOML 1.0 has no escape \x; write the character as \u and four hexadecimal digits`},
		{"line break and last comma in a list", "a = [\n 1, # one\n {b = 2},\n]\n", ""},
		{"line break in a list in an inline table", "a = {b = [\n1,\n]}\n", ""},
		{"line break in a string in an inline table", "a = {b = '''\n,}''', c = \"\"\"\n{\"\"\"}\n", ""},
		{"backslashes that are none", `a = '\e\x' # \e` + "\nb = \"\\\\e\\\\x\"\n", ""},
		{"brackets in strings and comments", "a = \"{\" # {[\nb = '['\n", ""},
		{"quotes at the end of a long string", "a = \"\"\"\"x\"\"\"\"\" # {\nb = 1\n", ""},
	}
	for _, test := range tests {
		if got := strings.Join(told(test.text), "\n"); got != test.want {
			t.Errorf("%s: parseTOML(%q) finds %q, want %q", test.name, test.text, got, test.want)
		}
	}
}

func TestEveryKeyIsDefinedOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a = 1\n\"a\" = 2":                       "line 2: a: is already defined as an integer on line 1; a key may be defined only once",
		"a = {b = 1,b = 2}":                      "line 1: a.b: is already defined as an integer on line 1; a key may be defined only once",
		"a = {}\na = {}":                         "line 2: a: is already defined as a table on line 1; a key may be defined only once",
		"[a.x]\n[b]\n[a.x]":                      "line 3: a.x: is already defined as a table on line 1; a key may be defined only once",
		"[a.x]\n\n[a.'x']\nb = 1\nb = 1":         "line 3: a.x: is already defined as a table on line 1; a key may be defined only once\nline 5: a.x.b: is already defined as an integer on line 4; a key may be defined only once",
		"a = 1\n[a]":                             "line 2: a: is already defined as an integer on line 1; a key may be defined only once",
		"a = {}\n[a.b]":                          "line 2: a: is already defined as a table on line 1; a key may be defined only once",
		"a.b = 1\n[a]":                           "line 2: a: is already defined as a table on line 1; a key may be defined only once",
		"a = {b.c = 1}\na.d = 1":                 "line 2: a: is already defined as a table on line 1; a key may be defined only once",
		"a.b = 1\na.b.c = 1":                     "line 2: a.b: is already defined as an integer on line 1; a key may be defined only once",
		"[[a]]\n[a]":                             "line 2: a: is already defined as a list on line 1; a key may be defined only once",
		"[a]\n[[a]]":                             "line 2: a: is already defined as a table on line 1; a key may be defined only once",
		"a = [{}]\n[[a]]":                        "line 2: a: is already defined as a list on line 1; a key may be defined only once",
		"a = [{}]\n[a.b]":                        "line 2: a: is already defined as a list on line 1; a key may be defined only once",
		"[a.b]\n[a]\nb.c = 1":                    "line 3: a.b: is already defined as a table on line 1; a key may be defined only once",
		"a.b.c.d.e.f = 1\na.b.c.d.e.f = 1":       "line 2: a.b.c.d.…: is already defined as an integer on line 1; a key may be defined only once",
		"a = [1, {b.c = 1, b.c = 1}]":            "line 1: a[].b.c: is already defined as an integer on line 1; a key may be defined only once",
		"[a.b]\n[a]\n[a.c]":                      "",
		"[[a]]\n[a.b]\n[[a]]\n[a.b]\nc.d = 1":    "",
		"a.b = 1\na.c = 2\n[b]\na.b = 1":         "",
		"[a]\nb.c = 1\n[a.b.d]":                  "",
		"a = [{b = 1}, {b = 1, c.d = 1, c.e=2}]": "",
	} {
		if got := strings.Join(told(text), "\n"); got != want {
			t.Errorf("parseTOML(%q) finds %q, want %q", text, got, want)
		}
	}
}

func TestSyntaxErrorsAreAllTold(t *testing.T) {
	t.Parallel()
	text := "title = Hello\nid = 'x'\n[actions.\nlabel = 'lost'\n[actions.b]\nlabel = yes\nsteps = [\n  [\"a\", b],\n  [\"c\"],\n]\n[actions.c]\nlabel = 'C\ntimeout = 20s\n"
	tree := parseTOML([]byte(text))
	var lines []int
	for _, f := range tree.sorted() {
		lines = append(lines, f.Line)
	}
	if want := []int{1, 3, 6, 8, 12, 13}; !slices.Equal(lines, want) {
		t.Errorf("found mistakes on lines %d, want %d: %v", lines, want, tree.sorted())
	}
	if tree.root.get("id") == nil || tree.root.find("actions", "c") == nil || tree.root.get("label") != nil || !tree.damaged {
		t.Errorf("the readable parts are not in the tree")
	}
	if got := tree.sorted()[0].String(); !strings.Contains(got, "quotes") {
		t.Errorf("finding = %q, want a hint at quotes", got)
	}
}

func TestFindingsAreBoundedAndSafeToPrint(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 500 {
		fmt.Fprintf(&text, "\"\\u001b%0600d\" = 1\n\"\\u001b%0600d\" = 1\n", i%50, i%50)
	}
	found := parseTOML([]byte(text.String())[:tomlSizeLimit]).sorted()
	if len(found) != maxFindings+1 {
		t.Errorf("%d findings, want %d and a last line", len(found), maxFindings)
	}
	for _, f := range found {
		if s := f.String(); len(s) > 300 || visible(s) != s {
			t.Errorf("finding %q is long or not safe to print", s)
		}
	}
}

// hostileDocuments are as large as a document may be, each to wear out another
// part of a parser.
func hostileDocuments() map[string]string {
	fill := func(unit string) string { return strings.Repeat(unit, tomlSizeLimit/len(unit)) }
	numbered := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < tomlSizeLimit-40; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	return map[string]string{
		"open lists":            "a=" + fill("[")[2:],
		"nested lists":          "a=" + strings.Repeat("[", 130_000) + strings.Repeat("]", 130_000),
		"nested inline tables":  "a=" + strings.Repeat("{a=", 60_000) + "1" + strings.Repeat("}", 60_000),
		"a long dotted key":     fill("a.")[:tomlSizeLimit-5] + ".a=1",
		"a long dotted header":  "[" + fill("a.")[:tomlSizeLimit-5] + ".a]",
		"many dotted keys":      numbered("a.b.c.d.e.f.k%d=1\n"),
		"many keys":             numbered("k%d=1\n"),
		"many headers":          numbered("[k%d]\n"),
		"many deep headers":     numbered("[a.b.c.d.e.f.g.h.i.j.k%d]\n"),
		"many lists of tables":  fill("[[a]]\n"),
		"lists of tables, keys": fill("[[a]]\nb.c=1\n"),
		"equal keys":            fill("a=1\n"),
		"equal headers":         fill("[a]\n"),
		"many syntax errors":    fill("a=b\n"),
		"broken headers":        fill("[a\n"),
		"open long strings":     fill("a=\"\"\"\\q\n"),
		"open strings":          fill("a=\"\\q\n"),
		"escapes":               "a=\"" + fill(`\e`)[4:] + "\"",
		"a wide list":           "a=[" + fill("1,")[4:] + "]",
		"a wide inline table":   "a={" + strings.TrimSuffix(numbered("k%d=1,"), ",") + "}",
		"line breaks":           fill("\n"),
		"a long key, many sons": "[actions." + strings.Repeat("x", 100_000) + "]\n" + strings.Repeat("a.b=1\n", 20_000),
		"quotes":                fill("\""),
		"literal quotes":        fill("'"),
	}
}

func TestNoDocumentTakesLong(t *testing.T) {
	t.Parallel()
	for name, text := range hostileDocuments() {
		if len(text) > tomlSizeLimit {
			t.Fatalf("%s: %d bytes", name, len(text))
		}
		start := time.Now()
		_, found := parseManifest([]byte(text))
		// Far above what any takes on a busy machine, and below what a parser
		// takes that looks at everything again for each key.
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %v", name, took)
		} else {
			t.Logf("%s: %v, %d findings", name, took, len(found))
		}
		if len(found) == 0 {
			t.Errorf("%s: no findings", name)
		}
	}
	if _, found := parseManifest([]byte(strings.Repeat("[", 3_000_000))); len(found) != 1 || !strings.Contains(found[0].Message, "256 KiB") {
		t.Errorf("3 MB of brackets: %v, want one finding about the size", found)
	}
}

// plain is the tree as the library would decode it, numbers apart, which the
// tree keeps as they were written.
func (v *tomlValue) plain() any {
	switch v.kind {
	case tomlTable:
		table := make(map[string]any)
		for _, entry := range v.entries {
			table[entry.key] = entry.value.plain()
		}
		return table
	case tomlList:
		list := []any{}
		for _, item := range v.items {
			list = append(list, item.plain())
		}
		return list
	case tomlInteger:
		n, _ := v.integer()
		return n
	case tomlFloat:
		n, _ := v.number()
		if math.IsNaN(n) {
			return "nan"
		}
		return n
	case tomlBool:
		return v.text == "true"
	case tomlTime:
		return "time"
	}
	return v.text
}

// plainDecoded makes what the library decoded comparable with plain.
func plainDecoded(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = plainDecoded(v[key])
		}
	case []any:
		for i := range v {
			v[i] = plainDecoded(v[i])
		}
	case float64:
		if math.IsNaN(v) {
			return "nan"
		}
	case time.Time, toml.LocalDate, toml.LocalTime, toml.LocalDateTime:
		return "time"
	}
	return v
}

// outOfRange reports whether v holds what the tree keeps unchecked and the
// library refuses: numbers too large, and any date, which may be none.
func outOfRange(v *tomlValue) bool {
	if v.kind == tomlTime {
		return true
	}
	if _, ok := v.number(); !ok && (v.kind == tomlInteger || v.kind == tomlFloat) {
		return true
	}
	return slices.ContainsFunc(v.items, outOfRange) ||
		slices.ContainsFunc(v.entries, func(e tomlEntry) bool { return outOfRange(e.value) })
}

func FuzzTOMLTree(f *testing.F) {
	for _, seed := range []string{
		"", "a = 1\n[b]\nc.d = [1, {e = 'x'}]\n", "[[a]]\n[a.b]\n[[a]]\n[a.b]\n", "a = {b = 1,\n}", "a = \"\"\"\\\n  x\"\"\"\"\"",
		"a = +inf\nb = 0x_1\nc = 1_000\nd = -0.5e3", "a = 07:32\nb = 1979-05-27 07:32:00Z", "a.b = 1\n[a.c]\n[a]", "a = Hello\nb = 2", "\xEF\xBB\xBFa = 1", "a = \"\\e\\x41\"", "'' = 1\n\"\" = 2",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree := parseTOML(data)
		for _, finding := range tree.sorted() {
			if s := finding.String(); visible(s) != s {
				t.Errorf("finding %q is not safe to print", s)
			}
		}
		decoded := make(map[string]any)
		err := toml.Unmarshal(data, &decoded)
		if len(tree.findings) > 0 {
			if err == nil && tree.damaged && !strings.Contains(tree.sorted()[0].Message, "nested") && invalidUTF8(data) < 0 {
				t.Errorf("the library takes %q, and the tree is damaged: %v", data, tree.findings)
			}
			return
		}
		if outOfRange(tree.root) {
			return
		}
		if err != nil {
			t.Fatalf("parseTOML takes %q, and the library says %v", data, err)
		}
		if got, want := tree.root.plain(), plainDecoded(decoded); !reflect.DeepEqual(got, want) {
			t.Errorf("parseTOML(%q) = %v, and the library reads %v", data, got, want)
		}
	})
}
