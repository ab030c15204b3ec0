package main

import (
	"context"
	"fmt"
	"time"
)

func questionCommands() []command {
	return []command{
		{"approvals", "", "list the open questions of the running runtime, whole", runApprovals},
		{"approve", "ID", "answer an open question with yes", func(ctx context.Context, c *cli, args []string) error {
			return answerQuestion(c, "approve", args, true)
		}},
		{"deny", "ID", "answer an open question with no", func(ctx context.Context, c *cli, args []string) error {
			return answerQuestion(c, "deny", args, false)
		}},
	}
}

func runApprovals(_ context.Context, c *cli, args []string) error {
	if _, err := parseArgs(newFlags("approvals"), args); err != nil {
		return err
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	reply, err := callControl(cfg.dir, controlRequest{Do: controlQuestions})
	if err != nil {
		return err
	}
	if len(reply.Questions) == 0 {
		fmt.Fprintln(c.stdout, "No question is open.")
	}
	for _, q := range reply.Questions {
		fmt.Fprintf(c.stdout, "[%s] %s, asked %s ago; waiting: %s\n", q.ID, q.Title,
			time.Since(q.Asked).Round(time.Second), counted(q.Waiting, "request"))
		for _, line := range q.Body {
			fmt.Fprintf(c.stdout, "  %s\n", line)
		}
		fmt.Fprintf(c.stdout, "  Answer with: agent-runtime approve %s   or: agent-runtime deny %s\n\n", q.ID, q.ID)
	}
	return nil
}

func answerQuestion(c *cli, name string, args []string, yes bool) error {
	rest, err := parseArgs(newFlags(name), args, "ID")
	if err != nil {
		return err
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	if _, err := callControl(cfg.dir, controlRequest{Do: controlAnswer, ID: rest[0], Yes: yes}); err != nil {
		return err
	}
	done := "Approved."
	if !yes {
		done = "Declined."
	}
	fmt.Fprintln(c.stdout, done)
	return nil
}

// tellRuntime has a running runtime act on changed grants at once. Without
// one there is nobody to tell.
func tellRuntime(cfg config) { _, _ = callControl(cfg.dir, controlRequest{Do: controlReload}) }
