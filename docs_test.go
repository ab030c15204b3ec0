package main

import (
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func readDoc(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// docFiles are all documents for people.
func docFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	return append(files, "README.md", "CHANGELOG.md")
}

// tableRows are the cells of the rows of every table whose header begins with
// the cell first, without the header.
func tableRows(doc, first string) [][]string {
	var rows [][]string
	inside := false
	for line := range strings.SplitSeq(doc, "\n") {
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case cells[0] == first:
			inside = true
		case inside && !strings.HasPrefix(cells[0], "---"):
			rows = append(rows, cells)
		}
	}
	return rows
}

// unquoted is a cell without the marks of code.
func unquoted(cell string) string { return strings.Trim(cell, "`") }

func TestEveryRouteIsDocumentedWithItsScope(t *testing.T) {
	t.Parallel()
	var documented, served []string
	for _, cells := range tableRows(readDoc(t, "docs/protocol.md"), "route") {
		documented = append(documented, unquoted(cells[0])+" "+cells[1])
	}
	for _, rt := range routes(&server{}) {
		served = append(served, rt.method+" "+strings.TrimSuffix(rt.pattern, "{$}")+" "+string(rt.scope))
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("docs/protocol.md has the routes\n%s\nand served are\n%s", strings.Join(documented, "\n"), strings.Join(served, "\n"))
	}
}

func TestScopesAreDocumentedAsTheTerminalTellsThem(t *testing.T) {
	t.Parallel()
	rows := tableRows(readDoc(t, "docs/protocol.md"), "scope")
	if len(rows) != len(scopes) {
		t.Fatalf("docs/protocol.md has %d scopes, want %d", len(rows), len(scopes))
	}
	for i, s := range scopes {
		if unquoted(rows[i][0]) != string(s.name) || rows[i][2] != s.text {
			t.Errorf("docs/protocol.md tells %q, want %q and %q", rows[i], s.name, s.text)
		}
	}
	page := readDoc(t, "docs/integration.md")
	if want := "Access: actions - this site could " + scopeActions.text(); !strings.Contains(page, want) {
		t.Errorf("docs/integration.md shows no question with %q", want)
	}
}

func TestEveryStatusOfARouteIsDocumented(t *testing.T) {
	t.Parallel()
	var documented strings.Builder
	for _, cells := range tableRows(readDoc(t, "docs/protocol.md"), "status") {
		documented.WriteString(cells[0] + " ")
	}
	for k := kindInternal; k <= kindFull; k++ {
		if status := k.status(); !strings.Contains(documented.String(), strconv.Itoa(status)) {
			t.Errorf("docs/protocol.md lacks the status %d", status)
		}
	}
}

func TestEveryKeyIsDocumentedWithItsDefault(t *testing.T) {
	t.Parallel()
	rows := tableRows(readDoc(t, "docs/configuration.md"), "key")
	keys := configKeys()
	if len(rows) != len(keys) {
		t.Fatalf("docs/configuration.md has %d keys, want %d", len(rows), len(keys))
	}
	var file strings.Builder
	for i, k := range keys {
		key, env, value, want := unquoted(rows[i][0]), unquoted(rows[i][1]), rows[i][2], rows[i][3]
		if key != k.key || env != k.env || want != k.want {
			t.Errorf("docs/configuration.md has %q, want %q, %q and %q", rows[i], k.key, k.env, k.want)
		}
		if strings.HasPrefix(value, "`") {
			file.WriteString(key + " = " + unquoted(value) + "\n")
		}
	}
	got := config{dir: "/data"}
	if findings := got.apply([]byte(file.String())); len(findings) > 0 {
		t.Fatalf("the defaults of docs/configuration.md are refused: %v", findings)
	}
	want := defaultConfig("/data")
	want.allowedHosts, got.allowedHosts = nil, nil
	want.sandbox.runtimeDirs, got.sandbox.runtimeDirs = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the defaults of docs/configuration.md are\n%+v\nwant\n%+v", got, want)
	}
}

func TestEveryCommandIsDocumented(t *testing.T) {
	t.Parallel()
	var documented, known []string
	for _, cells := range tableRows(readDoc(t, "README.md"), "command") {
		documented = append(documented, unquoted(cells[0]))
	}
	for _, cmd := range commands() {
		known = append(known, strings.TrimSpace(cmd.name+" "+cmd.args))
	}
	slices.Sort(documented)
	slices.Sort(known)
	if !slices.Equal(documented, known) {
		t.Errorf("README.md has the commands\n%s\nand there are\n%s", strings.Join(documented, "\n"), strings.Join(known, "\n"))
	}
}

// docLink is a link of a document: [text](target).
var docLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksBetweenDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, file := range docFiles(t) {
		for _, link := range docLink.FindAllStringSubmatch(withoutCode(readDoc(t, file)), -1) {
			target, err := url.Parse(link[1])
			if err != nil {
				t.Errorf("%s links to %q: %v", file, link[1], err)
				continue
			}
			if target.Scheme != "" {
				continue
			}
			path := file
			if target.Path != "" {
				path = filepath.Join(filepath.Dir(file), target.Path)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s, which is not there", file, link[1])
				continue
			}
			if target.Fragment != "" && !slices.Contains(headings(readDoc(t, path)), target.Fragment) {
				t.Errorf("%s links to %s, and there is no such heading", file, link[1])
			}
		}
	}
}

// withoutCode is a document without its fenced blocks.
func withoutCode(doc string) string {
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(doc, "")
}

// headings are the names under which the headings of a document are linked.
func headings(doc string) []string {
	var names []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(withoutCode(doc), -1) {
		name := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

func TestManifestsOfTheDocumentsAreValid(t *testing.T) {
	t.Parallel()
	count := 0
	blocks := regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(readDoc(t, "docs/lab-toml.md"), -1)
	for _, block := range blocks {
		if !strings.HasPrefix(block[1], "schema") {
			continue
		}
		count++
		if _, findings := parseManifest([]byte(block[1])); len(findings) > 0 {
			t.Errorf("a manifest of docs/lab-toml.md is not valid: %v\n%s", findings, block[1])
		}
	}
	if count < 2 {
		t.Errorf("docs/lab-toml.md has %d whole manifests, want 2 at least", count)
	}
	for _, block := range regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(readDoc(t, "docs/configuration.md"), -1) {
		cfg := defaultConfig("/data")
		if findings := cfg.apply([]byte(block[1])); len(findings) > 0 {
			t.Errorf("an example of docs/configuration.md is refused: %v\n%s", findings, block[1])
		}
	}
}

func TestEveryToolOfAgentsIsDocumented(t *testing.T) {
	t.Parallel()
	var documented, known []string
	for _, cells := range tableRows(readDoc(t, "docs/agents.md"), "tool") {
		documented = append(documented, unquoted(cells[0])+" "+strings.ReplaceAll(cells[1], "`", ""))
	}
	for _, tool := range newMCPSession(nil, "", nil).tools {
		words := []string{tool.name}
		for _, p := range tool.params {
			if p.required {
				words = append(words, p.name)
			} else {
				words = append(words, "["+p.name+"]")
			}
		}
		known = append(known, strings.Join(words, " "))
	}
	if !slices.Equal(documented, known) {
		t.Errorf("docs/agents.md has the tools\n%s\nand there are\n%s", strings.Join(documented, "\n"), strings.Join(known, "\n"))
	}
}
