package main

import (
	"slices"
	"strings"
	"time"
)

// Kinds of task, by what a learner does in them.
const (
	environmentBuild      = "build"
	environmentDesign     = "design"
	environmentSimulation = "simulation"
)

// generalCommands may be run for every kind of task.
var generalCommands = []string{"ls", "cat", "pwd", "echo", "python3", "pytest"}

// Bounds of a command line.
const (
	commandWords = 100
	commandBytes = 64 << 10
)

// checkCommand checks a command's form.
func checkCommand(argv []string) error {
	if len(argv) < 1 || len(argv) > commandWords {
		return problemf(kindInvalid, "cmd must be a list of 1 to %d strings.", commandWords)
	}
	size := 0
	for _, word := range argv {
		size += len(word)
		if word == "" || strings.Contains(word, "\x00") {
			return problemf(kindInvalid, "cmd must hold strings that are not empty and have no NUL in them.")
		}
	}
	if size > commandBytes {
		return problemf(kindInvalid, "cmd must be at most %d bytes long in all.", commandBytes)
	}
	return nil
}

// commandTimeout returns how long a command may run: seconds as a page gave them,
// or most when it gave none.
func commandTimeout(seconds *float64, most time.Duration) (time.Duration, error) {
	if seconds == nil {
		return most, nil
	}
	// Compared as a number of seconds: a large one is no duration.
	if !(*seconds > 0 && *seconds <= most.Seconds()) {
		return 0, problemf(kindInvalid, "timeout must be more than 0 and at most %g seconds.", most.Seconds())
	}
	return time.Duration(*seconds * float64(time.Second)), nil
}

// checkPolicy reports whether a kind of task allows a command, told by its
// first word alone and exactly: a prefix or a path's last part would be a
// different program. A task to build has no such policy.
func checkPolicy(task sandboxTask, program string) error {
	if task.environment != environmentDesign && task.environment != environmentSimulation {
		return nil
	}
	allowed := slices.Clone(generalCommands)
	if own := strings.Fields(task.runCommand); len(own) > 0 && !slices.Contains(allowed, own[0]) && !isShell(own[0]) {
		allowed = append(allowed, own[0])
	}
	if slices.Contains(allowed, program) {
		return nil
	}
	list := strings.Join(allowed, ", ")
	if isShell(program) {
		return problemf(kindInvalid, "A shell passthrough is not allowed in a %s task: cmd must start with one of %s.",
			task.environment, list)
	}
	return problemf(kindInvalid, "The command %q is not allowed in a %s task: cmd must start with one of %s.",
		program, task.environment, list)
}

func isShell(program string) bool { return program == "sh" || program == "bash" }
