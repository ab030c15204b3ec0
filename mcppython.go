package main

// The tools for Python: cells, the kernel that runs them, packages.

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	cellPollFirst = 250 * time.Millisecond // how soon is looked whether a cell that goes on is done
	cellPollMost  = 2 * time.Second        // and how seldom, later

	// cellWaitLeast is how long code is waited for in any case. Code that the
	// kernel did not get by then is given up.
	cellWaitLeast = time.Second
	// cellSettle is how long it may take until the runtime has noticed that.
	cellSettle = 2 * time.Second

	// interruptPatience is how long code may take to end when it is interrupted,
	// with its clean-up and traceback, before an agent is told that it goes on:
	// what it does then may cost all variables.
	interruptPatience = 10 * time.Second

	cellGoesOn = "running" // a cell's status
	kernelBusy = "busy"    // a kernel's
)

// textTypes are the texts of a display, the one that says most to a reader first.
var textTypes = []string{"text/markdown", "text/plain", "text/latex", "application/json"}

// displayWrapper begins the plain text of what has another form alone.
const displayWrapper = "<IPython.core.display."

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
		if err := pauseFor(ctx, min(pause, left)); err != nil {
			return toolResult{}, err
		}
	}
}

// cellResultOf tells what a cell gave, its text from a character on, and the
// pictures that stand there.
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
	text := cellTextOf(cell)
	pictures := text.picturesFrom(offset)
	shown := shownTogether(pictures)
	if shown < len(pictures) {
		more += fmt.Sprintf("[%s not shown: run_python with cell_id %s and offset %d shows what comes next.]\n",
			counted(len(pictures)-shown, "more picture"), cell.CellID, pictures[shown].at)
	}
	result := r.body("output", outputText(fromChar(text.String(), offset)), more, func(from int) string {
		return fmt.Sprintf("run_python with cell_id %s and offset %d reads on", cell.CellID, from)
	})
	for _, p := range pictures[:shown] {
		result.images = append(result.images, p.toolImage)
	}
	return result
}

// cellText is all text of a cell, in order, and its pictures, which the text
// names. Neither depends on what is shown of it, so that places in it last.
type cellText struct {
	strings.Builder
	chars    int // that were written
	pictures []cellPicture
}

// cellPicture is a picture, and the character of the text where it stands.
type cellPicture struct {
	toolImage
	at int
}

func cellTextOf(cell cellReport) *cellText {
	t := &cellText{}
	for _, output := range cell.Outputs {
		if output.Data == nil {
			t.write(output.Text)
			continue
		}
		if t.Len() > 0 && !strings.HasSuffix(t.String(), "\n") {
			t.write("\n")
		}
		t.display(output.Data)
	}
	if cell.Error != nil {
		t.write(cell.Error.Name + ": " + cell.Error.Value + "\n")
		for _, line := range cell.Error.Traceback {
			t.write(line + "\n")
		}
	}
	return t
}

func (t *cellText) write(text string) {
	t.WriteString(text)
	t.chars += utf8.RuneCountInString(text)
}

// display tells a display in words, and takes its picture when it has one.
func (t *cellText) display(data map[string]json.RawMessage) {
	plain := plainText(data)
	for _, kind := range imageTypes {
		var encoded string
		if json.Unmarshal(data[kind], &encoded) == nil {
			if plain != "" {
				t.write(plain + " ")
			}
			t.picture(encoded)
			return
		}
	}
	if plain == "" {
		plain = "[nothing that can be shown]"
		if len(data) > 0 {
			plain = "[not shown: " + strings.Join(slices.Sorted(maps.Keys(data)), ", ") + "]"
		}
	}
	t.write(plain + "\n")
}

// plainText is what a display says in text; "" when it says nothing.
func plainText(data map[string]json.RawMessage) string {
	for _, kind := range textTypes {
		if raw := data[kind]; raw != nil {
			var text string
			if json.Unmarshal(raw, &text) != nil {
				text = string(raw)
			}
			if !strings.HasPrefix(text, displayWrapper) || len(data) == 1 {
				return text
			}
		}
	}
	return ""
}

// picture takes a picture that agents can be shown, and says so.
func (t *cellText) picture(encoded string) {
	at := t.chars
	content, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(encoded), ""))
	image, note := newToolImage(content)
	switch {
	case err != nil || note == "":
		t.write("[a broken picture]\n")
	case image.data == "":
		t.write("[a picture, " + note + "]\n")
	default:
		t.pictures = append(t.pictures, cellPicture{image, at})
		t.write(fmt.Sprintf("[picture %d: %s]\n", len(t.pictures), note))
	}
}

// picturesFrom are those that stand at a character or after it.
func (t *cellText) picturesFrom(offset int) []cellPicture {
	i := slices.IndexFunc(t.pictures, func(p cellPicture) bool { return p.at >= offset })
	if i < 0 {
		return nil
	}
	return t.pictures[i:]
}

// shownTogether is how many of the first pictures one result has room for.
func shownTogether(pictures []cellPicture) int {
	size := 0
	for i, p := range pictures {
		if size += len(p.data); size > imagesLimit || i == imagesAtOnce {
			return i
		}
	}
	return len(pictures)
}

func interruptKernel(ctx context.Context, c *runtimeClient, a toolArgs, say func(string)) (toolResult, error) {
	say("The kernel is being interrupted.")
	lab := url.QueryEscape(a.str("lab_id"))
	var answer kernelInterruptAnswer
	if err := c.call(ctx, scopeCode, http.MethodPost, "/kernel/interrupt?lab_id="+lab, nil, &answer); err != nil {
		return toolResult{}, err
	}
	busy := answer.Busy
	for end := time.Now().Add(interruptPatience); busy && time.Now().Before(end); {
		if err := pauseFor(ctx, cellPollFirst); err != nil {
			return toolResult{}, err
		}
		var kernel kernelAnswer
		if err := c.call(ctx, scopeCode, http.MethodGet, "/kernel/status?lab_id="+lab, nil, &kernel); err != nil {
			return toolResult{}, err
		}
		busy = kernel.Status == kernelBusy
	}
	if busy {
		return toolResult{text: "The kernel was interrupted, and has code to run all the same, or other code that waited. run_python with the cell_id tells " +
			"whether the code has ended; restart_kernel ends all, and the variables are lost then.\n"}, nil
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
