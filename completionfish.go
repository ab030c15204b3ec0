package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// fishFrame begins the completion for fish. The value of a flag counts as an
// operand there, which does no harm while no command takes both a flag with a
// value and an operand that can be completed.
const fishFrame = `# Completion of agent-runtime for fish, made by: agent-runtime completion fish

# true when exactly this much stands before the cursor
function __agent_runtime_at
	set -l words (commandline -opc)
	set -e words[1]
	test "$words" = "$argv"
end

# true when the command is this one
function __agent_runtime_in
	set -l words (commandline -opc)
	set -e words[1]
	string match -q -- "$argv *" "$words "
end

# true when the command is this one and the operand with this number comes next
function __agent_runtime_operand
	__agent_runtime_in $argv[2..]; or return
	set -l words (commandline -opc | string match -v -- '-*')
	test (count $words) -eq (math (count $argv) - 1 + $argv[1])
end

complete -c agent-runtime -f
complete -c agent-runtime -l help -d 'tell more of it'
`

func fishCompletion(table []command, c *cli) string {
	var b strings.Builder
	b.WriteString(fishFrame)
	for _, g := range groups(table) {
		fmt.Fprintf(&b, "\ncomplete -c agent-runtime -n '__agent_runtime_at' -a %s -d %s\n", g.word, fishQuote(g.summary))
		for _, cmd := range g.members {
			fmt.Fprintf(&b, "complete -c agent-runtime -n '__agent_runtime_at %s' -a %s -d %s\n", g.word, cmd.secondWord(), fishQuote(cmd.summary))
		}
	}
	b.WriteString("\n")
	for _, cmd := range table {
		meanings := cmd.meanings(context.Background(), c)
		for _, a := range cmd.flags() {
			fmt.Fprintf(&b, "complete -c agent-runtime -n '__agent_runtime_in %s' -l %s%s -d %s\n",
				cmd.name, strings.TrimPrefix(a.flag, "--"), fishValue(a.value), fishQuote(meanings[a.flag]))
		}
		for i, a := range cmd.operands() {
			if offer := fishValue(a.value); offer != " -x" {
				fmt.Fprintf(&b, "complete -c agent-runtime -n '__agent_runtime_operand %d %s'%s\n", i+1, cmd.name, strings.TrimPrefix(offer, " -x"))
			}
		}
	}
	return b.String()
}

// fishQuote writes s as one word.
func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}

// fishValue are the options of complete for a flag's value: none for a flag
// without one, and -x alone for one that nobody knows.
func fishValue(value string) string {
	switch words := valueWords(value); {
	case value == "":
		return ""
	case value == folderValue:
		return " -x -a '(__fish_complete_directories)'"
	case slices.Contains(fileValues, value):
		return " -r -F"
	case len(words) > 0:
		return " -x -a '" + strings.Join(words, " ") + "'"
	}
	return " -x"
}
