package main

// The person's terminal, while the program has one: questions appear one at a
// time, with the prompt last, and only what is typed after that counts.
//
// Rules of this file: the terminal is shared with the shell and others, so
// its modes and flags are never changed; it is read only while a question is
// shown; nothing else is written between a question and its answer.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// terminalHeld is how many bytes of log lines are kept while a question
	// is shown. More are dropped, and counted.
	terminalHeld = 64 << 10

	// terminalSlow is how long showing a question may take. When it takes
	// longer, the person may have stopped the output and typed meanwhile.
	terminalSlow = 100 * time.Millisecond

	// terminalPause comes between a question that went away by itself and the
	// next: fingers already on their way must not answer that one.
	terminalPause = time.Second

	// terminalLine is the longest line that is read as an answer.
	terminalLine = 4096

	terminalPrompt = "Allow? Type y or yes, then Enter: "
)

// terminal shows questions and reads answers. As a writer it is where the
// log goes: lines written while a question is shown appear after its answer.
type terminal struct {
	in    *terminalInput // nil: questions are only announced
	shown *os.File       // where questions appear
	err   *os.File       // where the log goes

	mu      sync.Mutex // guards the rest, and writing to err
	holding bool       // a question is shown, and err is a terminal
	held    bytes.Buffer
	dropped int // lines that did not fit into held
}

// newTerminal returns the terminal of a program with these standard files.
// Without one to read from and one to write to, serve only announces.
func newTerminal(in, out, err *os.File) *terminal {
	t := &terminal{shown: out, err: err}
	if !isTerminal(out) {
		t.shown = err
	}
	if isTerminal(in) && isTerminal(t.shown) {
		t.in, _ = openInput(in) // without it, announcing still works
	}
	return t
}

// Write passes a log line on, or keeps it until the question is answered.
func (t *terminal) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.holding:
		return t.err.Write(line)
	case t.held.Len()+len(line) > terminalHeld:
		t.dropped++
	default:
		t.held.Write(line)
	}
	return len(line), nil
}

func (t *terminal) hold() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holding = isTerminal(t.err)
}

func (t *terminal) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holding = false
	if t.dropped > 0 {
		fmt.Fprintf(&t.held, "(%d more log lines were not kept)\n", t.dropped)
	}
	_, _ = t.held.WriteTo(t.err)
	t.held.Reset()
	t.dropped = 0
}

// serve shows the questions of q and answers them as the person types, until
// ctx ends. While nobody can be asked here, because there is no terminal or
// because another job has it, each question is announced in one line instead.
func (t *terminal) serve(ctx context.Context, q *questions) {
	resumed, stop := surviveJobControl()
	defer stop()
	defer t.giveUp()
	announced := make(map[string]bool)
	for ctx.Err() == nil {
		if t.in == nil || !t.in.foreground() {
			t.announce(ctx, q, resumed, announced)
			continue
		}
		open, err := q.next(ctx)
		if err == nil && t.in.foreground() {
			t.ask(ctx, q, open, resumed)
		}
	}
}

// announce tells of questions that have not been announced, and waits for a
// reason to look again.
func (t *terminal) announce(ctx context.Context, q *questions, resumed <-chan os.Signal, announced map[string]bool) {
	list, changed := q.watch()
	for _, what := range list {
		if !announced[what.id] {
			fmt.Fprintf(t, "Question %s from %s: %s. Read it with `agent-runtime approvals`, then answer with "+
				"`agent-runtime approve %s` or `agent-runtime deny %s`.\n",
				what.id, visible(string(what.principal)), visible(what.title), what.id, what.id)
		}
	}
	clear(announced)
	for _, what := range list {
		announced[what.id] = true
	}
	select {
	case <-changed:
	case <-resumed:
	case <-ctx.Done():
	}
}

// ask shows open and waits until the person answers or it is decided without
// them. It also returns when the program was stopped and resumed: what was
// shown may be far up then, and is to be shown again.
func (t *terminal) ask(ctx context.Context, q *questions, open *openQuestion, resumed <-chan os.Signal) {
	t.hold()
	waiting, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { // ends with waiting
		select {
		case <-open.done:
		case <-resumed:
		case <-waiting.Done():
		}
		stop()
	})
	line, err := t.put(waiting, open)
	stop()
	watch.Wait()
	gone := isDone(open)
	if gone {
		t.say("\n" + outcomeText(open.outcome))
	} else {
		t.conclude(q, open, line, err)
	}
	t.release()
	if gone {
		pause, stop := context.WithTimeout(ctx, terminalPause)
		defer stop()
		<-pause.Done()
	}
}

// put shows open and reads a line that was typed after that.
func (t *terminal) put(ctx context.Context, open *openQuestion) (string, error) {
	if err := flushInput(t.in.f); err != nil {
		return "", err
	}
	began := time.Now()
	// In one write, so that nothing of others comes between.
	if _, err := t.shown.WriteString(questionText(open.question) + terminalPrompt); err != nil {
		return "", err
	}
	if time.Since(began) > terminalSlow {
		if err := flushInput(t.in.f); err != nil {
			return "", err
		}
	}
	return t.in.readLine(ctx)
}

// questionText is a question as the person reads it, in whole lines.
func questionText(what question) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n[%s] %s\n", what.id, visible(what.title))
	for _, line := range what.body {
		text.WriteString(visible(line) + "\n")
	}
	return text.String()
}

// conclude acts on what put gave, and says in one line what that was.
func (t *terminal) conclude(q *questions, open *openQuestion, line string, err error) {
	switch {
	case err == nil && isYes(line):
		t.answer(q, open, true, "Allowed.")
	case err == nil:
		t.answer(q, open, false, "Not allowed.")
	case errors.Is(err, io.EOF):
		t.answer(q, open, false, "\nNot allowed.")
	case errors.Is(err, context.Canceled):
		t.say("") // we end or were resumed: what is written next starts a line
	case !t.in.foreground(): // another job has the terminal now, which is no answer
	default:
		t.answer(q, open, false, "\nNot allowed. The terminal cannot be used for questions any more: "+
			"answer them with `agent-runtime approve ID`.")
		t.giveUp()
	}
}

// giveUp stops using the terminal for questions.
func (t *terminal) giveUp() {
	if t.in != nil {
		t.in.close()
		t.in = nil
	}
}

func (t *terminal) answer(q *questions, open *openQuestion, yes bool, said string) {
	if q.answer(open.id, yes) != nil {
		said = "Too late: the question had been decided or withdrawn."
	}
	t.say(said)
}

// say writes a line where questions appear.
func (t *terminal) say(line string) { _, _ = t.shown.WriteString(line + "\n") }

func isDone(open *openQuestion) bool {
	select {
	case <-open.done:
		return true
	default:
		return false
	}
}

// outcomeText is what became of a question that was not answered here.
func outcomeText(outcome error) string {
	p, ok := errors.AsType[*problem](outcome)
	switch {
	case outcome == nil:
		return "Allowed from another terminal."
	case errors.Is(outcome, errWithdrawn):
		return "Withdrawn: nobody waits for the answer any more."
	case ok && p.kind == kindForbidden:
		return "Refused from another terminal."
	case ok:
		return p.detail
	default:
		return "Decided elsewhere."
	}
}

// isYes reports whether a typed line approves. Letters beyond ASCII that only
// look or fold like these do not.
func isYes(line string) bool {
	answer := strings.ToLower(strings.Trim(line, " "))
	return answer == "y" || answer == "yes"
}
