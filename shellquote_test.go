package main

import (
	"errors"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestShellQuote(t *testing.T) {
	t.Parallel()
	tests := []struct {
		argv []string
		want string
	}{
		{nil, ""},
		{[]string{""}, "''"},
		{[]string{"python", "-m", "http.server", "8000"}, "python -m http.server 8000"},
		{[]string{"a@b%c+d=e:f,g./h-i_j"}, "a@b%c+d=e:f,g./h-i_j"},
		{[]string{"echo", "hello world", "~", "$HOME", "*"}, "echo 'hello world' '~' '$HOME' '*'"},
		{[]string{"it's"}, `'it'"'"'s'`},
		{[]string{"'"}, `''"'"''`},
		{[]string{"é"}, "'é'"},
		{[]string{"a\nb", `back\slash`}, "'a\nb' 'back\\slash'"},
	}
	for _, test := range tests {
		if got := shellQuote(test.argv); got != test.want {
			t.Errorf("shellQuote(%q) = %s, want %s", test.argv, got, test.want)
		}
	}
}

func TestShellReadsBackWhatWasQuoted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	argv := []string{"", "a b", "'", `"`, "$HOME `id` $(id)", "*", "~", "-n", "#", "!", "\\", "\t\n", "é\xff", "a;b&c|d<e>f", "{a,b}", "x=y"}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\0' `+shellQuote(argv)).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if !slices.Equal(got, argv) {
		t.Errorf("sh read %q, want %q", got, argv)
	}
}

// shellSplit splits a line as a POSIX shell does that expands nothing: it
// refuses every character outside quotes that a shell would treat specially.
func shellSplit(line string) ([]string, error) {
	var words []string
	word, inWord, quote := "", false, byte(0)
	for i := range len(line) {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '"' && strings.IndexByte("$`\\", c) >= 0:
			return nil, errors.New("an expansion in double quotes")
		case quote != 0:
			word += string([]byte{c})
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == ' ':
			if inWord {
				words = append(words, word)
			}
			word, inWord = "", false
		case strings.IndexByte("|&;<>()$`\\*?[]#~{}!^\t\n", c) >= 0 || c < ' ' || c >= 0x7F:
			return nil, errors.New("a bare special character")
		default:
			word, inWord = word+string([]byte{c}), true
		}
	}
	if quote != 0 {
		return nil, errors.New("an open quote")
	}
	if inWord {
		words = append(words, word)
	}
	return words, nil
}

func FuzzShellQuote(f *testing.F) {
	f.Add("echo", "it's", "")
	f.Add("~", "$HOME", "a\nb")
	f.Add("\xff", "é", "''\"'\"")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		argv := []string{a, b, c}
		line := shellQuote(argv)
		got, err := shellSplit(line)
		if err != nil || !slices.Equal(got, argv) {
			t.Errorf("shellQuote(%q) = %s, which splits into %q, %v", argv, line, got, err)
		}
	})
}
