package main

import "strings"

// shellSafe holds the characters that no POSIX shell treats specially.
const shellSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

// shellQuote writes argv as one line that a POSIX shell splits into exactly
// argv again, the way Python's shlex.join does. It is for reading and for
// echoes: nothing is ever run through a shell. The result still holds whatever
// control characters argv holds; see [visible].
func shellQuote(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = shellQuoteWord(word)
	}
	return strings.Join(words, " ")
}

func shellQuoteWord(word string) string {
	if word != "" && strings.Trim(word, shellSafe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'"'"'`) + "'"
}
