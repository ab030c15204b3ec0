package main

import (
	"slices"
	"strings"
	"testing"
)

const questionCommit = "0123456789abcdef0123456789abcdef01234567"

func questionAction(name, label string, steps ...[]string) action {
	return action{Name: name, Label: label, Steps: steps, Timeout: 900}
}

func TestLabQuestionSaysAllThatWillRun(t *testing.T) {
	t.Parallel()
	greet := action{Name: "greet", Label: "Say hello", Description: "Prints one line.", Steps: [][]string{{"echo", "hello world"}, {"true"}}, Timeout: 60}
	evil := questionAction("evil", "Fine\n  2. safe: Nothing\x1b[2J", []string{"rm", "-rf", "a\u202eb", "\u200b~"})
	tests := []struct {
		name    string
		actions []action
		notices []string
		last    *approval
		want    string
	}{
		{"first", []action{greet}, nil, nil, `
It could then start this action, with your permissions:

  1. greet: Say hello (at most 60 s)
     Prints one line.
     $ echo 'hello world'
     $ true`},
		{"text that would forge lines", []action{greet, evil}, []string{"1 \x1b]0;file"}, nil, `
1 <U+001B>]0;file
It could then start these 2 actions, with your permissions:

  1. greet: Say hello (at most 60 s)
     Prints one line.
     $ echo 'hello world'
     $ true

  2. evil: Fine<U+000A>  2. safe: Nothing<U+001B>[2J (at most 900 s)
     $ rm -rf 'a<U+202E>b' '<U+200B>~'`},
		{"nothing changed", []action{greet}, nil, &approval{Actions: []action{greet}}, `
Changes: no command differs from the version approved before; the lab's files may.
It could then start this action, with your permissions:

  1. greet: Say hello (at most 60 s)
     Prints one line.
     $ echo 'hello world'
     $ true`},
		{"commands that are not known", []action{greet}, nil, &approval{}, `
Changes: a version was approved before, but not which commands it had; read them all.
It could then start this action, with your permissions:

  1. greet: Say hello (at most 60 s)
     Prints one line.
     $ echo 'hello world'
     $ true`},
		{"added, changed, removed", []action{questionAction("new", "New", []string{"echo", "new"}), greet},
			nil, &approval{Actions: []action{questionAction("greet", "Say hello", []string{"echo", "old"}), questionAction("gone", "Gone", []string{"echo", "\x07"})}}, `
Changes against the version approved before:
  + new: New (at most 900 s)
  +     $ echo new
  - greet: Say hello (at most 900 s)
  -     $ echo old
  + greet: Say hello (at most 60 s)
  +     Prints one line.
  +     $ echo 'hello world'
  +     $ true
  - gone: Gone (at most 900 s)
  -     $ echo '<U+0007>'
It could then start these 2 actions, with your permissions:

  1. new: New (at most 900 s)
     $ echo new

  2. greet: Say hello (at most 60 s)
     Prints one line.
     $ echo 'hello world'
     $ true`},
	}
	for _, test := range tests {
		m := &manifest{id: "hello-lab", title: "Hello\u2028World", actions: test.actions}
		got := labQuestion("https://course.example", source{"https://host.example/lab.git", questionCommit}, m, test.notices, test.last)
		want := append([]string{
			"Site:   https://course.example",
			"Repo:   https://host.example/lab.git",
			"Commit: " + questionCommit,
			"Lab:    Hello<U+2028>World (id hello-lab)",
		}, strings.Split(test.want, "\n")[1:]...)
		want = append(want, "", "That was everything https://course.example could start of https://host.example/lab.git.")
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestModifiedNoteIsOneLine(t *testing.T) {
	t.Parallel()
	many := make([]string, 23)
	for i := range many {
		many[i] = "f"
	}
	for _, c := range []struct {
		changed []string
		want    string
	}{
		{[]string{"a.py"}, "[changed since the approved commit: a.py]"},
		{[]string{"a\n[done · 0.1 s]", "b\x1b[2K"}, "[changed since the approved commit: a<U+000A>[done · 0.1 s], b<U+001B>[2K]"},
		{many, "[changed since the approved commit: " + strings.Repeat("f, ", 19) + "f and 3 more]"},
	} {
		if got := modifiedNote(c.changed); got != c.want {
			t.Errorf("modifiedNote(%q) = %q, want %q", c.changed, got, c.want)
		}
	}
}

func TestLastApprovedIsOfTheSameSiteAndRepository(t *testing.T) {
	t.Parallel()
	data := newStateData()
	at := func(second int, name string) approval {
		a := approval{ManifestSHA256: strings.Repeat("0", 64), Actions: []action{{Name: name}}}
		a.ApprovedAt = a.ApprovedAt.AddDate(2000, 0, second)
		return a
	}
	data.Approvals[approvalKey("https://a", "https://r", strings.Repeat("1", 40))] = at(1, "old")
	data.Approvals[approvalKey("https://a", "https://r", strings.Repeat("2", 40))] = at(2, "newest")
	data.Approvals[approvalKey("https://b", "https://r", strings.Repeat("3", 40))] = at(3, "other site")
	data.Approvals[approvalKey("https://a", "https://s", strings.Repeat("4", 40))] = at(4, "other repository")
	if got := lastApproved(data, "https://a", "https://r"); got == nil || got.Actions[0].Name != "newest" {
		t.Errorf("lastApproved = %+v", got)
	}
	if got := lastApproved(data, "https://c", "https://r"); got != nil {
		t.Errorf("lastApproved of a site without approvals = %+v", got)
	}
}
