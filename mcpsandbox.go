package main

// The tools for sandboxes.

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

var sandboxParam = toolParam{name: "sandbox_id", kind: paramName, required: true, text: "The sandbox's id, as sandbox_create told it."}

func sandboxToolbox() []tool {
	return []tool{
		{"sandbox_create", "Make a sandbox", "Makes a sandbox: an empty folder, /workspace, in which commands run cut off from the network and the rest of the computer.",
			[]toolParam{{name: "learner_id", kind: paramName, required: true, text: "For whom, from the list that `agent-runtime learner list` shows."},
				{name: "task_id", kind: paramName, text: "A task of the runtime's configuration, whose rules then hold."}},
			toolHints{}, createSandbox},
		{"sandbox_exec", "Run a command in a sandbox", "Runs a command in the sandbox and answers when it has ended, with its exit status and output. No shell is put around it.",
			[]toolParam{sandboxParam, {name: "cmd", kind: paramList, required: true, text: "The program and its arguments, such as [\"python3\", \"x.py\"] or [\"sh\", \"-c\", \"ls | wc -l\"]."},
				{name: "timeout_s", kind: paramNumber, low: 0, high: day, text: "Seconds after which the command is ended; 0 stands for the runtime's own limit."}},
			toolHints{Destructive: true}, sandboxExec},
		{"sandbox_read", "Read in a sandbox", "Reads a file of the sandbox exactly as it is, or, without a path, lists all files and folders. A picture is shown.",
			[]toolParam{sandboxParam, {name: "path", kind: paramText, text: "The file's path in /workspace; left out, all files are listed."}, offsetParam("the file or list")},
			toolHints{ReadOnly: true, Idempotent: true}, sandboxRead},
		{"sandbox_write", "Write in a sandbox", "Writes a file of the sandbox, whole; folders are made as needed.",
			[]toolParam{sandboxParam, {name: "path", kind: paramName, required: true, text: "The file's path in /workspace."},
				{name: "content", kind: paramText, required: true, text: "What the file is to hold."},
				{name: "encoding", kind: paramName, text: "base64 when content is bytes in base64; text otherwise."}},
			toolHints{Destructive: true, Idempotent: true}, sandboxWrite},
		{"sandbox_delete", "End a sandbox", "Ends the sandbox with all that runs in it. Its files are lost.",
			[]toolParam{sandboxParam}, toolHints{Destructive: true, Idempotent: true}, sandboxDelete},
	}
}

func sandboxURL(a toolArgs) string { return "/v1/sandboxes/" + url.PathEscape(a.str("sandbox_id")) }

// sandboxFileURL is the address of a file. Commands see the workspace at /workspace,
// so a path may begin with that.
func sandboxFileURL(a toolArgs) string {
	return sandboxURL(a) + "/files/" + urlPath(strings.TrimPrefix(a.str("path"), "/workspace/"))
}

func createSandbox(ctx context.Context, c *runtimeClient, a toolArgs, _ func(string)) (toolResult, error) {
	body := sandboxBody{LearnerID: new(a.str("learner_id"))}
	if a.has("task_id") {
		body.TaskID = new(a.str("task_id"))
	}
	var answer sandboxAnswer
	err := c.call(ctx, scopeSandbox, http.MethodPost, "/v1/sandboxes", body, &answer)
	if r, ok := errors.AsType[*refusal](err); ok && (r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable) {
		return toolResult{}, withSandboxes(ctx, c, r)
	}
	if err != nil {
		return toolResult{}, err
	}
	return toolResult{text: "sandbox_id: " + answer.ID + "\nCommands find its files in /workspace, where they start.\n"}, nil
}

// withSandboxes adds to why no sandbox was made which the caller has: it may
// not have heard of one, or have forgotten it.
func withSandboxes(ctx context.Context, c *runtimeClient, r *refusal) error {
	var answer sandboxesAnswer
	if err := c.call(ctx, scopeSandbox, http.MethodGet, "/v1/sandboxes", nil, &answer); err != nil {
		return err
	}
	if len(answer.Sandboxes) == 0 {
		return r
	}
	var list strings.Builder
	for _, box := range answer.Sandboxes {
		fmt.Fprintf(&list, "\n- sandbox_id: %s, learner_id: %s", box.ID, visible(box.LearnerID))
	}
	return &refusal{r.status, r.detail + "\nThere are, to be used, or ended with sandbox_delete:" + list.String()}
}

