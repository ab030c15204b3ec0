package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// readWindow returns what a page would read from offset on.
func readWindow(t testing.TB, w *window, offset int) (text string, next int, truncated bool) {
	t.Helper()
	parts, next, truncated := w.quoted(offset)
	quoted := `"` + string(bytes.Join(parts, nil)) + `"`
	if err := json.Unmarshal([]byte(quoted), &text); err != nil {
		t.Fatalf("window quotes %q: %v", quoted, err)
	}
	return text, next, truncated
}

func TestWindowDecodesTextHoweverWritesSplitIt(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"plain", "hello\n", "hello\n"},
		{"two, three and four bytes", "é漢😀", "é漢😀"},
		{"invalid byte", "a\xffb", "a\uFFFDb"},
		{"character cut by the end", "a\xe6\xbc", "a\uFFFD\uFFFD"},
		{"character cut by another", "\xe6\xbca", "\uFFFD\uFFFDa"},
		{"surrogate", "\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
		{"quotes and controls", "\"\\\x00\x1b[31m\r\t", "\"\\\x00\x1b[31m\r\t"},
		{"replacement character itself", "\uFFFD", "\uFFFD"},
	}
	for _, test := range tests {
		for size := 1; size <= len(test.in); size++ {
			w := newWindow(1000)
			for rest := []byte(test.in); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				_, _ = w.Write(rest[:min(size, len(rest))])
			}
			w.close()
			got, next, truncated := readWindow(t, w, 0)
			if got != test.want || next != utf8.RuneCountInString(test.want) || truncated {
				t.Errorf("%s in writes of %d: got %q, next %d, truncated %v; want %q", test.name, size, got, next, truncated, test.want)
			}
		}
	}
}

func TestWindowKeepsExactlyItsLastCharacters(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"a", "é", "漢", "😀", "aé漢😀"} {
		for _, limit := range []int{1, 10, chunkSize, 3*chunkSize + 7} {
			w := newWindow(limit)
			whole := strings.Repeat(unit, 5*chunkSize/utf8.RuneCountInString(unit))
			for rest := whole; rest != ""; {
				n := min(len(rest), 4097)
				_, _ = w.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			runes := []rune(whole)
			got, next, truncated := readWindow(t, w, 0)
			if want := string(runes[len(runes)-limit:]); got != want || next != len(runes) || !truncated {
				t.Errorf("%q, limit %d: %d characters kept, next %d, truncated %v; want %d, %d, true",
					unit, limit, utf8.RuneCountInString(got), next, truncated, limit, len(runes))
			}
		}
	}
}

func TestWindowOffsets(t *testing.T) {
	t.Parallel()
	w := newWindow(5)
	_, _ = w.Write([]byte("añb漢cd"))
	tests := []struct {
		offset    int
		want      string
		truncated bool
	}{
		{0, "ñb漢cd", true},
		{1, "ñb漢cd", false},
		{3, "漢cd", false},
		{6, "", false},
		{100, "", false},
	}
	for _, test := range tests {
		got, next, truncated := readWindow(t, w, test.offset)
		if got != test.want || next != 6 || truncated != test.truncated {
			t.Errorf("offset %d: got %q, %d, %v; want %q, 6, %v", test.offset, got, next, truncated, test.want, test.truncated)
		}
	}
}

func TestWindowWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(10)
		start := time.Now()
		time.AfterFunc(3*time.Second, func() { _, _ = w.Write([]byte("x")) })
		w.wait(t.Context(), 0)
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("output came after 3s, wait returned after %v", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.wait(ctx, 1)
		if got := time.Since(start); got != 4*time.Second {
			t.Errorf("wait without output returned after %v, want 4s in all", got)
		}
		time.AfterFunc(time.Second, w.close)
		w.wait(t.Context(), 1)
		if got := time.Since(start); got != 5*time.Second {
			t.Errorf("wait for the end returned after %v, want 5s in all", got)
		}
	})
}

func TestRestoredWindowContinuesTheOffsets(t *testing.T) {
	t.Parallel()
	w := newWindow(4)
	_, _ = w.Write([]byte("one漢two"))
	parts, first := w.contents()
	again := restoredWindow(4, first, bytes.Join(parts, nil))
	got, next, truncated := readWindow(t, again, 0)
	if got != "漢two" || next != 7 || !truncated {
		t.Errorf("restored window reads %q, %d, %v; want 漢two, 7, true", got, next, truncated)
	}
}

func FuzzWindow(f *testing.F) {
	f.Add([]byte("a\xffé漢😀"), uint16(3), uint16(2), uint16(1))
	f.Fuzz(func(t *testing.T, data []byte, limit, size, offset uint16) {
		w := newWindow(int(limit) + 1)
		for rest := data; len(rest) > 0; {
			n := min(int(size)%64+1, len(rest))
			_, _ = w.Write(rest[:n])
			rest = rest[n:]
		}
		w.close()
		all := []rune(string(data)) // Go replaces invalid bytes one by one, as the window does
		start := max(0, len(all)-int(limit)-1)
		from := min(max(int(offset), start), len(all))
		got, next, truncated := readWindow(t, w, int(offset))
		if got != string(all[from:]) || next != len(all) || truncated != (int(offset) < start) {
			t.Errorf("offset %d of %q with limit %d: got %q, %d, %v; want %q", offset, data, int(limit)+1, got, next, truncated, string(all[from:]))
		}
	})
}

func BenchmarkWindowWrite(b *testing.B) {
	line := bytes.Repeat([]byte("a line of output that says little\n"), 2000)[:64<<10]
	w := newWindow(1_000_000)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		_, _ = w.Write(line)
	}
}

func BenchmarkWindowReadWhole(b *testing.B) {
	w := newWindow(1_000_000)
	_, _ = w.Write(bytes.Repeat([]byte("a line of output that says little\n"), 40_000))
	for b.Loop() {
		_, _, _ = w.quoted(0)
	}
}
