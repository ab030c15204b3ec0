package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const helloManifest = `schema = 1
id = "hello-lab"
title = "Hello"

[actions.greet]
label = "Say hello"
description = "Prints one line."
steps = [["python", "-c", "print('hello')"]]
timeout = 60
`

func TestManifestIsRead(t *testing.T) {
	t.Parallel()
	m, found := parseManifest([]byte(helloManifest))
	if len(found) > 0 {
		t.Fatal(found)
	}
	want := &manifest{
		id: "hello-lab", title: "Hello",
		actions: []action{{
			Name: "greet", Label: "Say hello", Description: "Prints one line.",
			Steps: [][]string{{"python", "-c", "print('hello')"}}, Timeout: 60,
		}},
		sha256: fmt.Sprintf("%x", sha256.Sum256([]byte(helloManifest))),
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("parseManifest = %+v, want %+v", m, want)
	}
	encoded, err := json.Marshal(m.actions[0])
	if err != nil {
		t.Fatal(err)
	}
	const wantJSON = `{"name":"greet","label":"Say hello","description":"Prints one line.","steps":[["python","-c","print('hello')"]],"timeout":60}`
	if string(encoded) != wantJSON {
		t.Errorf("an action encodes as %s, want %s", encoded, wantJSON)
	}
}

func TestActionsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	text := `schema = 1
id = "x"
title = "X"
actions.z1 = {label = "Z", steps = [["a"]]}
actions."10" = {label = "Ten", steps = [["a"]]}
actions.con = {label = "Con", steps = [["echo", "~", "$HOME", "*", "a b", " "]]}
actions.a = {label = "A", steps = [["a"], ["b", "c"]]}
`
	m, found := parseManifest([]byte(strings.ReplaceAll(text, "\n", "\r\n")))
	if len(found) > 0 {
		t.Fatal(found)
	}
	var names []string
	for _, a := range m.actions {
		names = append(names, a.Name)
		if a.Timeout != 900 || a.Description != "" {
			t.Errorf("action %s has timeout %d and description %q, want 900 and none", a.Name, a.Timeout, a.Description)
		}
	}
	if want := []string{"z1", "10", "con", "a"}; !slices.Equal(names, want) {
		t.Errorf("actions = %q, want %q", names, want)
	}
	if want := []string{"echo", "~", "$HOME", "*", "a b", " "}; !slices.Equal(m.actions[2].Steps[0], want) {
		t.Errorf("argv = %q, want %q", m.actions[2].Steps[0], want)
	}
}

// helloWith is the hello manifest with the line of key replaced.
func helloWith(key, line string) string {
	var lines []string
	for old := range strings.Lines(helloManifest) {
		if strings.HasPrefix(old, key) {
			old = line + "\n"
		}
		lines = append(lines, old)
	}
	return strings.Join(lines, "")
}

// manifestRule is the hello manifest with one line replaced.
type manifestRule struct {
	key, line string
	want      string // how the only finding begins; empty: valid
}

