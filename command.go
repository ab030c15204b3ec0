package main

// One command of the table, and what the table says of its arguments, read for
// whoever writes about them: the help, the completions and the manual page.

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// cli is what a command works with.
type cli struct {
	environ []string
	stdin   *os.File
	stdout  *printer
	stderr  *os.File
}

// printer is standard output. It remembers that something could not be
// written, so that no command needs to look at each line and none ends well
// when a person or a file did not get what it said. A reader that left wanted
// no more.
type printer struct {
	file *os.File

	mu  sync.Mutex // guards err
	err error      // the first
}

func (p *printer) Write(data []byte) (int, error) {
	n, err := p.file.Write(data)
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return n, err
	}
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	}
	err = problemf(kindUnacceptable, "Not all could be written to standard output: %v.", err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = cmp.Or(p.err, err)
	return n, err
}

// failure is nil when all was written.
func (p *printer) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// command is one thing that a person can type.
type command struct {
	name    string // one or two words
	args    string // what stands for its arguments in the help; a flag per [--...]
	summary string
	run     func(ctx context.Context, c *cli, args []string) error
}

// helpRequest ends a command that was asked for help, with what it takes.
type helpRequest struct{ flags *flag.FlagSet }

func (helpRequest) Error() string { return "Help was asked for." }

// argument is a flag or an operand of a command.
type argument struct {
	flag  string // with its dashes; empty for an operand
	value string // what stands for the operand or the flag's value; empty for a flag without one
}

// String is the argument as one types it.
func (a argument) String() string { return strings.TrimSpace(a.flag + " " + a.value) }

// argumentPattern is one argument of command.args.
var argumentPattern = regexp.MustCompile(`\[?(?:(--[a-z-]+)(?: ([A-Z]+))?|([A-Z]+))\]?`)

func (cmd command) synopsis() string { return strings.TrimSpace(cmd.name + " " + cmd.args) }

func (cmd command) arguments() []argument {
	var all []argument
	for _, m := range argumentPattern.FindAllStringSubmatch(cmd.args, -1) {
		all = append(all, argument{flag: m[1], value: m[2] + m[3]})
	}
	return all
}

func (cmd command) flags() []argument {
	return slices.DeleteFunc(cmd.arguments(), func(a argument) bool { return a.flag == "" })
}

func (cmd command) operands() []argument {
	return slices.DeleteFunc(cmd.arguments(), func(a argument) bool { return a.flag != "" })
}

// meanings says what each flag of cmd is for, as the command itself knows it.
func (cmd command) meanings(ctx context.Context, c *cli) map[string]string {
	meanings := make(map[string]string)
	if request, ok := errors.AsType[helpRequest](cmd.run(ctx, c, []string{"--help"})); ok {
		request.flags.VisitAll(func(f *flag.Flag) { meanings["--"+f.Name] = f.Usage })
	}
	return meanings
}

// commandGroup is the first word of commands.
type commandGroup struct {
	word    string
	summary string    // of the one command, or the second words of all
	members []command // by their second words; none when the first is a command by itself
}

// groups are the groups of table in its order.
func groups(table []command) []commandGroup {
	var all []commandGroup
	for _, cmd := range table {
		word, _, grouped := strings.Cut(cmd.name, " ")
		i := slices.IndexFunc(all, func(g commandGroup) bool { return g.word == word })
		if i < 0 {
			i, all = len(all), append(all, commandGroup{word: word, summary: cmd.summary})
		}
		if grouped {
			all[i].members = append(all[i].members, cmd)
			all[i].summary = strings.Join(all[i].words(), ", ")
		}
	}
	return all
}

// words are the second words of a group.
func (g commandGroup) words() []string {
	var words []string
	for _, cmd := range g.members {
		words = append(words, cmd.secondWord())
	}
	return words
}

func (cmd command) secondWord() string {
	_, word, _ := strings.Cut(cmd.name, " ")
	return word
}

// shells have a completion.
var shells = []string{"bash", "zsh", "fish"}

// What may stand for a value, where that is known.
const (
	folderValue = "DIR"
	scopeValue  = "SCOPE"
	shellValue  = "SHELL"
)

// fileValues stand for the name of a file.
var fileValues = []string{"FILE", "PYTHON"}

// valueWords are the words to choose from for a value; none when there are too
// many, or nobody knows them.
func valueWords(value string) []string {
	switch value {
	case scopeValue:
		var names []string
		for _, s := range scopes {
			names = append(names, string(s.name))
		}
		return names
	case shellValue:
		return shells
	}
	return nil
}
