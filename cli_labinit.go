package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// folderArgument reads the one argument of a command, a folder; without one it
// is the folder that the command runs in.
func folderArgument(name string, args []string) (string, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	rest, err := parseArgs(newFlags(name), args, folderValue)
	if err != nil {
		return "", err
	}
	return rest[0], nil
}

func runLabInit(_ context.Context, c *cli, args []string) error {
	dir, err := folderArgument("lab init", args)
	if err != nil {
		return err
	}
	names, err := startLab(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintf(c.stdout, "Wrote %s\n", visible(filepath.Join(dir, name)))
	}
	if strings.HasPrefix(dir, "-") {
		dir = "./" + dir // not a flag
	}
	fmt.Fprintf(c.stdout, "Run its action as a page would with: %s\n",
		visible(shellQuote([]string{"agent-runtime", "lab", "run", dir, "greet"})))
	return nil
}

func runLabSchema(_ context.Context, c *cli, args []string) error {
	if _, err := parseArgs(newFlags("lab schema"), args); err != nil {
		return err
	}
	_, err := c.stdout.Write(labSchema)
	return err
}
