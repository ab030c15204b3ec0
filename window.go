package main

// The window keeps the end of a run's output for pages that follow it: text
// decoded from UTF-8 however reads split it, counted in characters, of which
// the last `limit` are kept.
//
// Appending costs what is appended. Full chunks never change again, so a
// reader takes them without copying under the lock, and their JSON form is
// made once, when the first reader wants it.

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// chunkSize is the size in bytes of one piece of a window. A reader that
// starts inside a piece scans no more than this.
const chunkSize = 32 << 10

// chunk is a piece of valid UTF-8 text.
type chunk struct {
	first int    // offset of its first character
	chars int    // characters in text
	text  []byte // only ever appended to, within its capacity
	lent  bool   // a reader may hold text

	quoted atomic.Pointer[[]byte] // text as the inside of a JSON string, once full
}

// window is safe for one writer and any number of readers.
type window struct {
	limit int // characters kept; at least 1

	mu      sync.Mutex    // guards the rest
	chunks  []*chunk      // oldest first
	end     int           // offset after the last character
	spare   *chunk        // one let go of that no reader holds; may be nil
	partial []byte        // the beginning of a character whose rest is still to come
	closed  bool          // no more will be written
	changed chan struct{} // closed at the next change; nil while nobody waits
}

func newWindow(limit int) *window { return &window{limit: limit} }

// restoredWindow returns a closed window that holds text, valid or not, whose
// first character has the offset first.
func restoredWindow(limit, first int, text []byte) *window {
	w := &window{limit: limit, end: first}
	_, _ = w.Write(text)
	w.close()
	return w
}

// Write appends output. It never fails, and keeps nothing of p.
func (w *window) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	if len(w.partial) > 0 {
		p = append(w.partial, p...)
		w.partial = nil
	}
	w.append(p[:wholeRunes(p)])
	w.partial = slices.Clone(p[wholeRunes(p):])
	w.trim()
	w.wake()
	return n, nil
}

// close says that no more will be written. A character that was never
// completed is replaced.
func (w *window) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.append(w.partial)
	w.partial = nil
	w.trim()
	w.closed = true
	w.wake()
}

func (w *window) wake() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// append adds p, replacing each invalid byte.
func (w *window) append(p []byte) {
	for len(p) > 0 {
		valid := p
		if !utf8.Valid(p) {
			valid = p[:validPrefix(p)]
		}
		w.appendValid(valid)
		p = p[len(valid):]
		if len(p) > 0 {
			w.appendValid([]byte(string(utf8.RuneError)))
			p = p[1:]
		}
	}
}

func (w *window) appendValid(p []byte) {
	for len(p) > 0 {
		c := w.last()
		n := fitRunes(p, cap(c.text)-len(c.text))
		if n == 0 {
			w.addChunk()
			continue
		}
		chars := runeCount(p[:n])
		c.text = append(c.text, p[:n]...)
		c.chars += chars
		w.end += chars
		p = p[n:]
	}
}

// last returns the piece that is being filled.
func (w *window) last() *chunk {
	if len(w.chunks) == 0 {
		w.addChunk()
	}
	return w.chunks[len(w.chunks)-1]
}

// addChunk begins a new piece, in the memory of one that was let go of where
// there is one.
func (w *window) addChunk() {
	w.trim()
	c := w.spare
	w.spare = nil
	if c == nil {
		c = &chunk{text: make([]byte, 0, chunkSize)}
	}
	c.first, c.chars, c.text = w.end, 0, c.text[:0]
	w.chunks = append(w.chunks, c)
}

// trim lets go of the pieces that hold only what is no longer kept.
func (w *window) trim() {
	for len(w.chunks) > 1 && w.chunks[1].first <= w.start() {
		if !w.chunks[0].lent {
			w.spare = w.chunks[0]
		}
		w.chunks[0] = nil
		w.chunks = w.chunks[1:]
	}
}

// start is the offset of the oldest character kept.
func (w *window) start() int {
	if len(w.chunks) == 0 {
		return w.end
	}
	return max(w.chunks[0].first, w.end-w.limit)
}

// piece is a stretch of one chunk as it was at one moment.
type piece struct {
	chunk *chunk
	text  []byte
	whole bool // text is all of a chunk that no longer changes
}

