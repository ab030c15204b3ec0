package main

// Who has access: pairings of web pages and tokens of local programs.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

func accessCommands() []command {
	return []command{
		{"pairing list", "", "list the paired sites", runPairingList},
		{"pairing revoke", "ORIGIN", "take a site's access away, with all it had approved; its actions are stopped", runPairingRevoke},
		{"token create", "NAME [--scope SCOPE]", "make a token for a local program; it is printed once", runTokenCreate},
		{"token list", "", "list the local programs with a token", runTokenList},
		{"token revoke", "NAME", "take a local program's access away; its actions are stopped", runTokenRevoke},
	}
}

// grantsFor reads arguments and opens the state.
func grantsFor(c *cli, name string, args []string, want ...string) (config, *stateStore, []string, error) {
	rest, err := parseArgs(newFlags(name), args, want...)
	if err != nil {
		return config{}, nil, nil, err
	}
	cfg, err := c.config()
	if err != nil {
		return cfg, nil, nil, err
	}
	state, err := c.openState(cfg)
	return cfg, state, rest, err
}

func runPairingList(_ context.Context, c *cli, args []string) error {
	cfg, state, _, err := grantsFor(c, "pairing list", args)
	if err != nil {
		return err
	}
	data, err := state.current()
	if err != nil {
		return err
	}
	if len(data.Pairings) == 0 {
		fmt.Fprintln(c.stdout, "No site is paired.")
		return nil
	}
	used := readLastUses(cfg.dir)
	rows := [][]string{{"SITE", "SCOPE", "PAIRED", "LAST USED", "APPROVED LABS"}}
	for _, origin := range slices.Sorted(maps.Keys(data.Pairings)) {
		p := data.Pairings[origin]
		rows = append(rows, []string{visible(origin), string(p.Scope), localTime(p.PairedAt),
			timeOrNever(lastUsed(used, data, principal(origin))), fmt.Sprint(approvalsOf(data, principal(origin)))})
	}
	return printRows(c, rows)
}

func approvalsOf(data *stateData, p principal) int {
	n := 0
	for key := range data.Approvals {
		if kp, _, _, ok := splitApprovalKey(key); ok && kp == p {
			n++
		}
	}
	return n
}

func runPairingRevoke(_ context.Context, c *cli, args []string) error {
	cfg, state, rest, err := grantsFor(c, "pairing revoke", args, "ORIGIN")
	if err != nil {
		return err
	}
	if err := revokePairing(state, principal(rest[0])); err != nil {
		return err
	}
	tellRuntime(cfg)
	fmt.Fprintf(c.stdout, "%s has no access any more.\n", visible(rest[0]))
	return nil
}

func runTokenCreate(_ context.Context, c *cli, args []string) error {
	flags := newFlags("token create")
	wanted := flags.String("scope", string(scopeCode), "what it may use")
	rest, err := parseArgs(flags, args, "NAME")
	if err != nil {
		return err
	}
	granted, err := parseScope(*wanted)
	if err != nil {
		return usageError(err.Error())
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	state, err := c.openState(cfg)
	if err != nil {
		return err
	}
	secret, err := createClient(state, rest[0], granted)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.stdout, secret.reveal())
	fmt.Fprintf(c.stderr, "This is the token of %s; it is not shown again. It could %s.\n", rest[0], granted.text())
	return nil
}

func runTokenList(_ context.Context, c *cli, args []string) error {
	cfg, state, _, err := grantsFor(c, "token list", args)
	if err != nil {
		return err
	}
	data, err := state.current()
	if err != nil {
		return err
	}
	if len(data.Clients) == 0 {
		fmt.Fprintln(c.stdout, "No local program has a token.")
		return nil
	}
	used := readLastUses(cfg.dir)
	rows := [][]string{{"NAME", "SCOPE", "CREATED", "LAST USED"}}
	for _, name := range slices.Sorted(maps.Keys(data.Clients)) {
		client := data.Clients[name]
		rows = append(rows, []string{visible(name), string(client.Scope), localTime(client.CreatedAt),
			timeOrNever(lastUsed(used, data, principal(clientPrincipal+name)))})
	}
	return printRows(c, rows)
}

func runTokenRevoke(_ context.Context, c *cli, args []string) error {
	cfg, state, rest, err := grantsFor(c, "token revoke", args, "NAME")
	if err != nil {
		return err
	}
	if err := revokeClient(state, rest[0]); err != nil {
		return err
	}
	tellRuntime(cfg)
	fmt.Fprintf(c.stdout, "%s has no access any more.\n", visible(rest[0]))
	return nil
}

func localTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

func timeOrNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return localTime(t)
}

// printRows prints a table whose cells hold no tabs.
func printRows(c *cli, rows [][]string) error {
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
