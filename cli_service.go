package main

import (
	"context"
	"flag"
	"fmt"
	"os"
)

func serviceCommands() []command {
	return []command{
		{"service install", "[--print]", "start the runtime now and at every login, as a service of this account", runServiceInstall},
		{"service uninstall", "", "stop the service and start it no more", runServiceUninstall},
		{"service status", "", "tell whether the service is installed and runs", runServiceStatus},
	}
}

// service reads the arguments of a command, and finds the service for this
// program and this account.
func (c *cli) service(flags *flag.FlagSet, args []string) (*service, error) {
	if _, err := parseArgs(flags, args); err != nil {
		return nil, err
	}
	cfg, err := c.config()
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	settings, err := serviceSettingsOf(cfg, program, c.environ)
	if err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir() // the system says whether it needs one
	return serviceHere(c.getenv, home, settings)
}

func runServiceInstall(ctx context.Context, c *cli, args []string) error {
	flags := newFlags("service install")
	toPrint := flags.Bool("print", false, "print the file that would be written, and change nothing")
	s, err := c.service(flags, args)
	if err != nil {
		return err
	}
	if *toPrint {
		_, err := fmt.Fprint(c.stdout, s.text)
		return err
	}
	if err := lastingProgram(s.settings.program, os.TempDir()); err != nil {
		return err
	}
	ps := newProcesses()
	if _, err := callControl(s.settings.dir, controlRequest{Do: controlQuestions}); err == nil && !s.runs(ctx, ps, c.environ) {
		return problemf(kindConflict, "agent-runtime serve runs already, and not as the service; end it with Ctrl-C in its terminal, and install the service then.")
	}
	if err := s.install(ctx, ps, c.environ); err != nil {
		return err
	}
	c.tellInstalled(s)
	return nil
}

// tellInstalled says what is different from now on.
func (c *cli) tellInstalled(s *service) {
	fmt.Fprintf(c.stdout, "Wrote %s\n", visible(s.file))
	fmt.Fprintln(c.stdout, "The runtime is started now, and at every login from now on. It has no terminal to ask in:")
	fmt.Fprintln(c.stdout, "  agent-runtime approvals       shows its open questions")
	fmt.Fprintln(c.stdout, "  agent-runtime approve ID      answers one with yes")
	fmt.Fprintln(c.stdout, "  agent-runtime service status  tells whether it runs")
	fmt.Fprintf(c.stdout, "  %s  shows what it says\n", visible(s.log))
	for _, k := range configKeys() {
		if k.key != "" && k.env != "" && c.getenv(k.env) != "" {
			fmt.Fprintf(c.stderr, "%s counts in this terminal alone; for the service write %s into config.toml.\n", k.env, k.key)
		}
	}
}

func runServiceUninstall(ctx context.Context, c *cli, args []string) error {
	if _, err := parseArgs(newFlags("service uninstall"), args); err != nil {
		return err
	}
	home, _ := os.UserHomeDir()
	s, err := serviceHere(c.getenv, home, serviceSettings{}) // what it would hold does not matter
	if err != nil {
		return err
	}
	removed, err := s.uninstall(ctx, newProcesses(), c.environ)
	if err != nil {
		return err
	}
	if !removed {
		fmt.Fprintln(c.stdout, "The service is not installed.")
		return nil
	}
	fmt.Fprintf(c.stdout, "Stopped the service and removed %s\n", visible(s.file))
	return nil
}

func runServiceStatus(ctx context.Context, c *cli, args []string) error {
	s, err := c.service(newFlags("service status"), args)
	if err != nil {
		return err
	}
	text, found, err := s.installed()
	if err != nil {
		return err
	}
	if !found {
		fmt.Fprintln(c.stdout, "The service is not installed; agent-runtime service install does it.")
		return errFailed
	}
	fmt.Fprintf(c.stdout, "Installed: %s\n", visible(s.file))
	if text != s.text {
		fmt.Fprintln(c.stdout, "It was written by another version, or with another PATH or data folder; agent-runtime service install renews it.")
	}
	if !s.runs(ctx, newProcesses(), c.environ) {
		fmt.Fprintf(c.stdout, "It does not run; this tells more: %s\n", visible(s.log))
		return errFailed
	}
	fmt.Fprintln(c.stdout, "It runs; agent-runtime approvals shows its open questions.")
	return nil
}
