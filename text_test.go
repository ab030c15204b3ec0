package main

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestVisibleShowsWhatATerminalWouldHide(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"plain text", `rm -rf "$HOME" ~!@#%^&*()_+{}|:<>?`, `rm -rf "$HOME" ~!@#%^&*()_+{}|:<>?`},
		{"empty", "", ""},
		{"letters of many scripts", "Grüße, Привет, 你好, שלום, ไทย, हिन्दी, 각", "Grüße, Привет, 你好, שלום, ไทย, हिन्दी, 각"},
		{"decomposed letters", "e\u0301 o\u0302\u0301 \u1100\u1161\u11A8", "e\u0301 o\u0302\u0301 \u1100\u1161\u11A8"},
		{"emoji", "🚀👍🏽", "🚀👍🏽"},
		{"escape sequence", "a\x1b[2Jb", "a<U+001B>[2Jb"},
		{"line breaks and tab", "a\r\nb\tc\vd\fe\u0085f\u2028g\u2029h", "a<U+000D><U+000A>b<U+0009>c<U+000B>d<U+000C>e<U+0085>f<U+2028>g<U+2029>h"},
		{"backspace, NUL and delete", "a\b\x00\x7f", "a<U+0008><U+0000><U+007F>"},
		{"control of one byte", "a\x9b2J", "a<0x9B>2J"},
		{"control of one byte as UTF-8", "a\u009b2J", "a<U+009B>2J"},
		{"surrogate, overlong and cut bytes", "\xed\xa0\x80 \xc0\xaf \xe2\x82", "<0xED><0xA0><0x80> <0xC0><0xAF> <0xE2><0x82>"},
		{"replacement character itself", "\uFFFD", "\uFFFD"},
		{"direction marks", "\u202Ea\u2066b\u2069\u200F\u061C", "<U+202E>a<U+2066>b<U+2069><U+200F><U+061C>"},
		{"zero width", "a\u200Bb\u200Cc\u200Dd\uFEFFe\u2060f\u00ADg", "a<U+200B>b<U+200C>c<U+200D>d<U+FEFF>e<U+2060>f<U+00AD>g"},
		{"tag letters", "a\U000E0041\U000E007F", "a<U+E0041><U+E007F>"},
		{"spaces in a row", "a        b", "a        b"},
		{"spaces that fill a line", "a" + strings.Repeat(" ", 70) + "Access: none", "a<70 spaces>Access: none"},
		{"look-alike spaces", "a\u00A0b\u2003c\u3000d\u1680e\u202Ff\u205Fg", "a<U+00A0>b<U+2003>c<U+3000>d<U+1680>e<U+202F>f<U+205F>g"},
		{"letters that show nothing", "\u115F\u1160\u3164\uFFA0\u2800\u17B4\u17B5\u180E\u180B", "<U+115F><U+1160><U+3164><U+FFA0><U+2800><U+17B4><U+17B5><U+180E><U+180B>"},
		{"joiner and selectors", "a\u034Fb\uFE0Fc\U000E0100", "a<U+034F>b<U+FE0F>c<U+E0100>"},
		{"other blanks", "\uFFFC\U00016FE4\U0001D159\U0001D173", "<U+FFFC><U+16FE4><U+1D159><U+1D173>"},
		{"private and unassigned", "\uE000\U000F0000\u0378\uFFFE\U0010FFFF", "<U+E000><U+F0000><U+0378><U+FFFE><U+10FFFF>"},
		{"stacked marks", "a\u0301\u0302\u0303\u0304b", "a\u0301\u0302<U+0303><U+0304>b"},
		{"marks of one script", "\u1019\u103C\u102D\u102F\u1037 \u05D1\u05BC\u05B8\u0596", "\u1019\u103C\u102D\u102F\u1037 \u05D1\u05BC\u05B8\u0596"},
		{"stacked marks of one script", "\u1019\u102D\u102D\u102D\u102D\u102D", "\u1019\u102D\u102D\u102D\u102D<U+102D>"},
		{"mark without a letter", "\u0301a \u0301\x1b\u0301", "<U+0301>a <U+0301><U+001B><U+0301>"},
		{"vowel without a syllable", "\u1161", "<U+1161>"},
	}
	for _, test := range tests {
		if got := visible(test.in); got != test.want {
			t.Errorf("%s: visible(%q) = %q, want %q", test.name, test.in, got, test.want)
		}
	}
}

func TestShortenCountsCharacters(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		n    int
		want string
	}{{"", 0, ""}, {"äöü", 3, "äöü"}, {"äöü", 2, "äö…"}, {"abc", 0, "…"}, {"\xff\xff", 1, "\xff…"}}
	for _, test := range tests {
		if got := shorten(test.in, test.n); got != test.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", test.in, test.n, got, test.want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"", "abc", "a\x1b[2J\r\n", "\x9b", "\u202E\u2066", "e\u0301\u0301\u0301", "\U000E0041", "\u1100\u1161\u11A8", "         ", "\xed\xa0\x80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := visible(s)
		if !utf8.ValidString(got) {
			t.Errorf("visible(%q) = %q is not UTF-8", s, got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) || unicode.In(r, unicode.C, unicode.Z, unicode.Variation_Selector) && r != ' ' {
				t.Errorf("visible(%q) = %q still holds %U", s, got, r)
			}
		}
		if again := visible(got); again != got {
			t.Errorf("visible(%q) = %q, which visible changes to %q", s, got, again)
		}
		if strings.Trim(s, printableASCII()) == "" && !strings.Contains(s, strings.Repeat(" ", maxSpaces+1)) && got != s {
			t.Errorf("visible(%q) = %q changes printable ASCII", s, got)
		}
	})
}

func printableASCII() string {
	var b strings.Builder
	for c := byte(' '); c <= '~'; c++ {
		b.WriteByte(c)
	}
	return b.String()
}