func manifestRules() []manifestRule {
	long := func(n int) string { return `"` + strings.Repeat("ä", n) + `"` }
	list := func(n int, item string) string { return "[" + strings.Repeat(item+",", n) + "]" }
	return []manifestRule{
		{"schema", "schema = 0x1", ""},
		{"schema", "schema = 2", "line 1: schema: must be the integer 1"},
		{"schema", "schema = 1.0", "line 1: schema: must be the integer 1"},
		{"schema", "schema = true", "line 1: schema: must be the integer 1"},
		{"schema", `schema = "1"`, "line 1: schema: must be the integer 1"},
		{"schema", "", "schema: is missing"},
		{"id", `id = "A.b_c-9"`, ""},
		{"id", `id = "` + strings.Repeat("a", 64) + `"`, ""},
		{"id", `id = "` + strings.Repeat("a", 65) + `"`, "line 2: id: must be a string of 1 to 64"},
		{"id", `id = ""`, "line 2: id: must be"},
		{"id", `id = ".x"`, "line 2: id: must be"},
		{"id", `id = "a/b"`, "line 2: id: must be"},
		{"id", `id = "a\n"`, "line 2: id: must be"},
		{"id", `id = "é"`, "line 2: id: must be"},
		{"id", `id = 7`, "line 2: id: must be"},
		{"id", "", "id: is missing"},
		{"title", "title = " + long(200), ""},
		{"title", `title = "a\nb\u001b"`, ""},
		{"title", "title = " + long(201), "line 3: title: must be a string that is not blank, of at most 200"},
		{"title", `title = " \t "`, "line 3: title: must be a string that is not blank"},
		{"title", "title = 1", "line 3: title: must be a string that is not blank, of at most 200 characters, not an integer"},
		{"title", "", "title: is missing"},
		{"label", "label = " + long(120), ""},
		{"label", "label = " + long(121), "line 6: actions.greet.label: must be"},
		{"label", `label = ""`, "line 6: actions.greet.label: must be"},
		{"label", "", "line 5: actions.greet.label: is missing"},
		{"description", "", ""},
		{"description", `description = ""`, ""},
		{"description", "description = " + long(1000), ""},
		{"description", "description = " + long(1001), "line 7: actions.greet.description: must be"},
		{"description", "description = []", "line 7: actions.greet.description: must be"},
		{"timeout", "", ""},
		{"timeout", "timeout = 7200", ""},
		{"timeout", "timeout = 1", ""},
		{"timeout", "timeout = 0", "line 9: actions.greet.timeout: must be an integer from 1 to 7200"},
		{"timeout", "timeout = 7201", "line 9: actions.greet.timeout: must be"},
		{"timeout", "timeout = -5", "line 9: actions.greet.timeout: must be"},
		{"timeout", "timeout = 9223372036854775808", "line 9: actions.greet.timeout: must be"},
		{"timeout", "timeout = 60.0", "line 9: actions.greet.timeout: must be"},
		{"timeout", "timeout = true", "line 9: actions.greet.timeout: must be"},
		{"timeout", `timeout = "60"`, "line 9: actions.greet.timeout: must be"},
		{"timeout", "timeout = 07:32", "line 9: actions.greet.timeout: must be"},
		{"timeout", "timeout = 07:32:00", "line 9: actions.greet.timeout: must be"},
		{"timeout", "timeout = 1979-05-27 07:32Z", "line 9: actions.greet.timeout: must be"},
		{"timeout", "timeout = 60\nenv = {LD_PRELOAD = 'x'}", "line 10: actions.greet.env: is not a key that belongs here"},
		{"timeout", "timeout = 60\n[actions.greet.more]", "line 10: actions.greet.more: is not a key that belongs here"},
		{"title", "title = 'x'\n\"a\\u202Eb\" = 1", `line 4: "a<U+202E>b": is not a key that belongs here`},
		{"steps", `steps = "echo hi"`, `line 8: actions.greet.steps: must be a list of steps, not a string: write each step as a list of its words, such as ["python", "demo.py"]; for a shell: ["sh", "-c", "..."]`},
		{"steps", `steps = ["echo", "hi"]`, "line 8: actions.greet.steps: must be a list of lists"},
		{"steps", `steps = [["a"], "echo hi"]`, "line 8: actions.greet.steps[1]: must be a list of strings, not a string: write"},
		{"steps", "steps = 5", "line 8: actions.greet.steps: must be a list of steps, not an integer"},
		{"steps", "steps = {}", "line 8: actions.greet.steps: must be a list of steps, not a table"},
		{"steps", "steps = []", "line 8: actions.greet.steps: must hold 1 to 20 steps, not 0"},
		{"steps", "steps = [[]]", "line 8: actions.greet.steps[0]: must hold 1 to 100 strings"},
		{"steps", `steps = [[""]]`, "line 8: actions.greet.steps[0][0]: must be a string of 1 to 4096"},
		{"steps", `steps = [["echo", 1]]`, "line 8: actions.greet.steps[0][1]: must be a string, not an integer"},
		{"steps", `steps = [["echo", ["a"]]]`, "line 8: actions.greet.steps[0][1]: must be a string, not a list"},
		{"steps", "steps = [\n  ['a'],\n\n  ['b',\n   ''],\n]", "line 12: actions.greet.steps[1][1]: must be a string of 1"},
		{"steps", `steps = [["echo", "a\u0000b"]]`, "line 8: actions.greet.steps[0][1]: must not hold a NUL"},
		{"steps", "steps = [[" + long(4096) + "]]", ""},
		{"steps", "steps = [[" + long(4097) + "]]", "line 8: actions.greet.steps[0][0]: must be a string of 1 to 4096"},
		{"steps", "steps = " + list(20, `["a"]`), ""},
		{"steps", "steps = " + list(21, `["a"]`), "line 8: actions.greet.steps: must hold 1 to 20 steps, not 21"},
		{"steps", "steps = [" + list(100, `"a"`) + "]", ""},
		{"steps", "steps = [" + list(101, `"a"`) + "]", "line 8: actions.greet.steps[0]: must hold 1 to 100 strings"},
		{"steps", "", "line 5: actions.greet.steps: is missing"},
	}
}

