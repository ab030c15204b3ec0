package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How many combining marks may stand on one letter. A tall stack of them
// paints over the neighbouring lines.
const (
	maxMarks       = 2 // accents, which go onto any letter
	maxScriptMarks = 4 // vowels and tones that belong to one script: Burmese words have four
)

// maxSpaces is how many spaces may stand in a row. With more of them a text
// could fill the rest of its line, and go on where another line begins.
const maxSpaces = 8

// blankSigns are characters that Unicode counts as letters, marks or symbols
// although they show nothing: fillers, the empty Braille pattern and the like.
// The properties of [hidden] cover the rest.
var blankSigns = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // Braille pattern blank
		{Lo: 0xFFFC, Hi: 0xFFFC, Stride: 1}, // object replacement character
	},
	R32: []unicode.Range32{
		{Lo: 0x16FE4, Hi: 0x16FE4, Stride: 1}, // Khitan filler
		{Lo: 0x1D159, Hi: 0x1D159, Stride: 1}, // musical null notehead
	},
}

// joiningJamo are the Hangul vowels and tails that a terminal draws into the
// cell of the syllable before them, although they are letters.
var joiningJamo = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1160, Hi: 0x11FF, Stride: 1},
		{Lo: 0xD7B0, Hi: 0xD7FF, Stride: 1},
	},
}

// visible returns s as one line that is safe to print on a terminal: nothing
// in it can move the cursor, recolour, reorder, hide or imitate. What is not
// plainly visible is written out as <U+202E>, and a byte that is not UTF-8 as
// <0x9B>: controls, line breaks, format and direction marks, every space but
// the ordinary one, letters that show nothing, private and unassigned
// characters, and combining marks that are stacked or stand on nothing. A long
// row of spaces is written as <20 spaces>. Other text, printable ASCII among
// it, is unchanged.
func visible(s string) string {
	var b strings.Builder
	onBase, marks := false, 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		spaces := len(s[i:]) - len(strings.TrimLeft(s[i:], " "))
		switch {
		case spaces > maxSpaces:
			fmt.Fprintf(&b, "<%d spaces>", spaces)
			onBase, size = false, spaces
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02X>", s[i])
			onBase = false
		case hidden(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
			onBase = false
		case !combines(r):
			b.WriteRune(r)
			onBase, marks = r != ' ', 0
		case onBase && marks < marksAllowed(r):
			b.WriteRune(r)
			marks++
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
			onBase = false
		}
		i += size
	}
	return b.String()
}

// hidden reports whether r shows nothing, or nothing of its own.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) ||
		unicode.In(r, blankSigns, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// combines reports whether r is drawn onto the character before it.
func combines(r rune) bool {
	return unicode.In(r, unicode.M, joiningJamo)
}

// marksAllowed is how many marks one letter may carry when r is among them.
func marksAllowed(r rune) int {
	if unicode.Is(unicode.Inherited, r) {
		return maxMarks
	}
	return maxScriptMarks
}

// shorten cuts s to at most n characters, and marks the cut.
func shorten(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i] + "…"
		}
		n--
	}
	return s
}

// counted is a number of things in words: 1 site, 2 sites.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// sentenceCase is s, which is not empty, with a capital letter at its start.
func sentenceCase(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
