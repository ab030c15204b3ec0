package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// terminalFixture is a queue of questions whose terminal is a screen.
type terminalFixture struct {
	*screen
	q        *questions
	terminal *terminal
	slave    *os.File
}

func newTerminalFixture(t *testing.T) *terminalFixture {
	t.Helper()
	master, slave := openPTY(t)
	f := &terminalFixture{
		screen:   newScreen(t, master),
		q:        newQuestions(8, time.Minute),
		terminal: newTerminal(slave, slave, slave),
		slave:    slave,
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { f.terminal.serve(ctx, f.q) })
	t.Cleanup(func() { cancel(); serving.Wait() })
	return f
}

// ask asks what in the background.
func (f *terminalFixture) ask(ctx context.Context, what question) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f.q.ask(ctx, what) }() // ends with the answer or ctx
	return result
}

// stopOutput does what Ctrl-S does, at once, or what Ctrl-Q does.
func (f *terminalFixture) stopOutput(stop bool) {
	f.t.Helper()
	const flow, off, on = 0x540A, 0, 1 // TCXONC, TCOOFF, TCOON
	action := map[bool]uintptr{true: off, false: on}[stop]
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.slave.Fd(), flow, action); errno != 0 {
		f.t.Fatalf("stop output: %v", errno)
	}
}

func TestOnlyYesApproves(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"y\n": true, "Y\n": true, "yes\n": true, "YES\n": true, "  yEs  \n": true, "nx\x7f\x7fy\n": true,
		"\n": false, "n\n": false, "no\n": false, "ye\n": false, "yy\n": false, "yes please\n": false,
		"ye\u017f\n": false, "y\t\n": false, "y\u00a0\n": false, "1\n": false, "true\n": false, "y\x00\n": false,
		"\x04": false, strings.Repeat("y", 3000) + "\n": false,
	} {
		t.Run(fmt.Sprintf("%.20q", line), func(t *testing.T) {
			t.Parallel()
			f := newTerminalFixture(t)
			result := f.ask(t.Context(), siteQuestion(testSite))
			f.waitFor(terminalPrompt, 1)
			f.typed(line)
			err := <-result
			if (err == nil) != want || err != nil && !isKind(err, kindForbidden) {
				t.Errorf("answer %q: %v, want yes: %v", line, err, want)
			}
			f.waitFor(map[bool]string{true: "\nAllowed.\n", false: "\nNot allowed.\n"}[want], 1)
		})
	}
}

