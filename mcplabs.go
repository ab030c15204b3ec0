package main

// The tools for labs and their actions.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// toolWaitMost is how many seconds a tool may be asked to wait for something.
const toolWaitMost = 300

// runsListed is how many of the last runs list_labs tells.
const runsListed = 10

func waitParam(missing float64) toolParam {
	return toolParam{name: "wait_s", kind: paramNumber, high: toolWaitMost, missing: missing,
		text: "Seconds to wait for the end. What goes on after that is not stopped."}
}

func offsetParam(of string) toolParam {
	return toolParam{name: "offset", kind: paramWhole, high: maxOffset,
		text: "Characters of " + of + " to skip: an earlier answer says where to read on."}
}

var (
	labParam    = toolParam{name: "lab_id", kind: paramName, required: true, text: "The lab's id, as list_labs and prepare_lab tell it."}
	commitParam = toolParam{name: "commit", kind: paramName, required: true, text: "The whole id of the commit: 40 digits in lower case."}
	runParam    = toolParam{name: "run_id", kind: paramName, required: true, text: "The run's id, as run_action told it."}
)

func labToolbox() []tool {
	return []tool{
		{"list_labs", "List labs", "Lists the labs whose actions can be started now, with every command of each action, the last runs, and the approved " +
			"versions that prepare_lab would make startable again without asking anybody.",
			[]toolParam{{name: "lab_id", kind: paramName, text: "Only the labs of this id."}, offsetParam("the list")},
			toolHints{ReadOnly: true, Idempotent: true}, listLabs},
		{"prepare_lab", "Prepare a lab", "Fetches a lab's git repository at one commit, has the person at the computer read and approve its commands " +
			"in the runtime's terminal, and makes its Python environment. Waits for the person, which can take minutes; asks nothing when they approved this version before.",
			[]toolParam{{name: "repo", kind: paramName, required: true, text: "The https address of the git repository."}, commitParam},
			toolHints{Idempotent: true, OpenWorld: true}, prepareLab},
		{"run_action", "Start an action", "Starts a named action of a prepared lab. Answers when it has ended, or after wait_s with its run_id and the output so far; " +
			"it goes on then, read_run follows it and stop_run ends it. A failed action is told by its status and exit code.",
			[]toolParam{labParam, commitParam, {name: "action", kind: paramName, required: true, text: "The action's name."}, waitParam(20)},
			toolHints{Destructive: true, OpenWorld: true}, runAction},
		{"read_run", "Read a run", "Reads the status and output of a run, at once or when it has ended, at most after wait_s.",
			[]toolParam{runParam, offsetParam("the output"), waitParam(0)},
			toolHints{ReadOnly: true, Idempotent: true}, readRun},
		{"stop_run", "Stop a run", "Stops a run with all that it started, as Ctrl-C would and then by force, and answers once it has ended.",
			[]toolParam{runParam, offsetParam("the output")},
			toolHints{Destructive: true, Idempotent: true}, stopRun},
	}
}

func listLabs(ctx context.Context, c *runtimeClient, a toolArgs, _ func(string)) (toolResult, error) {
	var answer labsAnswer
	if err := c.call(ctx, scopeActions, http.MethodGet, "/labs", nil, &answer); err != nil {
		return toolResult{}, err
	}
	id := a.str("lab_id")
	last, err := runsOf(ctx, c, id)
	if err != nil {
		return toolResult{}, err
	}
	var list strings.Builder
	for _, lab := range answer.Labs {
		if id == "" || id == lab.LabID {
			writeLab(&list, lab)
		}
	}
	switch {
	case list.Len() > 0:
	case id == "" || len(answer.Labs) == 0:
		list.WriteString("No lab is prepared since the runtime started. prepare_lab does that.\n")
	default:
		list.WriteString("No lab of this id is prepared since the runtime started; without lab_id, list_labs lists those that are.\n")
	}
	writeRuns(&list, last)
	for i, src := range answer.Unprepared {
		if i == 0 {
			list.WriteString("Approved, and to be prepared with prepare_lab before use:\n")
		}
		fmt.Fprintf(&list, "- repo: %s, commit: %s\n", src.Repo, src.Commit)
	}
	which := ""
	if id != "" {
		which = "lab_id " + id + " and "
	}
	return labResult(list.String(), int(a.number("offset")), func(from int) string {
		return fmt.Sprintf("list_labs with %soffset %d reads on", which, from)
	}), nil
}

// runsOf are the runs of a lab, or of all labs when id is empty, oldest first.
func runsOf(ctx context.Context, c *runtimeClient, id string) ([]runFull, error) {
	path := "/labs/runs"
	if id != "" {
		path += "?lab_id=" + url.QueryEscape(id)
	}
	var answer struct{ Runs []runFull }
	err := c.call(ctx, scopeActions, http.MethodGet, path, nil, &answer)
	return answer.Runs, err
}

// writeRuns writes the last runs: how an agent finds one whose start it did not
// hear of, or forgot.
func writeRuns(w *strings.Builder, runs []runFull) {
	if len(runs) == 0 {
		return
	}
	w.WriteString("The last runs, for read_run and stop_run:\n")
	for _, run := range runs[max(0, len(runs)-runsListed):] {
		fmt.Fprintf(w, "- run_id: %s, lab_id: %s, action: %s, status: %s\n", run.RunID, run.LabID, run.Action, run.Status)
	}
	w.WriteString("\n")
}

// labResult is a text about labs from a character on.
func labResult(text string, offset int, rest func(from int) string) toolResult {
	var r report
	return r.body("", outputText(fromChar(text, offset)), "", rest)
}