func sandboxExec(ctx context.Context, c *runtimeClient, a toolArgs, say func(string)) (toolResult, error) {
	say("The command is running.")
	body := execBody{Cmd: a.list("cmd")}
	if seconds := a.number("timeout_s"); seconds > 0 {
		body.Timeout = &seconds
	}
	var answer execAnswer
	if err := c.call(ctx, scopeSandbox, http.MethodPost, sandboxURL(a)+"/exec", body, &answer); err != nil {
		return toolResult{}, err
	}
	var r report
	r.line("exit_code: %d", answer.Returncode)
	r.line("duration: %.2f s", answer.DurationS)
	if answer.Limit != nil {
		r.line("It was ended at the limit of %s.", *answer.Limit)
	}
	if answer.Truncated {
		r.line("It wrote more than is kept of its output.")
	}
	rest := func(int) string {
		return "it is not kept; run the command again with its output in a file, and sandbox_read reads that in parts"
	}
	room := (modelTextLimit - r.Len() - 100) / 2
	errs := outputText(answer.Stderr, 0).within(room, rest)
	if errs != "" {
		errs = "stderr:\n" + strings.TrimSuffix(errs, "\n") + "\n"
	}
	room = modelTextLimit - r.Len() - 50 - len(errs)
	if out := outputText(answer.Stdout, 0).within(room, rest); out != "" {
		r.line("stdout:\n%s", strings.TrimSuffix(out, "\n"))
	}
	return toolResult{text: r.String() + errs}, nil
}

func sandboxRead(ctx context.Context, c *runtimeClient, a toolArgs, _ func(string)) (toolResult, error) {
	if strings.Trim(strings.TrimPrefix(a.str("path"), "/workspace"), "/") == "" {
		var answer filesAnswer
		if err := c.call(ctx, scopeSandbox, http.MethodGet, sandboxURL(a)+"/files?recursive=true", nil, &answer); err != nil {
			return toolResult{}, err
		}
		if len(answer.Files) == 0 {
			return toolResult{text: "The sandbox has no files.\n"}, nil
		}
		return fileResult(a, strings.Join(visibleLines(answer.Files), "\n")+"\n"), nil
	}
	var answer fileAnswer
	if err := c.call(ctx, scopeSandbox, http.MethodGet, sandboxFileURL(a)+"?encoding="+encodingBase64, nil, &answer); err != nil {
		return toolResult{}, err
	}
	content, err := base64.StdEncoding.DecodeString(answer.Content)
	if err != nil {
		return toolResult{}, c.stranger()
	}
	image, note := newToolImage(content)
	switch {
	case image.data != "":
		return toolResult{text: "[picture 1: " + note + "]\n", images: []toolImage{image}}, nil
	case note != "":
		return toolResult{text: "[a picture, " + note + "]\n"}, nil
	case !utf8.Valid(content):
		return toolResult{text: fmt.Sprintf("The file has %d bytes that are no text (%s). sandbox_exec can look into it, such as with od -c.\n",
			len(content), http.DetectContentType(content))}, nil
	}
	return fileResult(a, string(content)), nil
}

// fileResult is a text, exactly, from the character on that was asked for.
func fileResult(a toolArgs, text string) toolResult {
	rest := func(from int) string { return fmt.Sprintf("sandbox_read with offset %d reads on", from) }
	return toolResult{text: exactText(fromChar(text, int(a.number("offset")))).within(modelTextLimit, rest)}
}

func sandboxWrite(ctx context.Context, c *runtimeClient, a toolArgs, _ func(string)) (toolResult, error) {
	body := writeBody{Content: new(a.str("content"))}
	if a.has("encoding") && a.str("encoding") != "text" {
		body.Encoding = new(a.str("encoding"))
	}
	var answer writtenAnswer
	if err := c.call(ctx, scopeSandbox, http.MethodPut, sandboxFileURL(a), body, &answer); err != nil {
		return toolResult{}, err
	}
	return toolResult{text: "Written: " + answer.Path + "\n"}, nil
}

func sandboxDelete(ctx context.Context, c *runtimeClient, a toolArgs, _ func(string)) (toolResult, error) {
	if err := c.call(ctx, scopeSandbox, http.MethodDelete, sandboxURL(a), nil, nil); err != nil {
		return toolResult{}, err
	}
	return toolResult{text: "The sandbox was ended.\n"}, nil
}