func TestManifestRules(t *testing.T) {
	t.Parallel()
	for _, test := range manifestRules() {
		text := helloWith(test.key, test.line)
		m, found := parseManifest([]byte(text))
		switch {
		case test.want == "" && (len(found) > 0 || m == nil):
			t.Errorf("%.60s: %v, want it valid", test.line, found)
		case test.want != "" && (len(found) != 1 || m != nil || !strings.HasPrefix(found[0].String(), test.want)):
			t.Errorf("%.60s (in place of %s): %v, want %q", test.line, test.key, found, test.want)
		}
	}
}

// actionKeys are names of actions as they are written, and whether they are valid.
func actionKeys() map[string]bool {
	return map[string]bool{
		"con": true, "1.1": false, `"1-1"`: true, "a_b-c": true, strings.Repeat("a", 40): true,
		strings.Repeat("a", 41): false, strings.Repeat("a", 10_000): false, `"../x"`: false, `""`: false, `"a b"`: false, `"a.b"`: false,
		"A": false, "_a": false, "-a": false, `"é"`: false, `"😀"`: false, `"a\n"`: false, `"a\u0000"`: false,
	}
}

// helloNamed is the hello manifest with another key for its action.
func helloNamed(key string) string {
	return strings.Replace(helloManifest, "[actions.greet]", "[actions."+key+"]", 1)
}

func TestActionNamesAreShortAndPlain(t *testing.T) {
	t.Parallel()
	for key, valid := range actionKeys() {
		_, found := parseManifest([]byte(helloNamed(key)))
		if (len(found) == 0) != valid {
			t.Errorf("action name %.50s: %v, want valid %t", key, found, valid)
		}
	}
}

// helloHead is a manifest that lacks its actions.
const helloHead = "schema = 1\nid = 'x'\ntitle = 'X'\n"

// otherActions are manifests whose actions are no tables, and the only finding.
func otherActions() []struct{ text, want string } {
	const head = helloHead
	return []struct{ text, want string }{
		{head, "actions: is missing: it must be a table"},
		{head + "[actions]", "line 4: actions: must hold 1 to 50 actions, not 0"},
		{head + "actions = []", "line 4: actions: must be a table, not a list"},
		{head + "[[actions]]\nlabel = 'x'", "line 4: actions: must be a table, not a list"},
		{head + "actions = {a = 1}", "line 4: actions.a: must be a table, not an integer"},
		{head + "[[actions.a]]\nlabel = 'x'", "line 4: actions.a: must be a table, not a list"},
	}
}

// helloMany is a manifest with n actions.
func helloMany(n int) string {
	var text strings.Builder
	text.WriteString(helloHead)
	for i := range n {
		fmt.Fprintf(&text, "[actions.a%d]\nlabel = 'x'\nsteps = [['a']]\n", i)
	}
	return text.String()
}

func TestActionsMustBeTables(t *testing.T) {
	t.Parallel()
	for _, test := range otherActions() {
		if _, found := parseManifest([]byte(test.text)); len(found) != 1 || !strings.HasPrefix(found[0].String(), test.want) {
			t.Errorf("%q: %v, want %q", test.text, found, test.want)
		}
	}
	for n, valid := range map[int]bool{50: true, 51: false} {
		if m, found := parseManifest([]byte(helloMany(n))); (m != nil) != valid {
			t.Errorf("%d actions: %v, want valid %t", n, found, valid)
		}
	}
}

