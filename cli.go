package main

// The command line: one table of commands, and what they share. Errors go to
// standard error in one sentence; the exit status is 0 done, 1 failed, 2 the
// command line is wrong.

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// sourceVersion is the version of this source.
const sourceVersion = "0.1.0"

// levelQuiet lets only faults of our own into a command's output.
const levelQuiet = slog.LevelError

const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// errFailed ends a command with status 1 when all was said already.
var errFailed = errors.New("failed")

// usageError is a wrong command line.
type usageError string

func (e usageError) Error() string { return string(e) }

// runCommand runs what args ask for and returns the exit status.
func runCommand(ctx context.Context, c *cli, table []command, args []string) int {
	err := c.dispatch(ctx, table, args)
	return c.fail(cmp.Or(err, c.stdout.failure()))
}

// dispatch runs the command that args name, or tells how to use it.
func (c *cli) dispatch(ctx context.Context, table []command, args []string) error {
	if len(args) == 0 || slices.Contains([]string{"--help", "-h", "help"}, args[0]) {
		printHelp(c.stdout, table, "")
		return nil
	}
	cmd, rest, found := findCommand(table, args)
	switch {
	case !found && isGroup(table, args[0]) && len(args) > 1 && isHelp(args[1]):
		printHelp(c.stdout, table, args[0])
		return nil
	case !found && isGroup(table, args[0]):
		return usageError(fmt.Sprintf("%q is not a command; agent-runtime %s --help lists those that are.",
			strings.Join(args[:min(2, len(args))], " "), args[0]))
	case !found:
		return usageError(fmt.Sprintf("%q is not a command; agent-runtime --help lists those that are.", args[0]))
	case slices.ContainsFunc(rest, isHelp):
		printUsage(c.stdout, cmd, cmd.meanings(ctx, c))
		return nil
	}
	return cmd.run(ctx, c, rest)
}

func isHelp(arg string) bool { return arg == "--help" || arg == "-h" }

// fail tells err and returns its exit status. An error about several mistakes
// has a line for each.
func (c *cli) fail(err error) int {
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errFailed) {
		return exitFailed
	}
	text := err.Error()
	if p, ok := errors.AsType[*problem](err); ok {
		text = p.detail
		if p.kind == kindInternal && p.err != nil {
			text = p.Error()
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(c.stderr, "agent-runtime: error: %s\n", visible(line))
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

func findCommand(table []command, args []string) (command, []string, bool) {
	for words := min(2, len(args)); words > 0; words-- {
		name := strings.Join(args[:words], " ")
		for _, cmd := range table {
			if cmd.name == name {
				return cmd, args[words:], true
			}
		}
	}
	return command{}, nil, false
}

func isGroup(table []command, word string) bool {
	return slices.ContainsFunc(table, func(c command) bool { return strings.HasPrefix(c.name, word+" ") })
}

func printHelp(w io.Writer, table []command, group string) {
	fmt.Fprint(w, "agent-runtime lets a course page run approved things on this computer.\n\nusage: agent-runtime COMMAND\n\n")
	for _, cmd := range table {
		if group == "" || strings.HasPrefix(cmd.name, group+" ") {
			fmt.Fprintf(w, "  %s\n      %s\n", cmd.synopsis(), cmd.summary)
		}
	}
	fmt.Fprint(w, "\nagent-runtime COMMAND --help tells more of one.\n")
}

// printUsage tells of one command, whose flags mean what meanings says.
func printUsage(w io.Writer, cmd command, meanings map[string]string) {
	fmt.Fprintf(w, "usage: agent-runtime %s\n\n%s.\n", cmd.synopsis(), sentenceCase(cmd.summary))
	for i, a := range cmd.flags() {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "  %-20s %s\n", a, meanings[a.flag])
	}
}

// twoDashes writes a flag's name in package flag's errors as the help does.
var twoDashes = strings.NewReplacer("for flag -", "for flag --", "defined: -", "defined: --", "needs an argument: -", "needs an argument: --")

// parseArgs reads flags, which may stand anywhere, and returns the other
// arguments, of which there must be as many as names. A command calls it before
// it does anything, since it may return a [helpRequest].
func parseArgs(flags *flag.FlagSet, args []string, names ...string) ([]string, error) {
	flags.SetOutput(io.Discard)
	var rest []string
	for {
		err := flags.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			return nil, helpRequest{flags}
		}
		if err != nil {
			mistake := twoDashes.Replace(strings.TrimSuffix(err.Error(), "."))
			return nil, usageError(fmt.Sprintf("%s; see agent-runtime %s --help.", mistake, flags.Name()))
		}
		if flags.NArg() == 0 {
			break
		}
		rest = append(rest, flags.Arg(0))
		args = flags.Args()[1:]
	}
	if len(rest) != len(names) {
		want := "no arguments"
		if len(names) > 0 {
			want = strings.Join(names, " ")
		}
		return nil, usageError(fmt.Sprintf("%s takes %s, not %d arguments; see agent-runtime %s --help.", flags.Name(), want, len(rest), flags.Name()))
	}
	return rest, nil
}

func newFlags(name string) *flag.FlagSet { return flag.NewFlagSet(name, flag.ContinueOnError) }

func (c *cli) getenv(name string) string {
	for _, entry := range slices.Backward(c.environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// config loads the configuration of the data folder. Its path is absolute:
// pages are told of it, and children that run in other folders use it.
func (c *cli) config() (config, error) {
	home, _ := os.UserHomeDir() // without one the folder must be named
	dir := dataFolder(c.getenv, home)
	if dir == "" {
		return config{}, problemf(kindUnacceptable, "The home folder is not known: set HOME, or AGENT_RUNTIME_RUNTIME_DIR to the folder for data.")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return config{}, fmt.Errorf("find the data folder: %w", err)
	}
	return loadConfig(dir, c.getenv)
}

// openState opens the state of the data folder for a command.
func (c *cli) openState(cfg config) (*stateStore, error) {
	return openState(cfg.dir, c.logger(slog.LevelWarn))
}

func (c *cli) logger(level slog.Level) *slog.Logger { return newLogger(c.stderr, level) }

func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

func runVersion(_ context.Context, c *cli, args []string) error {
	if _, err := parseArgs(newFlags("version"), args); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "agent-runtime %s\n", programVersion())
	return nil
}

// programVersion is the module's version as it was built, or what the source
// says: without a tag, Go calls every commit one of 0.0.0, older than all.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || !strings.HasPrefix(info.Main.Version, "v") || strings.HasPrefix(info.Main.Version, "v0.0.0-") {
		return sourceVersion
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}