// pieces returns the text from offset on, the offset after it, and whether
// offset is older than what is kept.
func (w *window) pieces(offset int) (found []piece, next int, truncated bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	start := w.start()
	truncated = offset < start
	offset = max(offset, start)
	i, _ := slices.BinarySearchFunc(w.chunks, offset, func(c *chunk, offset int) int {
		if c.first+c.chars <= offset {
			return -1
		}
		return 1
	})
	for ; i < len(w.chunks); i++ {
		c := w.chunks[i]
		skip := runeIndex(c.text, c.chars, max(0, offset-c.first))
		c.lent = true
		found = append(found, piece{c, c.text[skip:], skip == 0 && i < len(w.chunks)-1})
	}
	return found, w.end, truncated
}

// quoted returns the text from offset on as the inside of a JSON string, in
// parts that the caller must not change.
func (w *window) quoted(offset int) (parts [][]byte, next int, truncated bool) {
	found, next, truncated := w.pieces(offset)
	for _, p := range found {
		parts = append(parts, p.quoted())
	}
	return parts, next, truncated
}

func (p piece) quoted() []byte {
	if !p.whole {
		return appendQuoted(nil, p.text)
	}
	if q := p.chunk.quoted.Load(); q != nil {
		return *q
	}
	q := appendQuoted(make([]byte, 0, len(p.text)+len(p.text)/16), p.text)
	p.chunk.quoted.Store(&q)
	return q
}

// contents returns what is kept, in parts that the caller must not change,
// and the offset of its first character.
func (w *window) contents() (parts [][]byte, first int) {
	found, first, _ := w.pieces(0)
	for _, p := range found {
		parts = append(parts, p.text)
		first -= runeCount(p.text)
	}
	return parts, first
}

// size is about how many bytes of memory the window takes.
func (w *window) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, c := range w.chunks {
		n += cap(c.text)
		if q := c.quoted.Load(); q != nil {
			n += cap(*q)
		}
	}
	return n
}

// wait returns when there is output past offset, or the window is closed, or
// ctx ends.
func (w *window) wait(ctx context.Context, offset int) {
	for {
		w.mu.Lock()
		if w.closed || w.end > offset {
			w.mu.Unlock()
			return
		}
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// wholeRunes is the length of p without a last character that is incomplete.
func wholeRunes(p []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if utf8.FullRune(p[len(p)-i:]) {
				return len(p)
			}
			return len(p) - i
		}
	}
	return len(p)
}

// validPrefix is the length of the valid text at the beginning of p.
func validPrefix(p []byte) int {
	i := 0
	for i < len(p) {
		r, n := utf8.DecodeRune(p[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return i
}

// fitRunes is the length of the longest beginning of p that ends with a
// character and is no longer than room.
func fitRunes(p []byte, room int) int {
	if len(p) <= room {
		return len(p)
	}
	for room > 0 && !utf8.RuneStart(p[room]) {
		room--
	}
	return room
}

// runeCount counts the characters of valid text.
func runeCount(p []byte) int {
	if isASCII(p) {
		return len(p)
	}
	return utf8.RuneCount(p)
}

// isASCII looks at eight bytes at a time.
func isASCII(p []byte) bool {
	for len(p) >= 8 {
		if (p[0]|p[1]|p[2]|p[3]|p[4]|p[5]|p[6]|p[7])&utf8.RuneSelf != 0 {
			return false
		}
		p = p[8:]
	}
	for _, b := range p {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// runeIndex is where in text, which has chars characters, the character
// number n begins.
func runeIndex(text []byte, chars, n int) int {
	if n == 0 || chars == len(text) {
		return n
	}
	if n >= chars {
		return len(text)
	}
	i := 0
	for range n {
		_, size := utf8.DecodeRune(text[i:])
		i += size
	}
	return i
}

// appendQuoted appends valid text to dst as it stands inside a JSON string.
func appendQuoted(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	done := 0
	for i, b := range text {
		if b >= ' ' && b != '"' && b != '\\' {
			continue
		}
		dst = append(dst, text[done:i]...)
		done = i + 1
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&0xf])
		}
	}
	return append(dst, text[done:]...)
}
