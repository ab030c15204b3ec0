package main

// The tools for Python: cells, the kernel that runs them, packages.

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// Bounds of the pictures in one result, which agents read as one line.
	imageLimit    = 3 << 20 // bytes of base64 of one
	imagesLimit   = 6 << 20 // of all
	imagesAtOnce  = 8
	cellPollFirst = 250 * time.Millisecond // how soon is looked whether a cell that goes on is done
	cellPollMost  = 2 * time.Second        // and how seldom, later

	// cellWaitLeast is how long code is waited for in any case. Code that the
	// kernel did not get by then is given up.
	cellWaitLeast = time.Second
	// cellSettle is how long it may take until the runtime has noticed that.
	cellSettle = 2 * time.Second

	cellGoesOn = "running" // a cell's status
)

// imageTypes are the pictures that agents can be shown, the best first.
var imageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}

// errWaitOver ends the wait for what goes on all the same.
var errWaitOver = errors.New("the wait is over")

func pythonToolbox() []tool {
	return []tool{
		{"run_python", "Run Python", "Runs Python code in the lab's Jupyter kernel, which keeps its variables from one call to the next; environment and kernel are made when missing. " +
			"Answers with what the code printed, its last value, pictures, and the traceback of an error. Answers after wait_s when the code goes on: " +
			"call it with cell_id instead of code to read what came since, and interrupt_kernel to stop it.",
			[]toolParam{labParam, {name: "code", kind: paramText, text: "The code to run."},
				{name: "cell_id", kind: paramName, text: "Instead of code: a cell to read, as an earlier answer told it."},
				offsetParam("the cell's text"), waitParam(50)},
			toolHints{Destructive: true, OpenWorld: true}, runPython},
		{"interrupt_kernel", "Interrupt Python", "Stops the code that runs in the lab's kernel as Ctrl-C would, and keeps the variables.",
			[]toolParam{labParam}, toolHints{Idempotent: true}, interruptKernel},
		{"restart_kernel", "Restart Python", "Ends the lab's kernel, whatever it does, and starts a new one. All variables are lost.",
			[]toolParam{labParam}, toolHints{Destructive: true, Idempotent: true}, restartKernel},
		{"install_packages", "Install packages", "Installs Python packages into the lab's environment. Can take minutes.",
			[]toolParam{labParam, {name: "packages", kind: paramList, required: true, text: "What to install, each as for pip: pandas, or pandas==2.2.0."}},
			toolHints{Idempotent: true, OpenWorld: true}, installPackages},
	}
}

// cellReport is of a cell what is told of it. Each output stands in the
// answer in another form, too, which is not read.
type cellReport struct {
	CellID  string `json:"cell_id"`
	Status  string `json:"status"`
	Success bool   `json:"success"`
	Outputs []struct {
		Text string                     `json:"text"`
		Data map[string]json.RawMessage `json:"data"`
	} `json:"outputs"`
	Error *cellError `json:"error"`
}

func runPython(ctx context.Context, c *runtimeClient, a toolArgs, say func(string)) (toolResult, error) {
	lab, id := a.str("lab_id"), a.str("cell_id")
	if a.has("code") == (id != "") {
		return toolResult{}, problemf(kindInvalid, "run_python needs either the argument \"code\" or the argument \"cell_id\".")
	}
	offset, wait := int(a.number("offset")), time.Duration(a.number("wait_s")*float64(time.Second))
	if id != "" {
		say("Python runs the code.")
		return readCell(ctx, c, lab, id, offset, wait)
	}
	say("The kernel is being started, unless it runs.")
	if err := c.call(ctx, scopeCode, http.MethodPost, "/kernel/start", kernelStartBody{LabID: &lab}, nil); err != nil {
		return toolResult{}, err
	}
	say("Python runs the code.")
	id = rand.Text()
	waiting, cancel := context.WithTimeoutCause(ctx, max(wait, cellWaitLeast), errWaitOver)
	defer cancel()
	var cell cellReport
	err := c.call(waiting, scopeCode, http.MethodPost, "/cell/run", cellBody{LabID: &lab, Code: new(a.str("code")), CellID: id}, &cell)
	switch {
	case errors.Is(err, errWaitOver):
		return leftCell(ctx, c, lab, id, offset)
	case err != nil:
		return toolResult{}, err
	}
	return cellResultOf(cell, offset), nil
}

// leftCell tells of a cell that is not waited for any more. It goes on, unless
// it had not begun.
func leftCell(ctx context.Context, c *runtimeClient, lab, id string, offset int) (toolResult, error) {
	result, err := readCell(ctx, c, lab, id, offset, cellSettle)
	if r, ok := errors.AsType[*refusal](err); ok && r.status == http.StatusNotFound {
		err = problemf(kindTooSlow, "Nothing of the code has run, since the kernel was busy with other code for as long as wait_s allowed: "+
			"run it again later, or use interrupt_kernel first.")
	}
	return result, err
}

