package main

// The manual page, in the macros of man(7), made from the tables that the
// program itself goes by.

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// dataFiles are what a person may want to know of the data folder.
var dataFiles = []struct{ path, holds string }{
	{"config.toml", "settings, written by you"},
	{"state.json", "paired sites, approved labs, local programs and learners"},
	{"envs/", "the Python environments of labs"},
	{"labs/", "checkouts, a folder for each commit"},
	{"runs/", "the last runs of each site with their output"},
	{"sandboxes/", "the workspaces of sandboxes"},
	{"tls/", "the certificate for loopback"},
}

// exitStatuses are all there are.
var exitStatuses = []struct {
	status  int
	meaning string
}{
	{exitDone, "it is done"},
	{exitFailed, "it failed"},
	{exitUsage, "the command line is wrong"},
}

func runMan(ctx context.Context, c *cli, table []command, args []string) error {
	if _, err := parseArgs(newFlags("man"), args); err != nil {
		return err
	}
	_, err := fmt.Fprint(c.stdout, manPage(ctx, c, table))
	return err
}

func manPage(ctx context.Context, c *cli, table []command) string {
	var p page
	fmt.Fprintf(&p, ".TH AGENT\\-RUNTIME 1 \"\" \"agent\\-runtime %s\" \"User Commands\"\n", roff(programVersion()))
	p.section("NAME")
	p.text("agent-runtime - lets a course page run approved things on this computer")
	p.section("SYNOPSIS")
	p.WriteString(".B agent\\-runtime\n.I COMMAND\n[arguments]\n")
	p.section("DESCRIPTION")
	p.text("A course page on the web shows a button; the program it stands for runs on",
		"the learner's own computer. agent-runtime listens on loopback, asks its",
		"owner in a terminal before a site may do anything, fetches a lab's",
		"repository at one exact commit, shows every command of it, and lets the",
		"page start, follow and stop just those commands.")
	p.section("COMMANDS")
	for _, cmd := range table {
		p.command(cmd, cmd.meanings(ctx, c))
	}
	p.section("EXIT STATUS")
	for _, s := range exitStatuses {
		p.item(fmt.Sprint(s.status), s.meaning)
	}
	p.environment()
	p.section("CONFIGURATION")
	p.text("The file config.toml holds keys in tables: server.port is port in the table",
		"[server]. A flag wins over the environment, that over the file.")
	for _, k := range configKeys() {
		if k.key != "" {
			p.item(k.key, k.want)
		}
	}
	p.section("FILES")
	p.text("In the data folder, AGENT_RUNTIME_RUNTIME_DIR, else agent-runtime in",
		"XDG_DATA_HOME, else ~/.agent-runtime:")
	for _, f := range dataFiles {
		p.item(f.path, f.holds)
	}
	return p.String()
}

// page is a manual page being written.
type page struct{ strings.Builder }

func (p *page) section(name string) { fmt.Fprintf(p, ".SH %s\n", name) }

func (p *page) text(lines ...string) {
	for _, line := range lines {
		fmt.Fprintln(p, roff(line))
	}
}

func (p *page) item(tag, meaning string) {
	fmt.Fprintf(p, ".TP\n\\fB%s\\fR\n%s\n", roff(tag), roff(meaning))
}

// argumentWord is a flag, or what stands for a value.
var argumentWord = regexp.MustCompile(`--[a-z-]+|[A-Z]+`)

// command writes of one command what its help tells.
func (p *page) command(cmd command, meanings map[string]string) {
	args := argumentWord.ReplaceAllStringFunc(cmd.args, func(word string) string {
		if strings.HasPrefix(word, "--") {
			return `\fB` + roff(word) + `\fR`
		}
		return `\fI` + word + `\fR`
	})
	fmt.Fprintf(p, ".TP\n%s\n%s.\n", strings.TrimSpace(`\fB`+roff(cmd.name)+`\fR `+args), roff(sentenceCase(cmd.summary)))
	flags := cmd.flags()
	if len(flags) == 0 {
		return
	}
	p.WriteString(".RS\n")
	for _, a := range flags {
		p.item(a.String(), meanings[a.flag])
	}
	p.WriteString(".RE\n")
}

func (p *page) environment() {
	p.section("ENVIRONMENT")
	p.item("AGENT_RUNTIME_RUNTIME_DIR", "the data folder")
	for _, k := range configKeys() {
		switch {
		case k.env != "" && k.key != "":
			p.item(k.env, "stands for "+k.key+": "+k.want)
		case k.env != "":
			p.item(k.env, k.want)
		}
	}
	p.item("AGENT_RUNTIME_URL", "where the running runtime listens, for mcp")
	p.item("AGENT_RUNTIME_TOKEN", "the token of a local program, for mcp")
	p.item("NO_COLOR", "when it is set, actions are not told to colour their output")
}

// roffSpecial are the characters that mean something in roff, or are drawn as
// others.
var roffSpecial = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)

// roff writes s so that it is text, also at the start of a line.
func roff(s string) string {
	s = roffSpecial.Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
