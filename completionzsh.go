package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// zshFrame is the completion for zsh: a file of its own in fpath, or read by
// a shell whose completion is on. It is given the first words, the second
// words of each, and the arguments of each command.
const zshFrame = `#compdef agent-runtime
# Completion of agent-runtime for zsh, made by: agent-runtime completion zsh

_agent-runtime() {
	local -a names
	local name=$words[2]
	if ((CURRENT == 2)); then
		names=(
%s		)
		_describe command names
		return
	fi
	case $name in
%s	esac
	if (($#names)); then
		if ((CURRENT == 3)); then
			_describe command names
			return
		fi
		name="$name $words[3]"
		shift words
		((CURRENT--))
	fi
	shift words
	((CURRENT--))
	case $name in
%s	esac
}

if [[ $funcstack[1] == _agent-runtime ]]; then
	_agent-runtime "$@"
else
	compdef _agent-runtime agent-runtime
fi
`

func zshCompletion(table []command, c *cli) string {
	var names, members, arguments strings.Builder
	for _, g := range groups(table) {
		fmt.Fprintf(&names, "\t\t\t%s\n", zshQuote(g.word+":"+g.summary))
		if len(g.members) == 0 {
			continue
		}
		fmt.Fprintf(&members, "\t(%s)\n\t\tnames=(\n", g.word)
		for _, cmd := range g.members {
			fmt.Fprintf(&members, "\t\t\t%s\n", zshQuote(cmd.secondWord()+":"+cmd.summary))
		}
		members.WriteString("\t\t)\n\t\t;;\n")
	}
	for _, cmd := range table {
		fmt.Fprintf(&arguments, "\t(%s) _arguments '--help[tell more of it]'", zshQuote(cmd.name))
		for _, spec := range zshArguments(cmd, cmd.meanings(context.Background(), c)) {
			arguments.WriteString(" " + zshQuote(spec))
		}
		arguments.WriteString(" ;;\n")
	}
	return fmt.Sprintf(zshFrame, &names, &members, &arguments)
}

func zshQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// zshPlain takes the meaning from what ends a description.
var zshPlain = strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`)

// zshArguments are the arguments of cmd for zsh's _arguments.
func zshArguments(cmd command, meanings map[string]string) []string {
	var specs []string
	for _, a := range cmd.flags() {
		spec := fmt.Sprintf("%s[%s]", a.flag, zshPlain.Replace(meanings[a.flag]))
		if a.value != "" {
			spec = fmt.Sprintf("%s=[%s]:%s:%s", a.flag, zshPlain.Replace(meanings[a.flag]), a.value, zshAction(a.value))
		}
		specs = append(specs, spec)
	}
	for i, a := range cmd.operands() {
		specs = append(specs, fmt.Sprintf("%d:%s:%s", i+1, a.value, zshAction(a.value)))
	}
	return specs
}

// zshAction offers what may stand for a value.
func zshAction(value string) string {
	switch words := valueWords(value); {
	case value == folderValue:
		return "_files -/"
	case slices.Contains(fileValues, value):
		return "_files"
	case len(words) > 0:
		return "(" + strings.Join(words, " ") + ")"
	}
	return " "
}
