package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// What a lab.toml of schema 1 may hold. Lengths count characters.
const (
	manifestLimit = tomlSizeLimit // bytes of the file

	maxTitle       = 200
	maxActions     = 50
	maxLabel       = 120
	maxDescription = 1000
	maxSteps       = 20
	maxArgs        = 100
	maxArg         = 4096

	maxTimeout     = 7200 // seconds
	defaultTimeout = 900  // seconds
)

var (
	// labIDPattern is what may name a lab, and so its kernel and environment.
	// Its longest match is 64 bytes, which makingName relies on.
	labIDPattern      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	actionNamePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,39}$`)
)

// manifest is a valid lab.toml. Its text comes from outside: nothing in it is
// safe for a terminal as it is.
type manifest struct {
	id      string
	title   string
	actions []action // in the order of the file
	sha256  string   // of the whole file, in hex
}

// action is what a page may ask to run: argv lists that run one after the
// other, without a shell.
type action struct {
	Name        string     `json:"name"`
	Label       string     `json:"label"`
	Description string     `json:"description"`
	Steps       [][]string `json:"steps"`
	Timeout     int        `json:"timeout"` // seconds for the whole action
}

// parseManifest reads a lab.toml. It returns either the manifest or everything
// that is wrong with it, by line.
func parseManifest(data []byte) (*manifest, []finding) {
	check := manifestCheck{parseTOML(data)}
	m := check.document()
	if found := check.sorted(); len(found) > 0 {
		return nil, found
	}
	sum := sha256.Sum256(data)
	m.sha256 = hex.EncodeToString(sum[:])
	return m, nil
}

// manifestCheck holds a document against the rules. Each method returns what
// it could read, and reports the rest.
type manifestCheck struct{ *tomlTree }

func (c manifestCheck) document() *manifest {
	m := &manifest{}
	c.unknownKeys(c.root, "", "schema", "id", "title", "actions")
	if schema := c.need(c.root, "", "schema", "the integer 1"); schema != nil {
		if n, ok := schema.integer(); !ok || n != 1 {
			c.report(schema.line, "schema", "must be the integer 1, the only schema there is")
		}
	}
	if id := c.need(c.root, "", "id", "a string such as \"my-lab\""); id != nil {
		if id.kind != tomlString || !labIDPattern.MatchString(id.text) {
			c.report(id.line, "id", "must be a string of 1 to 64 letters, digits, '.', '_' or '-' that starts with a letter or digit")
		}
		m.id = id.text
	}
	m.title = c.text(c.root, "", "title", maxTitle)
	if actions := c.need(c.root, "", "actions", "a table [actions.NAME] for each action"); actions != nil {
		m.actions = c.actions(actions)
	}
	return m
}

// need returns the value of a required key, and reports it when it is missing.
// In a damaged document it may be there unread, so that is not said.
func (c manifestCheck) need(table *tomlValue, path, key, want string) *tomlValue {
	value := table.get(key)
	if value == nil && !c.damaged {
		c.report(table.line, keyPath(path, key), "is missing: it must be %s", want)
	}
	return value
}

// text reads a required string that is not blank.
func (c manifestCheck) text(table *tomlValue, path, key string, limit int) string {
	want := fmt.Sprintf("a string that is not blank, of at most %d characters", limit)
	value := c.need(table, path, key, want)
	if value == nil {
		return ""
	}
	if value.kind != tomlString {
		c.report(value.line, keyPath(path, key), "must be %s, not %s", want, value.kind)
	} else if strings.TrimSpace(value.text) == "" || utf8.RuneCountInString(value.text) > limit {
		c.report(value.line, keyPath(path, key), "must be %s", want)
	}
	return value.text
}

func (c manifestCheck) actions(table *tomlValue) []action {
	if table.kind != tomlTable {
		c.report(table.line, "actions", "must be a table, not %s; write a header [actions.NAME] for each action", table.kind)
		return nil
	}
	if n := len(table.entries); n > maxActions || n == 0 && !c.damaged {
		c.report(table.line, "actions", "must hold 1 to %d actions, not %d", maxActions, n)
	}
	var actions []action
	for _, entry := range table.entries {
		path := keyPath("actions", entry.key)
		if !actionNamePattern.MatchString(entry.key) {
			c.report(entry.value.line, path, "an action's name must be 1 to 40 small letters, digits, '_' or '-', and start with a letter or digit")
		}
		if entry.value.kind != tomlTable {
			c.report(entry.value.line, path, "must be a table, not %s; write a header [actions.NAME]", entry.value.kind)
			continue
		}
		actions = append(actions, c.action(entry.value, path, entry.key))
	}
	return actions
}

func (c manifestCheck) action(table *tomlValue, path, name string) action {
	c.unknownKeys(table, path, "label", "description", "steps", "timeout")
	a := action{Name: name, Label: c.text(table, path, "label", maxLabel), Timeout: defaultTimeout}
	if description := table.get("description"); description != nil {
		if description.kind != tomlString || utf8.RuneCountInString(description.text) > maxDescription {
			c.report(description.line, keyPath(path, "description"), "must be a string of at most %d characters", maxDescription)
		}
		a.Description = description.text
	}
	if steps := c.need(table, path, "steps", `a list of steps such as [["python", "demo.py"]]`); steps != nil {
		a.Steps = c.steps(steps, keyPath(path, "steps"))
	}
	if timeout := table.get("timeout"); timeout != nil {
		n, ok := timeout.integer()
		if !ok || n < 1 || n > maxTimeout {
			c.report(timeout.line, keyPath(path, "timeout"), "must be an integer from 1 to %d (seconds)", maxTimeout)
		}
		a.Timeout = int(n)
	}
	return a
}

// shellHint is what an author needs who wrote a step as one string.
const shellHint = `write each step as a list of its words, such as ["python", "demo.py"]; for a shell: ["sh", "-c", "..."]`

func (c manifestCheck) steps(list *tomlValue, path string) [][]string {
	notString := func(v *tomlValue) bool { return v.kind != tomlString }
	switch n := len(list.items); {
	case list.kind == tomlString:
		c.report(list.line, path, "must be a list of steps, not a string: %s", shellHint)
	case list.kind != tomlList:
		c.report(list.line, path, "must be a list of steps, not %s: %s", list.kind, shellHint)
	case n > 0 && !slices.ContainsFunc(list.items, notString):
		c.report(list.line, path, "must be a list of lists, one for each step, not a list of strings: %s", shellHint)
		return nil
	case n == 0 || n > maxSteps:
		c.report(list.line, path, "must hold 1 to %d steps, not %d", maxSteps, n)
	}
	var steps [][]string
	for i, item := range list.items {
		steps = append(steps, c.step(item, fmt.Sprintf("%s[%d]", path, i)))
	}
	return steps
}

// step reads one argv list.
func (c manifestCheck) step(list *tomlValue, path string) []string {
	if list.kind != tomlList {
		c.report(list.line, path, "must be a list of strings, not %s: %s", list.kind, shellHint)
		return nil
	}
	if n := len(list.items); n == 0 || n > maxArgs {
		c.report(list.line, path, "must hold 1 to %d strings, the program first, not %d", maxArgs, n)
	}
	var argv []string
	for i, item := range list.items {
		switch where := fmt.Sprintf("%s[%d]", path, i); {
		case item.kind != tomlString:
			c.report(item.line, where, "must be a string, not %s; put it in quotes", item.kind)
		case item.text == "" || utf8.RuneCountInString(item.text) > maxArg:
			c.report(item.line, where, "must be a string of 1 to %d characters", maxArg)
		case strings.Contains(item.text, "\x00"):
			c.report(item.line, where, "must not hold a NUL character; no program can be given one")
		}
		argv = append(argv, item.text)
	}
	return argv
}

// diffActions compares two versions of a lab's actions by name. Added and
// changed come in the order of the new version, removed in that of the old.
// Another order alone is no difference.
func diffActions(old, now []action) (added, changed, removed []string) {
	for _, a := range now {
		i := slices.IndexFunc(old, a.sameName)
		if i < 0 {
			added = append(added, a.Name)
		} else if !a.equal(old[i]) {
			changed = append(changed, a.Name)
		}
	}
	for _, a := range old {
		if !slices.ContainsFunc(now, a.sameName) {
			removed = append(removed, a.Name)
		}
	}
	return added, changed, removed
}

func (a action) sameName(b action) bool { return a.Name == b.Name }

func (a action) equal(b action) bool {
	return a.Name == b.Name && a.Label == b.Label && a.Description == b.Description && a.Timeout == b.Timeout &&
		slices.EqualFunc(a.Steps, b.Steps, slices.Equal[[]string])
}
