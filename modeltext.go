package main

// Text for a language model: what a program wrote as a person would last have
// seen it, and no more of it than a model should be given at once, with the
// place where the rest begins.

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// modelTextLimit is how many bytes of text one result may have in all.
	modelTextLimit = 16 << 10

	// modelReadLimit is how many bytes of each end of a text are looked at.
	// More of a result is never shown.
	modelReadLimit = 512 << 10

	// modelNoteRoom is kept free for the sentence about what was left out.
	modelNoteRoom = 300
)

// modelChar is a character and its place in the text that it is from.
type modelChar struct {
	char rune
	at   int
}

// modelText is a text, which may have lost characters on the way.
type modelText struct {
	chars []modelChar
	end   int // the place after the last
	gap   *textGap
}

// textGap is where the middle of a very long text was not looked at.
type textGap struct{ index, at int }

// fromChar returns what of a text comes after its first n characters, and the
// place of that: n, or the end of a shorter text.
func fromChar(text string, n int) (rest string, place int) {
	for i := range text {
		if place == n {
			return text[i:], place
		}
		place++
	}
	return "", place
}

// exactText is text whose first character has the place first, unchanged.
func exactText(text string, first int) modelText {
	return bothEnds(text, first, func(t *modelText, part string) {
		for _, r := range part {
			t.chars = append(t.chars, modelChar{r, t.end})
			t.end++
		}
	})
}

// outputText is a program's output, whose first character has the place first,
// without escape sequences and other controls. Of a line that was written over
// and over its last state is left. What Unicode has to format text invisibly is
// written out, since a person does not see it.
func outputText(text string, first int) modelText {
	return bothEnds(text, first, func(t *modelText, part string) {
		screen := textScreen{modelText: t, line: len(t.chars)}
		for len(part) > 0 {
			size := controlLength(part)
			if size == 0 {
				var r rune
				r, size = utf8.DecodeRuneInString(part)
				screen.put(r)
			}
			t.end += utf8.RuneCountInString(part[:size])
			part = part[size:]
		}
	})
}

// bothEnds reads a text, and only the ends of one that is very long.
func bothEnds(text string, first int, read func(t *modelText, part string)) modelText {
	t := modelText{end: first}
	if len(text) <= 2*modelReadLimit {
		read(&t, text)
		return t
	}
	head := cutText(text, modelReadLimit)
	tail := text[len(text)-modelReadLimit:]
	for !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	read(&t, head)
	t.gap = &textGap{len(t.chars), t.end}
	t.end += utf8.RuneCountInString(text[len(head) : len(text)-len(tail)])
	read(&t, tail)
	return t
}

// textScreen writes characters as a terminal does that has only a last line.
type textScreen struct {
	*modelText
	line     int  // where in chars the last line begins
	returned bool // the next character replaces that line
}

func (s *textScreen) put(r rune) {
	switch {
	case r == '\n':
		s.chars = append(s.chars, modelChar{r, s.end})
		s.line, s.returned = len(s.chars), false
	case r == '\r':
		s.returned = true
	case r == '\b':
		s.chars = s.chars[:max(s.line, len(s.chars)-1)]
	case r != '\t' && unicode.IsControl(r):
	default:
		if s.returned {
			s.chars, s.returned = s.chars[:s.line], false
		}
		if formats(r) {
			for _, shown := range fmt.Sprintf("<U+%04X>", r) {
				s.chars = append(s.chars, modelChar{shown, s.end})
			}
			return
		}
		s.chars = append(s.chars, modelChar{r, s.end})
	}
}

// formats reports whether r shows nothing itself. Such characters can carry a
// text of their own that a model reads and a person does not see. Four that
// words and emoji need are passed on.
func formats(r rune) bool {
	switch r {
	case '\u200c', '\u200d', '\ufe0e', '\ufe0f':
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// controlLength is the length of the escape sequence that text begins with; 0
// when it begins with none. Nothing beyond its line is taken for part of one.
func controlLength(text string) int {
	r, size := utf8.DecodeRuneInString(text)
	if r == '\x1b' && len(text) > size {
		if next := text[size]; strings.IndexByte("[]PX^_", next) >= 0 {
			r, size = rune(next)+0x40, size+1 // the form of one character
		} else {
			return size + escapeEnd(text[size:], '0', '~')
		}
	}
	switch r {
	case '\x1b':
		return size
	case '\u009b':
		return size + escapeEnd(text[size:], '@', '~')
	case '\u009d', '\u0090', '\u0098', '\u009e', '\u009f':
		return size + stringEnd(text[size:])
	}
	return 0
}

// escapeEnd is the length of a sequence's rest, which ends with a character
// between low and high, and earlier where something stands that cannot be in one.
func escapeEnd(text string, low, high byte) int {
	for i := range len(text) {
		switch b := text[i]; {
		case low <= b && b <= high:
			return i + 1
		case b < ' ' || b > high:
			return i
		}
	}
	return len(text)
}

// stringEnd is the length of the rest of a sequence that holds a text, such as
// a window's title.
func stringEnd(text string) int {
	for i, r := range text {
		switch {
		case r == '\a' || r == '\u009c':
			return i + utf8.RuneLen(r)
		case r == '\x1b' && strings.HasPrefix(text[i:], "\x1b\\"):
			return i + 2
		case r == '\x1b' || r == '\n' || r == '\r':
			return i
		}
	}
	return len(text)
}

// within returns the text in at most limit bytes. When it has more, its
// beginning and end are returned with a sentence between them that names what
// was left out, and rest, which says how to read what begins at a place.
func (t modelText) within(limit int, rest func(from int) string) string {
	size := 0
	for _, c := range t.chars {
		size += utf8.RuneLen(c.char)
	}
	if size <= limit && t.gap == nil {
		return t.text(0, len(t.chars))
	}
	room := max(0, limit-modelNoteRoom) / 2
	head, tail := t.head(room), t.tail(room)
	from, to := t.place(head), t.place(tail)
	if t.gap != nil {
		head, tail = min(head, t.gap.index), max(tail, t.gap.index)
		from, to = min(t.place(head), t.gap.at), t.place(tail)
	}
	note := fmt.Sprintf("\n[%d characters are left out here, from offset %d on: %s]\n", to-from, from, rest(from))
	return t.text(0, head) + cutText(note, modelNoteRoom) + t.text(tail, len(t.chars))
}

// place is where the character number i stood.
func (t modelText) place(i int) int {
	if i < len(t.chars) {
		return t.chars[i].at
	}
	return t.end
}

// head is how many characters from the beginning on have room, to the end of a
// line where one is near.
func (t modelText) head(room int) int {
	n, size, lineEnd := 0, 0, 0
	for ; n < len(t.chars); n++ {
		if size += utf8.RuneLen(t.chars[n].char); size > room {
			break
		}
		if t.chars[n].char == '\n' {
			lineEnd = n + 1
		}
	}
	if lineEnd > n/2 {
		return lineEnd
	}
	return n
}

// tail is the first of the last characters that have room, the beginning of a
// line where one is near.
func (t modelText) tail(room int) int {
	n, size, lineStart := len(t.chars), 0, len(t.chars)
	for ; n > 0; n-- {
		if size += utf8.RuneLen(t.chars[n-1].char); size > room {
			break
		}
		if n > 1 && t.chars[n-2].char == '\n' {
			lineStart = n - 1
		}
	}
	if lineStart-n < (len(t.chars)-n)/2 {
		return lineStart
	}
	return n
}

func (t modelText) text(from, to int) string {
	var b strings.Builder
	for _, c := range t.chars[from:to] {
		b.WriteRune(c.char)
	}
	return b.String()
}
