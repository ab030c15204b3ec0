package main

// What a person reads of a lab: the question before it is approved, and the
// note on changed files in a run. Every text from outside passes visible.

import (
	"fmt"
	"slices"
	"strings"
)

// labQuestion is what the person reads: where the lab comes from, what
// changed since it was last approved, and every command.
// last is the approval before this one; nil when there was none.
func labQuestion(p principal, src source, m *manifest, notices []string, last *approval) []string {
	body := []string{
		"Site:   " + visible(string(p)),
		"Repo:   " + visible(src.repo),
		"Commit: " + src.commit,
		fmt.Sprintf("Lab:    %s (id %s)", visible(m.title), visible(m.id)),
	}
	body = append(body, visibleLines(notices)...)
	switch {
	case last != nil && last.Actions == nil:
		body = append(body, "Changes: a version was approved before, but not which commands it had; read them all.")
	case last != nil:
		body = append(body, changeLines(last.Actions, m.actions)...)
	}
	body = append(body, fmt.Sprintf("It could then start %s, with your permissions:", countActions(len(m.actions))))
	for i, a := range m.actions {
		body = append(body, actionLines(i+1, a)...)
	}
	// The list may have scrolled the first lines away.
	return append(body, "", fmt.Sprintf("That was everything %s could start of %s.", visible(string(p)), visible(src.repo)))
}

// whoAsks is what kind of caller p is.
func whoAsks(p principal) string {
	if strings.HasPrefix(string(p), "local") {
		return "A local program"
	}
	return "A web page"
}

func countActions(n int) string {
	if n == 1 {
		return "this action"
	}
	return fmt.Sprintf("these %d actions", n)
}

func changeLines(before, now []action) []string {
	added, changed, removed := diffActions(before, now)
	if len(added)+len(changed)+len(removed) == 0 {
		return []string{"Changes: no command differs from the version approved before; the lab's files may."}
	}
	lines := []string{"Changes against the version approved before:"}
	for _, a := range now {
		if slices.Contains(added, a.Name) {
			lines = append(lines, commandLines("  + ", a)...)
		}
	}
	for _, a := range now {
		if slices.Contains(changed, a.Name) {
			i := slices.IndexFunc(before, func(b action) bool { return b.Name == a.Name })
			lines = append(lines, commandLines("  - ", before[i])...)
			lines = append(lines, commandLines("  + ", a)...)
		}
	}
	for _, b := range before {
		if slices.Contains(removed, b.Name) {
			lines = append(lines, commandLines("  - ", b)...)
		}
	}
	return lines
}

func commandLines(sign string, a action) []string {
	lines := []string{fmt.Sprintf("%s%s: %s (at most %d s)", sign, a.Name, visible(a.Label), a.Timeout)}
	if a.Description != "" {
		lines = append(lines, sign+"    "+visible(a.Description))
	}
	for _, argv := range a.Steps {
		lines = append(lines, sign+"    $ "+visible(shellQuote(argv)))
	}
	return lines
}

func actionLines(n int, a action) []string {
	return slices.Concat([]string{""}, commandLines(fmt.Sprintf("  %d. ", n), a)[:1], indented(a))
}

func indented(a action) []string {
	var lines []string
	if a.Description != "" {
		lines = append(lines, "     "+visible(a.Description))
	}
	for _, argv := range a.Steps {
		lines = append(lines, "     $ "+visible(shellQuote(argv)))
	}
	return lines
}

func visibleLines(texts []string) []string {
	lines := make([]string, len(texts))
	for i, text := range texts {
		lines[i] = visible(text)
	}
	return lines
}

// modifiedNote is the first line of a run whose files are not those of the
// commit.
func modifiedNote(changed []string) string {
	const most = 20
	shown := visibleLines(changed[:min(len(changed), most)])
	more := ""
	if len(changed) > most {
		more = fmt.Sprintf(" and %d more", len(changed)-most)
	}
	return fmt.Sprintf("[changed since the approved commit: %s%s]", strings.Join(shown, ", "), more)
}