func TestEverythingWrongIsToldAtOnce(t *testing.T) {
	t.Parallel()
	text := `schema = 2
name = "x"
[actions.Greet]
label = "  "
steps = "echo hi"
timeout = 1.5
[actions.b]
label = "B"
label = "C"
steps = [["a", 1], []]
`
	_, found := parseManifest([]byte(text))
	want := []string{
		"id: is missing", "title: is missing", "line 1: schema: must be", "line 2: name: is not a key",
		"line 3: actions.Greet: an action's name", "line 4: actions.Greet.label: must be", "line 5: actions.Greet.steps: must be",
		"line 6: actions.Greet.timeout: must be", "line 9: actions.b.label: is already defined as a string on line 8",
		"line 10: actions.b.steps[0][1]: must be a string", "line 10: actions.b.steps[1]: must hold",
	}
	if len(found) != len(want) {
		t.Fatalf("%d findings, want %d: %v", len(found), len(want), found)
	}
	for i, f := range found {
		if !strings.HasPrefix(f.String(), want[i]) {
			t.Errorf("finding %d = %q, want %q", i, f, want[i])
		}
	}
}

func TestADamagedManifestMissesNothing(t *testing.T) {
	t.Parallel()
	_, found := parseManifest([]byte("schema = 1\nid = hello\n[actions.a]\nlabel = 'A'\nsteps = [[a]]\n"))
	if len(found) != 2 || found[0].Line != 2 || found[1].Line != 5 {
		t.Errorf("findings = %v, want those of lines 2 and 5 alone", found)
	}
}

func TestDifferencesBetweenVersions(t *testing.T) {
	t.Parallel()
	base := func(name string) action {
		return action{Name: name, Label: "L", Description: "D", Steps: [][]string{{"a", "b"}, {"c"}}, Timeout: 900}
	}
	with := func(name string, change func(*action)) action {
		a := base(name)
		change(&a)
		return a
	}
	old := []action{base("same"), base("label"), base("description"), base("steps"), base("split"), base("timeout"), base("gone")}
	now := []action{
		base("new"),
		with("timeout", func(a *action) { a.Timeout = 901 }),
		with("split", func(a *action) { a.Steps = [][]string{{"a"}, {"b", "c"}} }),
		with("steps", func(a *action) { a.Steps = a.Steps[:1] }),
		with("description", func(a *action) { a.Description = "" }),
		with("label", func(a *action) { a.Label = "l" }),
		base("same"),
	}
	added, changed, removed := diffActions(old, now)
	if want := []string{"new"}; !slices.Equal(added, want) {
		t.Errorf("added = %q, want %q", added, want)
	}
	if want := []string{"timeout", "split", "steps", "description", "label"}; !slices.Equal(changed, want) {
		t.Errorf("changed = %q, want %q", changed, want)
	}
	if want := []string{"gone"}; !slices.Equal(removed, want) {
		t.Errorf("removed = %q, want %q", removed, want)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(helloManifest))
	f.Add([]byte(helloWith("steps", `steps = "echo hi"`)))
	f.Add([]byte("schema = 1\nid = hello\n[actions.\n"))
	f.Add([]byte("schema = 1\nid = 'x'\ntitle = 'X'\nactions.a = {label = 'A', steps = [['a']]}\n"))
	f.Add([]byte("\xEF\xBB\xBFa = {b = 1,\n}\r"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, found := parseManifest(data)
		if (m == nil) != (len(found) > 0) {
			t.Fatalf("parseManifest(%q) = %v, %v", data, m, found)
		}
		for _, finding := range found {
			if s := finding.String(); visible(s) != s || finding.Message == "" {
				t.Errorf("finding %q is not safe to print", s)
			}
		}
		if m != nil && !holdsTheRules(m) {
			t.Errorf("parseManifest(%q) = %+v", data, m)
		}
	})
}

func holdsTheRules(m *manifest) bool {
	between := func(s string, low, high int) bool {
		n := utf8.RuneCountInString(s)
		return utf8.ValidString(s) && low <= n && n <= high
	}
	seen := make(map[string]bool)
	for _, a := range m.actions {
		ok := !seen[a.Name] && between(a.Name, 1, 40) && strings.Trim(a.Name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == "" &&
			between(a.Label, 1, 120) && between(a.Description, 0, 1000) && a.Timeout >= 1 && a.Timeout <= 7200 &&
			len(a.Steps) >= 1 && len(a.Steps) <= 20
		for _, argv := range a.Steps {
			ok = ok && len(argv) >= 1 && len(argv) <= 100
			for _, arg := range argv {
				ok = ok && between(arg, 1, 4096) && !strings.ContainsRune(arg, 0)
			}
		}
		if !ok {
			return false
		}
		seen[a.Name] = true
	}
	return between(m.id, 1, 64) && between(m.title, 1, 200) && len(m.actions) >= 1 && len(m.actions) <= 50 && len(m.sha256) == 64
}
