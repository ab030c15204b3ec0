// Agent-runtime lets a course page run things on the learner's own machine,
// and nothing that the learner did not approve.
package main

import (
	"context"
	"os"
	"slices"
)

func main() {
	if played, status := playSender(os.Args[1:]); played {
		os.Exit(status)
	}
	c := &cli{environ: os.Environ(), stdin: os.Stdin, stdout: &printer{file: os.Stdout}, stderr: os.Stderr}
	os.Exit(runCommand(context.Background(), c, commands(), os.Args[1:]))
}

// commands lists everything that a person can type.
func commands() []command {
	return slices.Concat(serveCommands(), serviceCommands(), questionCommands(), accessCommands(), labCommands(), envCommands(), learnerCommands(), tlsCommands(), agentCommands(), []command{
		{"doctor", "[--json]", "tell what works on this machine, and what to do about the rest", runDoctor},
		{"completion", "SHELL", "write the completion of bash, zsh or fish, for a file that the shell reads", func(ctx context.Context, c *cli, args []string) error {
			return runCompletion(ctx, c, commands(), args)
		}},
		{"man", "", "write the manual page", func(ctx context.Context, c *cli, args []string) error {
			return runMan(ctx, c, commands(), args)
		}},
		{"version", "", "print the version", runVersion},
	})
}
