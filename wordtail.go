package main

import (
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	wordsKept  = 64 << 10 // bytes of what a process wrote
	wordLength = 500      // bytes of a line that are told

	pythonCrash = "Fatal Python error:"
)

// wordTail drains what a process writes to its standard output and error, so
// that it never waits for a reader, and keeps the end of it.
type wordTail struct {
	reader io.ReadCloser
	done   chan struct{} // closed when there is no more to come

	mu   sync.Mutex // guards kept
	kept []byte
}

func newWordTail(reader io.ReadCloser) *wordTail {
	t := &wordTail{reader: reader, done: make(chan struct{})}
	go t.drain() // until the last holder of the other end has ended, or close
	return t
}

func (t *wordTail) drain() {
	defer close(t.done)
	buffer := make([]byte, 16<<10)
	for {
		n, err := t.reader.Read(buffer)
		t.mu.Lock()
		t.kept = append(t.kept, buffer[:n]...)
		if extra := len(t.kept) - wordsKept; extra > 0 {
			t.kept = slices.Delete(t.kept, 0, extra)
		}
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// forget drops what was written so far, such as the greeting of a kernel.
func (t *wordTail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = nil
}

// close gives what still comes a moment, and then stops listening to it.
func (t *wordTail) close(patience time.Duration) {
	waitFor(t.done, patience)
	_ = t.reader.Close()
}

// lines returns the last lines that are not empty, or the first ones of what
// Python writes when it crashes, which goes from the cell outwards.
func (t *wordTail) lines(count int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.kept)
	if crash := strings.LastIndex(text, pythonCrash); crash >= 0 {
		lines := textLines(text[crash:])
		return strings.Join(lines[:min(count, len(lines))], "\n")
	}
	return lastLines(text, count)
}

// lastLines returns the last lines of text that are not empty.
func lastLines(text string, count int) string {
	lines := textLines(text)
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// textLines returns the lines of text that are not empty, each of bounded length.
func textLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" {
			lines = append(lines, cutText(strings.ToValidUTF8(line, "\uFFFD"), wordLength))
		}
	}
	return lines
}

// cutText shortens s to at most limit bytes of whole characters.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
