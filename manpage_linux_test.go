package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// manText is the manual page as a person reads it, in lines of one paragraph
// each, and what a checker finds wrong with its source.
func manText(t *testing.T) (text, mistakes string) {
	t.Helper()
	path, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("this test needs mandoc: sudo apt-get install mandoc")
	}
	file := filepath.Join(t.TempDir(), "agent-runtime.1")
	got := sayHere(t, programEnv(t.TempDir()), "man")
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("man: %+v", got)
	}
	writeTestFile(t, file, got.stdout)
	// Findings end mandoc with a status of its own; they are read, not that.
	found, _ := exec.CommandContext(t.Context(), path, "-Tlint", file).Output()
	shown, err := exec.CommandContext(t.Context(), path, "-Tutf8", "-Owidth=1000", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	overstruck := regexp.MustCompile(".\b")
	return overstruck.ReplaceAllString(string(shown), ""), string(found)
}

func TestManualPageTellsWhatTheTablesHold(t *testing.T) {
	t.Parallel()
	text, mistakes := manText(t)
	for line := range strings.Lines(mistakes) {
		if !strings.Contains(line, "missing date") { // a date would differ from build to build
			t.Errorf("mandoc says: %s", line)
		}
	}
	for _, cmd := range commands() {
		if !strings.Contains(text, " "+cmd.synopsis()) || !strings.Contains(text, sentenceCase(cmd.summary)) {
			t.Errorf("the page does not tell of %s as the help does", cmd.synopsis())
		}
		for _, a := range cmd.flags() {
			if !strings.Contains(text, a.String()) {
				t.Errorf("the page does not tell of %s %s", cmd.name, a)
			}
		}
	}
	for _, k := range configKeys() {
		if !strings.Contains(text, k.key) || !strings.Contains(text, k.env) || !strings.Contains(text, k.want) {
			t.Errorf("the page does not tell of %s, %s", k.key, k.env)
		}
	}
	documented := readDoc(t, "docs/configuration.md")
	for _, f := range dataFiles {
		if !strings.Contains(documented, "\n| `"+f.path) || !strings.Contains(text, f.path) {
			t.Errorf("%s is not a file of docs/configuration.md and of the page", f.path)
		}
	}
}

func TestManualPageTakesTextAsText(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		".TH is no macro": `\&.TH is no macro`, "'tis": `\(aqtis`, `C:\x`: `C:\ex`, "--age": `\-\-age`, "~/x^2`": `\(ti/x\(ha2\(ga`, `a "b"`: `a \(dqb\(dq`,
	} {
		if got := roff(s); got != want {
			t.Errorf("roff(%q) = %q, want %q", s, got, want)
		}
	}
}