// writeLab writes a lab, each of its texts as the person reads it before
// approving: on one line, so that none passes for another.
func writeLab(w *strings.Builder, lab labAnswer) {
	fmt.Fprintf(w, "lab_id: %s\ntitle: %s\nrepo: %s\ncommit: %s\nfolder: %s\n",
		lab.LabID, visible(lab.Title), visible(lab.Repo), lab.Commit, visible(lab.Path))
	for _, notice := range lab.Notices {
		fmt.Fprintf(w, "notice: %s\n", visible(notice))
	}
	if len(lab.Modified) > 0 {
		fmt.Fprintf(w, "files changed since the commit: %s\n", strings.Join(visibleLines(lab.Modified), ", "))
	}
	w.WriteString("actions:\n")
	for _, action := range lab.Actions {
		fmt.Fprintf(w, "- %s: %s (at most %d s)\n", action.Name, visible(action.Label), action.Timeout)
		if action.Description != "" {
			fmt.Fprintf(w, "    %s\n", visible(action.Description))
		}
		for _, step := range action.Steps {
			fmt.Fprintf(w, "    $ %s\n", visible(step))
		}
	}
	w.WriteString("\n")
}

func prepareLab(ctx context.Context, c *runtimeClient, a toolArgs, say func(string)) (toolResult, error) {
	say("The lab is fetched, and made ready. Unless the person approved this version before, its question is in the runtime's terminal; " +
		"`agent-runtime approvals` shows it too.")
	var lab labAnswer
	body := prepareBody{new(a.str("repo")), new(a.str("commit"))}
	if err := c.call(ctx, scopeActions, http.MethodPost, "/labs/prepare", body, &lab); err != nil {
		return toolResult{}, err
	}
	var text strings.Builder
	text.WriteString("Prepared. run_action starts its actions.\n")
	writeLab(&text, lab)
	return labResult(text.String(), 0, func(int) string { return "list_labs with lab_id " + lab.LabID + " shows it" }), nil
}

func runAction(ctx context.Context, c *runtimeClient, a toolArgs, say func(string)) (toolResult, error) {
	var run runFull
	body := startBody{new(a.str("lab_id")), new(a.str("commit")), new(a.str("action"))}
	err := c.call(ctx, scopeActions, http.MethodPost, "/labs/runs", body, &run)
	if r, ok := errors.AsType[*refusal](err); ok && r.status == http.StatusConflict {
		return toolResult{}, withRun(ctx, c, r, a.str("lab_id"))
	}
	if err != nil {
		return toolResult{}, err
	}
	return awaitRun(ctx, c, run.RunID, 0, a.number("wait_s"), say)
}

// withRun adds to why an action was not started which run of the caller's is
// in its way, if one is.
func withRun(ctx context.Context, c *runtimeClient, r *refusal, lab string) error {
	last, err := runsOf(ctx, c, lab)
	if err != nil {
		return err
	}
	for _, run := range last {
		if run.Status == statusRunning {
			return &refusal{r.status, r.detail + " Its run_id is " + run.RunID + ": read_run follows it, stop_run ends it."}
		}
	}
	return r
}

func readRun(ctx context.Context, c *runtimeClient, a toolArgs, say func(string)) (toolResult, error) {
	return awaitRun(ctx, c, a.str("run_id"), int(a.number("offset")), a.number("wait_s"), say)
}

func stopRun(ctx context.Context, c *runtimeClient, a toolArgs, say func(string)) (toolResult, error) {
	say("The run is being stopped.")
	var run runFull
	path := fmt.Sprintf("/labs/runs/%s/stop?offset=%d", url.PathEscape(a.str("run_id")), int(a.number("offset")))
	if err := c.call(ctx, scopeActions, http.MethodPost, path, nil, &run); err != nil {
		return toolResult{}, err
	}
	return runResult(run), nil
}

// awaitRun waits for a run's end, but not longer than seconds, and tells its
// output from offset on.
func awaitRun(ctx context.Context, c *runtimeClient, id string, offset int, seconds float64, say func(string)) (toolResult, error) {
	say("The action " + id + " is running.")
	path := "/labs/runs/" + url.PathEscape(id)
	for end := time.Now().Add(time.Duration(seconds * float64(time.Second))); ; {
		left := min(time.Until(end).Seconds(), waitMost)
		if left <= 0 {
			break
		}
		var run runFull // past all output there is none to wait for but the end
		query := fmt.Sprintf("?offset=%d&wait=%.3f", maxOffset, left)
		if err := c.call(ctx, scopeActions, http.MethodGet, path+query, nil, &run); err != nil {
			return toolResult{}, err
		}
		if run.Status != statusRunning {
			break
		}
	}
	var run runFull
	if err := c.call(ctx, scopeActions, http.MethodGet, fmt.Sprintf("%s?offset=%d", path, offset), nil, &run); err != nil {
		return toolResult{}, err
	}
	return runResult(run), nil
}

// runResult tells a run and its output.
func runResult(run runFull) toolResult {
	var r report
	r.line("run_id: %s", run.RunID)
	r.line("lab_id: %s, action: %s, commit: %s", run.LabID, run.Action, run.Commit)
	r.line("status: %s", run.Status)
	if run.ExitCode != nil {
		r.line("exit_code: %d", *run.ExitCode)
	}
	first := run.NextOffset - len([]rune(run.Output))
	if run.Truncated {
		r.line("The oldest output is not kept any more: it begins at offset %d.", first)
	}
	more := ""
	if run.Status == statusRunning {
		more = fmt.Sprintf("[It goes on: read_run with run_id %s and offset %d reads what comes next, stop_run ends it.]\n", run.RunID, run.NextOffset)
	}
	return r.body("output", outputText(run.Output, first), more, func(from int) string {
		return fmt.Sprintf("read_run with run_id %s and offset %d reads on", run.RunID, from)
	})
}
