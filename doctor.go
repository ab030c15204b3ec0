package main

// The doctor tells what works on this machine, and what to do about the rest.
// It changes nothing.

import (
	"context"
	"encoding/json"
	"fmt"
)

func runDoctor(ctx context.Context, c *cli, args []string) error {
	flags := newFlags("doctor")
	asJSON := flags.Bool("json", false, "print JSON")
	if _, err := parseArgs(flags, args); err != nil {
		return err
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	found := examine(ctx, newProcesses(), c.environ, cfg, checkPort(cfg), checkHTTPS(ctx, cfg))
	if *asJSON {
		err = printJSON(c, found)
	} else {
		printCheckups(c, found.Checks)
	}
	if err == nil && !found.OK {
		err = errFailed
	}
	return err
}

func printJSON(c *cli, v any) error {
	enc := json.NewEncoder(c.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func printCheckups(c *cli, checks []checkup) {
	for _, check := range checks {
		mark := "ok  "
		switch {
		case !check.OK && check.Needed:
			mark = "FAIL"
		case !check.OK:
			mark = "--  "
		}
		fmt.Fprintf(c.stdout, "%s  %-11s %s\n", mark, check.Name, visible(check.Detail))
		if check.Hint != "" {
			fmt.Fprintf(c.stdout, "      %-11s hint: %s\n", "", visible(check.Hint))
		}
	}
}
