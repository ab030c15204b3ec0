package main

// Completions are scripts made from the table of commands. They hold all that
// they offer, so nothing of ours runs while a person types.

import (
	"context"
	"fmt"
	"strings"
)

// runCompletion writes the script for one shell.
func runCompletion(_ context.Context, c *cli, table []command, args []string) error {
	rest, err := parseArgs(newFlags("completion"), args, "SHELL")
	if err != nil {
		return err
	}
	var script string
	switch rest[0] {
	case "bash":
		script = bashCompletion(table)
	case "zsh":
		script = zshCompletion(table, c)
	case "fish":
		script = fishCompletion(table, c)
	default:
		return usageError(fmt.Sprintf("%q is not a shell that has a completion; it must be %s.", rest[0], orList(shells)))
	}
	_, err = fmt.Fprint(c.stdout, script)
	return err
}

// orList is a choice in words: a, b or c.
func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
