package main

import "strings"

// scope is what a principal may use. The zero value may use nothing.
type scope string

const (
	scopeCode    scope = "code"
	scopeActions scope = "actions"
	scopeSandbox scope = "sandbox"
)

// scopes lists every scope, with what the person at the terminal reads after
// "this site could".
var scopes = []struct {
	name scope
	text string
}{
	{scopeCode, "run ANY Python code on this computer, with your permissions"},
	{scopeActions, "run only the named actions of labs you approve one by one"},
	{scopeSandbox, "run any command, but only inside isolated sandboxes without network or your files"},
}

// parseScope reads a scope's name as a page or a person writes it.
func parseScope(s string) (scope, error) {
	names := make([]string, len(scopes))
	for i, known := range scopes {
		if s == string(known.name) {
			return known.name, nil
		}
		names[i] = `"` + string(known.name) + `"`
	}
	return "", problemf(kindInvalid, "scope %q is not known: it must be one of %s.", s, strings.Join(names, ", "))
}

// text is what a site with this scope could do, for the terminal.
func (s scope) text() string {
	for _, known := range scopes {
		if s == known.name {
			return known.text
		}
	}
	return "do nothing"
}

// allows reports whether a principal with scope s may use an endpoint that
// needs the scope need: its own, or everything with code.
func (s scope) allows(need scope) bool {
	return s == scopeCode || s != "" && s == need
}