// readCell waits for a cell's end, at most for so long, and tells what it gave.
func readCell(ctx context.Context, c *runtimeClient, lab, id string, offset int, wait time.Duration) (toolResult, error) {
	path := "/cell/" + url.PathEscape(id) + "?lab_id=" + url.QueryEscape(lab)
	end := time.Now().Add(wait)
	for pause := cellPollFirst; ; pause = min(2*pause, cellPollMost) {
		var cell cellReport
		if err := c.call(ctx, scopeCode, http.MethodGet, path, nil, &cell); err != nil {
			return toolResult{}, err
		}
		left := time.Until(end)
		if cell.Status != cellGoesOn || left <= 0 {
			return cellResultOf(cell, offset), nil
		}
		select {
		case <-time.After(min(pause, left)):
		case <-ctx.Done():
			return toolResult{}, context.Cause(ctx)
		}
	}
}

// cellResultOf tells what a cell gave, its text from a character on.
func cellResultOf(cell cellReport, offset int) toolResult {
	var r report
	more := ""
	switch {
	case cell.Status == cellGoesOn:
		r.line("status: running")
		more = fmt.Sprintf("[The code goes on: run_python with cell_id %s reads on, interrupt_kernel stops it.]\n", cell.CellID)
	case cell.Success:
		r.line("status: succeeded")
	default:
		r.line("status: failed")
	}
	r.line("cell_id: %s", cell.CellID)
	text, pictures := cellText(cell)
	result := r.body("output", outputText(fromChar(text, offset)), more, func(from int) string {
		return fmt.Sprintf("run_python with cell_id %s and offset %d reads on", cell.CellID, from)
	})
	result.images = pictures
	return result
}

// cellText is all text of a cell, in order, and its pictures, which the text
// names.
func cellText(cell cellReport) (string, []toolImage) {
	var text strings.Builder
	var pictures album
	for _, output := range cell.Outputs {
		if output.Data == nil {
			text.WriteString(output.Text)
			continue
		}
		if text.Len() > 0 && !strings.HasSuffix(text.String(), "\n") {
			text.WriteString("\n")
		}
		text.WriteString(pictures.show(output.Data) + "\n")
	}
	if cell.Error != nil {
		fmt.Fprintf(&text, "%s: %s\n", cell.Error.Name, cell.Error.Value)
		for _, line := range cell.Error.Traceback {
			text.WriteString(line + "\n")
		}
	}
	return text.String(), pictures.images
}

// album takes the pictures that there is room for.
type album struct {
	images []toolImage
	size   int
}

// show tells a display in words, after its picture was taken when it has one.
func (a *album) show(data map[string]json.RawMessage) string {
	plain := ""
	for _, kind := range []string{"text/plain", "text/markdown", "text/latex", "application/json"} {
		if raw := data[kind]; raw != nil {
			if json.Unmarshal(raw, &plain) != nil {
				plain = string(raw)
			}
			break
		}
	}
	for _, kind := range imageTypes {
		var encoded string
		if json.Unmarshal(data[kind], &encoded) == nil {
			return strings.TrimSpace(plain + " " + a.add(kind, encoded))
		}
	}
	if plain == "" {
		return "[something that has no text]"
	}
	return plain
}

// add takes a picture, and says what became of it.
func (a *album) add(mimeType, encoded string) string {
	content, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(encoded), ""))
	if err != nil || len(content) == 0 {
		return "[a broken picture]"
	}
	size := base64.StdEncoding.EncodedLen(len(content))
	if size > imageLimit || a.size+size > imagesLimit || len(a.images) == imagesAtOnce {
		return fmt.Sprintf("[a picture, %s of %d bytes, is left out: one may have %d bytes, and a result %d pictures of %d bytes in all]",
			mimeType, len(content), imageLimit/4*3, imagesAtOnce, imagesLimit/4*3)
	}
	a.size += size
	a.images = append(a.images, toolImage{mimeType, base64.StdEncoding.EncodeToString(content)})
	return fmt.Sprintf("[picture %d: %s of %d bytes]", len(a.images), mimeType, len(content))
}

func interruptKernel(ctx context.Context, c *runtimeClient, a toolArgs, _ func(string)) (toolResult, error) {
	var answer kernelInterruptAnswer
	if err := c.call(ctx, scopeCode, http.MethodPost, "/kernel/interrupt?lab_id="+url.QueryEscape(a.str("lab_id")), nil, &answer); err != nil {
		return toolResult{}, err
	}
	if answer.Busy {
		return toolResult{text: "The kernel was interrupted, and its code goes on all the same: restart_kernel ends it.\n"}, nil
	}
	return toolResult{text: "The kernel was interrupted; its variables are kept.\n"}, nil
}

func restartKernel(ctx context.Context, c *runtimeClient, a toolArgs, say func(string)) (toolResult, error) {
	say("The kernel is being restarted.")
	if err := c.call(ctx, scopeCode, http.MethodPost, "/kernel/restart?lab_id="+url.QueryEscape(a.str("lab_id")), nil, nil); err != nil {
		return toolResult{}, err
	}
	return toolResult{text: "The kernel was restarted; it has no variables.\n"}, nil
}

func installPackages(ctx context.Context, c *runtimeClient, a toolArgs, say func(string)) (toolResult, error) {
	say("The packages are being installed.")
	var answer packagesAnswer
	body := packagesBody{LabID: new(a.str("lab_id")), Packages: a.list("packages")}
	if err := c.call(ctx, scopeCode, http.MethodPost, "/kernel/packages/install", body, &answer); err != nil {
		return toolResult{}, err
	}
	var r report
	r.line("Installed: %s", strings.Join(answer.Packages, ", "))
	return r.body("output", outputText(answer.Output, 0), "", func(int) string { return "it is not kept" }), nil
}