func TestQuestionIsShownWholeWithThePromptLast(t *testing.T) {
	t.Parallel()
	f := newTerminalFixture(t)
	what := siteQuestion(testSite)
	for n := range 2000 {
		what.body = append(what.body, fmt.Sprintf("command %d: %s", n, strings.Repeat("x", n%300)))
	}
	result := f.ask(t.Context(), what)
	f.waitFor(terminalPrompt, 1)
	want := fmt.Sprintf("\n[%s] %s\n%s\n%s", f.q.list()[0].id, what.title, strings.Join(what.body, "\n"), terminalPrompt)
	if got := f.all(); got != want {
		t.Errorf("the screen shows %d characters, want %d", len(got), len(want))
	}
	f.typed("y\n")
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestKeysTypedBeforeTheQuestionDoNotAnswerIt(t *testing.T) {
	t.Parallel()
	for _, early := range []string{"y\n", "y\ny\nyes\n", "y", "yes"} {
		t.Run(fmt.Sprintf("%q", early), func(t *testing.T) {
			t.Parallel()
			f := newTerminalFixture(t)
			f.typed(early)
			f.waitFor(strings.TrimSuffix(early, "\n"), 1) // the echo: it has arrived
			result := f.ask(t.Context(), siteQuestion(testSite))
			f.waitFor(terminalPrompt, 1)
			f.typed("\n")
			if err := <-result; !isKind(err, kindForbidden) {
				t.Errorf("answered by what was typed before: %v", err)
			}
		})
	}
}

func TestPartOfALineDoesNotAnswerTheNextQuestion(t *testing.T) {
	t.Parallel()
	f := newTerminalFixture(t)
	ctx, leave := context.WithCancel(t.Context())
	f.ask(ctx, siteQuestion("https://a.example.org"))
	f.waitFor(terminalPrompt, 1)
	result := f.ask(t.Context(), siteQuestion("https://b.example.org"))
	f.typed("y")
	f.waitFor(terminalPrompt+"y", 1)
	leave()
	f.waitFor("\nWithdrawn: nobody waits for the answer any more.\n", 1)
	f.waitFor(terminalPrompt, 2)
	f.typed("\n")
	if err := <-result; !isKind(err, kindForbidden) {
		t.Errorf("the second question: %v, want no", err)
	}
}

func TestKeysTypedWhileTheOutputIsStoppedDoNotAnswer(t *testing.T) {
	t.Parallel()
	f := newTerminalFixture(t)
	f.stopOutput(true)
	result := f.ask(t.Context(), siteQuestion(testSite))
	if _, err := f.q.next(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * terminalSlow) // the question has been waiting for the terminal
	f.typed("y\n")
	time.Sleep(terminalSlow) // no echo tells that it has arrived
	f.stopOutput(false)
	f.waitFor(terminalPrompt, 1)
	select {
	case err := <-result:
		t.Fatalf("answered by what was typed before the question appeared: %v", err)
	case <-time.After(terminalSlow):
	}
	f.typed("y\n")
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestQuestionAnsweredElsewhereLeavesTheScreen(t *testing.T) {
	t.Parallel()
	f := newTerminalFixture(t)
	for n, c := range []struct {
		yes  bool
		text string
	}{{true, "\nAllowed from another terminal.\n"}, {false, "\nRefused from another terminal.\n"}} {
		result := f.ask(t.Context(), siteQuestion(testSite))
		f.waitFor(terminalPrompt, n+1)
		answerFirst(t, f.q, c.yes)
		if err := <-result; (err == nil) != c.yes {
			t.Errorf("answered %v: %v", c.yes, err)
		}
		f.waitFor(c.text, 1)
	}
}

func TestEndingWithAQuestionOnTheScreenReturns(t *testing.T) {
	t.Parallel()
	master, slave := openPTY(t)
	s := newScreen(t, master)
	q := newQuestions(8, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { newTerminal(slave, slave, slave).serve(ctx, q); close(done) }() // ends with ctx
	go func() { _ = q.ask(ctx, siteQuestion(testSite)) }()                      // ends with ctx
	s.waitFor(terminalPrompt, 1)
	cancel()
	<-done
}

func TestTerminalThatGoesAwayDeclines(t *testing.T) {
	t.Parallel()
	f := newTerminalFixture(t)
	result := f.ask(t.Context(), siteQuestion(testSite))
	f.waitFor(terminalPrompt, 1)
	_ = f.master.Close()
	if err := <-result; !isKind(err, kindForbidden) {
		t.Errorf("ask = %v, want no", err)
	}
}

func TestLogWaitsUntilTheQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	f := newTerminalFixture(t)
	fmt.Fprintln(f.terminal, "before")
	f.waitFor("before\n", 1)
	result := f.ask(t.Context(), siteQuestion(testSite))
	f.waitFor(terminalPrompt, 1)
	for n := range 10_000 {
		fmt.Fprintln(f.terminal, "meanwhile", n)
	}
	if got := f.all(); !strings.HasSuffix(got, terminalPrompt) {
		t.Errorf("the screen ends with %q, want the prompt", got[max(0, len(got)-100):])
	}
	f.typed("y\n")
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	f.waitFor("Allowed.\nmeanwhile 0\n", 1)
	f.waitFor("more log lines were not kept)\n", 1)
}

func TestSharedTerminalStaysBlocking(t *testing.T) {
	t.Parallel()
	f := newTerminalFixture(t)
	f.ask(t.Context(), siteQuestion(testSite))
	f.waitFor(terminalPrompt, 1)
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.slave.Fd(), syscall.F_GETFL, 0)
	if errno != 0 || flags&syscall.O_NONBLOCK != 0 {
		t.Errorf("flags of the terminal = %#x, %v", flags, errno)
	}
}

func TestWithoutATerminalQuestionsAreAnnounced(t *testing.T) {
	t.Parallel()
	empty, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	log, logWriter, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	q := newQuestions(8, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { newTerminal(empty, logWriter, logWriter).serve(ctx, q) })
	result := make(chan error, 2)
	for _, site := range []string{"https://a.example.org", "https://b.example.org"} {
		go func() { result <- q.ask(t.Context(), siteQuestion(site)) }() // ends with the answer
	}
	seen := make([]byte, 4096)
	var text string
	for strings.Count(text, "\n") < 2 {
		n, err := log.Read(seen)
		if err != nil {
			t.Fatal(err)
		}
		text += string(seen[:n])
	}
	for _, what := range q.list() {
		for _, want := range []string{string(what.principal), "agent-runtime approve " + what.id, "agent-runtime deny " + what.id} {
			if !strings.Contains(text, want) {
				t.Errorf("%q does not name %s", text, want)
			}
		}
		if err := q.answer(what.id, true); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	cancel()
	serving.Wait()
	_ = logWriter.Close()
	if rest, err := io.ReadAll(log); len(rest) != 0 || err != nil {
		t.Errorf("announced again: %q, %v", rest, err)
	}
}

// playTerminal is a program with a terminal that asks one question, in the
// foreground or as a background job. It reports whether role is one of these.
func playTerminal(role string) bool {
	switch role {
	case "job":
		terminalTestJob()
		return true
	case "shell":
		job := exec.Command(os.Args[0])
		job.Env = append(os.Environ(), terminalVariable+"=job")
		job.Stdin, job.Stdout, job.Stderr = os.Stdin, os.Stdout, os.Stderr
		job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		fmt.Println("job:", job.Run())
		return true
	}
	return false
}

func terminalTestJob() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	q := newQuestions(8, 2*time.Second)
	go newTerminal(os.Stdin, os.Stdout, os.Stderr).serve(ctx, q) // ends with the process
	err := q.ask(ctx, siteQuestion(testSite))
	fmt.Printf("answer: %v, interrupted: %v\n", err, errors.Is(err, context.Canceled))
}

// startOnTerminal starts the helper as the leader of a session whose terminal
// is a new screen.
func startOnTerminal(t *testing.T, role string) (*screen, *exec.Cmd) {
	t.Helper()
	master, slave := openPTY(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), terminalVariable+"="+role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return newScreen(t, master), cmd
}

func TestCtrlCReachesTheProgramDuringAQuestion(t *testing.T) {
	t.Parallel()
	s, cmd := startOnTerminal(t, "job")
	s.waitFor(terminalPrompt, 1)
	s.typed("\x03")
	s.waitFor("interrupted: true", 1)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestBackgroundJobIsNotStoppedByItsQuestion(t *testing.T) {
	t.Parallel()
	s, cmd := startOnTerminal(t, "shell")
	s.waitFor("agent-runtime approve ", 1)
	s.typed("y\n") // for the shell
	s.waitFor("answer: Nobody answered in the terminal within 2s.", 1)
	s.waitFor("job: <nil>", 1)
	if strings.Contains(s.all(), terminalPrompt) {
		t.Errorf("a background job asked on the terminal:\n%s", s.all())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStoppedAndResumedProgramShowsItsQuestionAgain(t *testing.T) {
	t.Parallel()
	s, cmd := startOnTerminal(t, "job")
	s.waitFor(terminalPrompt, 1)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.waitFor(terminalPrompt, 2)
	s.typed("y\n")
	s.waitFor("answer: <nil>", 1)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
