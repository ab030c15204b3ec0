package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func readOnAt(from int) string { return fmt.Sprintf("offset %d reads on", from) }

func TestOutputIsToldAsAPersonWouldLastHaveSeenIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"plain", "a\tb\nc\n", "a\tb\nc\n"},
		{"colours", "\x1b[1;32mok\x1b[0m\n", "ok\n"},
		{"colours in eight bits", "\u009b31mok\u009b0m", "ok"},
		{"progress", "  0%\r 50%\r100%\ndone\n", "100%\ndone\n"},
		{"progress that goes on", "a\n10%\r20%\r", "a\n20%"},
		{"line ends of Windows", "a\r\nb\r\r\n", "a\nb\n"},
		{"a line erased and written again", "Downloading 1/9\r\x1b[KDone", "Done"},
		{"backspaces", "ab\b\bxy\n\bz", "xy\nz"},
		{"title", "\x1b]0;title\aok \x1b]8;;https://a.example\x1b\\link\x1b]8;;\x1b\\", "ok link"},
		{"title without an end", "\x1b]0;title\nshown", "\nshown"},
		{"sequence without an end", "a\x1b[31", "a"},
		{"sequence cut by a line end", "a\x1b[3\nb", "a\nb"},
		{"character set", "\x1b(Bok\x1b=\x1b7", "ok"},
		{"other controls", "a\x00b\x07c\x7f", "abc"},
		{"text that a person does not see", "a\u202eb\U000e0041", "a<U+202E>b<U+E0041>"},
		{"text in selectors of variants", "a\U000e0141\ufe03\u3164", "a<U+E0141><U+FE03><U+3164>"},
		{"characters that emoji need", "\u2764\ufe0f\u200d\U0001f525", "\u2764\ufe0f\u200d\U0001f525"},
		{"joined emoji", "👩\u200d💻", "👩\u200d💻"},
		{"not UTF-8", "a\xffb", "a\ufffdb"},
	} {
		if got := outputText(c.in, 0).within(1000, readOnAt); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	if got := exactText("\x1b[1ma\r\n", 0).within(1000, readOnAt); got != "\x1b[1ma\r\n" {
		t.Errorf("exact text became %q", got)
	}
}

var leftOut = regexp.MustCompile(`(?s)^(.*)\n\[(\d+) characters are left out here, from offset (\d+) on: offset \d+ reads on\]\n(.*)$`)

// readAll reads a text as a model would that wants all of it.
func readAll(t *testing.T, text string, limit int) string {
	t.Helper()
	var all strings.Builder
	runes := []rune(text)
	for offset := 0; ; {
		got := exactText(string(runes[offset:]), offset).within(limit, readOnAt)
		if len(got) > limit {
			t.Fatalf("%d bytes of %d", len(got), limit)
		}
		parts := leftOut.FindStringSubmatch(got)
		if parts == nil {
			return all.String() + got
		}
		all.WriteString(parts[1])
		next, err := strconv.Atoi(parts[3])
		if err != nil || next <= offset {
			t.Fatalf("%q leads from %d to %d", got, offset, next)
		}
		if !strings.HasSuffix(text, parts[4]) {
			t.Fatalf("%q is not the end", parts[4])
		}
		offset = next
	}
}

func TestWhatIsLeftOutCanBeRead(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&lines, "line %d ü 日本\n", i)
	}
	for _, text := range []string{lines.String(), strings.Repeat("x", 50_000), strings.Repeat("日", 20_000)} {
		if got := readAll(t, text, modelTextLimit); got != text {
			t.Errorf("%.20q of %d bytes was read as %d", text, len(text), len(got))
		}
	}
	got := outputText(lines.String(), 100).within(2000, readOnAt)
	if !strings.HasPrefix(got, "line 0 ü") || !strings.HasSuffix(got, "line 2999 ü 日本\n") || !strings.Contains(got, "日本\n\n[") || !strings.Contains(got, "]\nline ") {
		t.Errorf("not cut between lines: %q", got)
	}
}

func TestVeryLongTextIsReadAtItsEnds(t *testing.T) {
	t.Parallel()
	quiet := strings.Repeat("\x1b[0m", modelReadLimit) // shows nothing at all
	got := outputText("begin\n"+quiet+"\nend\n", 0).within(2000, readOnAt)
	parts := leftOut.FindStringSubmatch(got)
	if parts == nil || parts[1] != "begin\n" || !strings.HasSuffix(parts[4], "\nend\n") {
		t.Fatalf("got %q", got)
	}
	if from, _ := strconv.Atoi(parts[3]); from != modelReadLimit {
		t.Errorf("the rest begins at %d, want %d", from, modelReadLimit)
	}
}

func FuzzOutputForAModel(f *testing.F) {
	for _, seed := range []string{"a\x1b[31mb\x1b[0m\r\nc", "1%\r2%\r\n", "\x1b]0;t\a", "\u009b1m\u009d x", "\xff\x1b", "a\u202eb", strings.Repeat("ab\n", 400)} {
		f.Add(seed, 1024)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 512 + limit&0x3ff
		got := outputText(text, 7).within(limit, readOnAt)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Fatalf("%d bytes, limit %d", len(got), limit)
		}
		for _, r := range got {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || formats(r)) {
				t.Fatalf("%U is left in %q", r, got)
			}
		}
		if valid := strings.ToValidUTF8(text, "?"); !strings.Contains(valid, "characters are left out") {
			if all := readAll(t, valid, limit); all != valid {
				t.Fatalf("%q was read as %q", valid, all)
			}
		}
	})
}
