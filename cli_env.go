package main

import (
	"context"
	"fmt"
)

func envCommands() []command {
	return []command{
		{"env list", "", "list the Python environments of labs", runEnvList},
		{"env create", "ID [--python PYTHON]", "make the environment of a lab", runEnvCreate},
		{"env delete", "ID", "delete the environment of a lab", runEnvDelete},
	}
}

func (c *cli) environments() (*environments, error) {
	cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	if err := makeDataFolder(cfg.dir); err != nil {
		return nil, err
	}
	return newEnvironments(cfg.dir, cfg, newProcesses(), c.logger(levelQuiet)), nil
}

func runEnvList(_ context.Context, c *cli, args []string) error {
	if _, err := parseArgs(newFlags("env list"), args); err != nil {
		return err
	}
	envs, err := c.environments()
	if err != nil {
		return err
	}
	list, err := envs.list()
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintln(c.stdout, "There is no environment.")
		return nil
	}
	rows := [][]string{{"ID", "PYTHON", "STATE"}}
	for _, e := range list {
		state := "ready"
		if !e.ready {
			state = "broken; agent-runtime env create makes it anew"
		}
		rows = append(rows, []string{visible(e.id), visible(e.python), state})
	}
	return printRows(c, rows)
}

func runEnvCreate(_ context.Context, c *cli, args []string) error {
	flags := newFlags("env create")
	python := flags.String("python", "", "the interpreter, by name or full path")
	rest, err := parseArgs(flags, args, "ID")
	if err != nil {
		return err
	}
	asked, _, stop := endSignals()
	defer stop()
	envs, err := c.environments()
	if err != nil {
		return err
	}
	defer envs.close()
	created, err := envs.create(asked, rest[0], *python)
	if err != nil {
		return err
	}
	if !created {
		fmt.Fprintf(c.stdout, "The environment of %s was there already: %s\n", rest[0], visible(envs.path(rest[0])))
		return nil
	}
	fmt.Fprintf(c.stdout, "Made %s\n", visible(envs.path(rest[0])))
	return nil
}

func runEnvDelete(_ context.Context, c *cli, args []string) error {
	rest, err := parseArgs(newFlags("env delete"), args, "ID")
	if err != nil {
		return err
	}
	envs, err := c.environments()
	if err != nil {
		return err
	}
	if err := envs.remove(rest[0]); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "Deleted the environment of %s.\n", visible(rest[0]))
	return nil
}
