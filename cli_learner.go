package main

// The allowlist of learners, and the ages that the person at this terminal
// vouches for.

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

func learnerCommands() []command {
	return []command{
		{"learner add", "ID [--age N]", "let a learner have sandboxes; --age vouches for the age at once", runLearnerAdd},
		{"learner verify", "ID --age N", "vouch for a learner's age", runLearnerVerify},
		{"learner list", "", "list the learners that may have sandboxes", runLearnerList},
		{"learner remove", "ID", "let a learner have no more sandboxes", runLearnerRemove},
	}
}

// ageFlag adds the flag for an age and returns where it is put, which is nil
// when it is not given.
func ageFlag(flags *flag.FlagSet) **int {
	var age *int
	flags.Func("age", "age in years", func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("it must be a number of years")
		}
		age = &n
		return nil
	})
	return &age
}

func runLearnerAdd(_ context.Context, c *cli, args []string) error {
	flags := newFlags("learner add")
	age := ageFlag(flags)
	rest, state, err := learnerState(c, flags, args, "ID")
	if err != nil {
		return err
	}
	if err := addLearner(state, rest[0], *age, time.Now()); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "%s may have sandboxes%s.\n", visible(rest[0]), onceVerified(*age))
	return nil
}

func onceVerified(age *int) string {
	if age == nil {
		return ", once the age is verified where that is needed"
	}
	return ""
}

func runLearnerVerify(_ context.Context, c *cli, args []string) error {
	flags := newFlags("learner verify")
	age := ageFlag(flags)
	rest, state, err := learnerState(c, flags, args, "ID")
	if err != nil {
		return err
	}
	if *age == nil {
		return usageError("learner verify needs --age N, the age in years.")
	}
	if err := verifyLearner(state, rest[0], **age, time.Now()); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "%s is %d years old.\n", visible(rest[0]), **age)
	return nil
}

func runLearnerList(_ context.Context, c *cli, args []string) error {
	_, state, err := learnerState(c, newFlags("learner list"), args)
	if err != nil {
		return err
	}
	data, err := state.current()
	if err != nil {
		return err
	}
	if len(data.Learners) == 0 {
		fmt.Fprintln(c.stdout, "No learner is on the allowlist.")
		return nil
	}
	rows := [][]string{{"LEARNER", "AGE", "VERIFIED", "ADDED"}}
	for _, id := range slices.Sorted(maps.Keys(data.Learners)) {
		l := data.Learners[id]
		age, verified := "-", "-"
		if l.Age != nil {
			age, verified = strconv.Itoa(*l.Age), localTime(l.VerifiedAt)
		}
		rows = append(rows, []string{visible(id), age, verified, localTime(l.AddedAt)})
	}
	return printRows(c, rows)
}

func runLearnerRemove(_ context.Context, c *cli, args []string) error {
	rest, state, err := learnerState(c, newFlags("learner remove"), args, "ID")
	if err != nil {
		return err
	}
	if err := removeLearner(state, rest[0]); err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "%s may have no more sandboxes. Those that are active stay until they end.\n", visible(rest[0]))
	return nil
}

// learnerState reads arguments and opens the state.
func learnerState(c *cli, flags *flag.FlagSet, args []string, want ...string) ([]string, *stateStore, error) {
	rest, err := parseArgs(flags, args, want...)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := c.config()
	if err != nil {
		return nil, nil, err
	}
	state, err := c.openState(cfg)
	return rest, state, err
}
