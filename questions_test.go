package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

const testTimeout = 5 * time.Minute

func siteQuestion(site string) question {
	return question{key: "pair " + site, principal: principal(site), stranger: true, title: "May it?", body: []string{"Site: " + site}}
}

// asking is a call of ask that goes on.
type asking struct {
	leave context.CancelFunc
	err   chan error
}

// startAsk asks in the background and returns once the call waits or is over.
func startAsk(t *testing.T, q *questions, what question) asking {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := asking{leave: cancel, err: make(chan error, 1)}
	go func() { a.err <- q.ask(ctx, what) }() // ends with the answer or the test
	synctest.Wait()
	return a
}

// result is what the call gave; waiting, when it goes on.
func (a asking) result() error {
	synctest.Wait()
	select {
	case err := <-a.err:
		return err
	default:
		return errWaiting
	}
}

var errWaiting = errors.New("still waiting")

func answerFirst(t *testing.T, q *questions, yes bool) {
	t.Helper()
	list := q.list()
	if len(list) == 0 {
		t.Fatal("no question is open")
	}
	if err := q.answer(list[0].id, yes); err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, what string, err error, k kind) {
	t.Helper()
	if !isKind(err, k) {
		t.Errorf("%s: %v, want kind %d", what, err, k)
	}
}

func TestQuestionIsAnsweredYesOrNo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions(8, testTimeout)
		yes := startAsk(t, q, siteQuestion("https://a.example.org"))
		no := startAsk(t, q, siteQuestion("https://b.example.org"))
		answerFirst(t, q, true)
		answerFirst(t, q, false)
		if err := yes.result(); err != nil {
			t.Errorf("yes: %v", err)
		}
		wantKind(t, "no", no.result(), kindForbidden)
		wantKind(t, "answer without a question", q.answer("abcde", true), kindNotFound)
	})
}

func TestUnansweredQuestionExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions(8, testTimeout)
		a := startAsk(t, q, siteQuestion("https://a.example.org"))
		time.Sleep(testTimeout - time.Second)
		if err := a.result(); err != errWaiting {
			t.Fatalf("too early: %v", err)
		}
		time.Sleep(time.Second)
		wantKind(t, "after the timeout", a.result(), kindExpired)
		if len(q.list()) != 0 {
			t.Error("the question is still open")
		}
	})
}

func TestQuestionIsWithdrawnWhenTheLastClientLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions(8, testTimeout)
		granted := 0
		what := siteQuestion("https://a.example.org")
		what.grant = func() (string, error) { granted++; return "", nil }
		first, second := startAsk(t, q, what), startAsk(t, q, what)
		open, err := q.next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first.leave()
		if err := first.result(); !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
		if len(q.list()) != 1 {
			t.Fatal("the question of the one who stayed is gone")
		}
		second.leave()
		synctest.Wait()
		<-open.done
		if len(q.list()) != 0 || open.outcome != errWithdrawn || granted != 0 {
			t.Errorf("open %d, outcome %v, granted %d, want a withdrawn question", len(q.list()), open.outcome, granted)
		}
		wantKind(t, "answer to a withdrawn question", q.answer(open.id, true), kindNotFound)
	})
}

func TestYesToClientsWhoHaveAllLeftGrantsNothing(t *testing.T) {
	t.Parallel()
	q := newQuestions(8, testTimeout)
	what := siteQuestion("https://a.example.org")
	ctx, cancel := context.WithCancel(t.Context())
	what.grant = func() (string, error) { t.Error("granted to nobody"); return "", nil }
	result := make(chan error, 1)
	go func() { result <- q.ask(ctx, what) }() // ends with the answer
	open, err := q.next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = q.answer(open.id, true) // whichever comes first
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("ask = %v, want the end of its context", err)
	}
}

func TestEqualQuestionsAreAskedOnceAndShareTheGrant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions(8, testTimeout)
		granted := 0
		what := siteQuestion("https://a.example.org")
		what.grant = func() (string, error) { granted++; return fmt.Sprint("grant ", granted), nil }
		got := make(chan string, 500)
		refused := make(chan error, 500)
		for range 500 {
			go func() { // ends with the answer
				value, err := q.askFor(t.Context(), what)
				if err != nil {
					refused <- err
					return
				}
				got <- value
			}()
		}
		synctest.Wait()
		if len(q.list()) != 1 {
			t.Fatalf("%d questions are open, want 1", len(q.list()))
		}
		other := startAsk(t, q, siteQuestion("https://b.example.org"))
		answerFirst(t, q, true)
		synctest.Wait()
		if len(got) != questionsJoined || len(refused) != 500-questionsJoined || granted != 1 {
			t.Errorf("%d answered, %d refused, %d granted", len(got), len(refused), granted)
		}
		for range len(got) {
			if value := <-got; value != "grant 1" {
				t.Errorf("granted %q, want the same for all", value)
			}
		}
		wantKind(t, "too many joined", <-refused, kindTooMany)
		answerFirst(t, q, true)
		if err := other.result(); err != nil {
			t.Errorf("the second site: %v", err)
		}
	})
}

func TestCallerJoinsOnlyWhatThePersonReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions(8, testTimeout)
		what := siteQuestion("https://a.example.org")
		startAsk(t, q, what)
		what.body = append(what.body, "Access: more")
		wantKind(t, "another text", startAsk(t, q, what).result(), kindTooMany)
	})
}

func TestQuestionsOfKnownSitesComeFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions(8, testTimeout)
		for _, site := range []string{"s1", "s2", "k1", "s3", "k2"} {
			what := siteQuestion(site)
			what.stranger = site[0] == 's'
			startAsk(t, q, what)
			if site == "s1" {
				if _, err := q.next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, want := range []principal{"s1", "k1", "k2", "s2", "s3"} {
			open, err := q.next(t.Context())
			if err != nil || open.principal != want {
				t.Fatalf("next = %v, %v, want %s", open, err, want)
			}
			if list := q.list(); list[0].principal != want {
				t.Errorf("list starts with %s, want %s", list[0].principal, want)
			}
			answerFirst(t, q, true)
		}
	})
}

func TestStrangersCannotFillTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions(8, testTimeout)
		var strangers []asking
		for n := range 8 {
			strangers = append(strangers, startAsk(t, q, siteQuestion(fmt.Sprint("stranger ", n))))
		}
		full := startAsk(t, q, siteQuestion("another")).result()
		wantKind(t, "ninth stranger", full, kindTooMany)
		if p, _ := errors.AsType[*problem](full); p == nil || p.retryAfter <= 0 {
			t.Errorf("%v does not say when to ask again", full)
		}
		known := siteQuestion("known")
		known.stranger = false
		if err := startAsk(t, q, known).result(); err != errWaiting {
			t.Errorf("a known site: %v, want its question open", err)
		}
		wantKind(t, "newest stranger", strangers[7].result(), kindTooMany)
		if err := strangers[6].result(); err != errWaiting {
			t.Errorf("older stranger: %v, want it to stay", err)
		}
	})
}

func TestOneSiteHasFewQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions(8, testTimeout)
		for n := range questionsEach + 1 {
			what := siteQuestion("https://a.example.org")
			what.key = fmt.Sprint("lab ", n)
			err := startAsk(t, q, what).result()
			if n < questionsEach && err != errWaiting {
				t.Errorf("question %d: %v", n, err)
			}
			if n == questionsEach {
				wantKind(t, "one more", err, kindTooMany)
			}
		}
	})
}

func TestNoIsFollowedByAGrowingPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		free   int
		pauses []time.Duration // in seconds, after each no
	}{
		"pairing": {0, []time.Duration{5, 10, 20, 40, 80, 160, 300, 300}},
		"lab":     {1, []time.Duration{0, 5, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newQuestions(8, testTimeout)
				what := siteQuestion("https://a.example.org")
				what.freeNos = c.free
				for n, pause := range c.pauses {
					a := startAsk(t, q, what)
					answerFirst(t, q, false)
					wantKind(t, "no", a.result(), kindForbidden)
					if pause == 0 {
						continue
					}
					time.Sleep(pause*time.Second - time.Millisecond)
					wantKind(t, fmt.Sprint("within pause ", n), startAsk(t, q, what).result(), kindTooMany)
					time.Sleep(time.Millisecond)
				}
				a := startAsk(t, q, what)
				answerFirst(t, q, true)
				if err := a.result(); err != nil {
					t.Errorf("yes: %v", err)
				}
				startAsk(t, q, what)
				answerFirst(t, q, false)
				time.Sleep(cooldownFirst)
				if err := startAsk(t, q, what).result(); err != errWaiting {
					t.Errorf("after a yes the pause starts short again, got %v", err)
				}
			})
		})
	}
}

func TestPageThatComesAndGoesIsPaused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions(8, testTimeout)
		what := siteQuestion("https://a.example.org")
		asked := 0
		for range 100 {
			a := startAsk(t, q, what)
			asked += len(q.list())
			a.leave()
			synctest.Wait()
		}
		if want := cooldownFreeWithdrawals + 1; asked != want {
			t.Errorf("asked %d times, want %d", asked, want)
		}
	})
}

func TestRememberedRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	var c cooldowns
	now := time.Unix(0, 0)
	for n := range 3 * cooldownKeys {
		c.refused(fmt.Sprint(n), 0, now.Add(time.Duration(n)))
	}
	if len(c.keys) != cooldownKeys {
		t.Errorf("%d keys are remembered, want %d", len(c.keys), cooldownKeys)
	}
	if last := fmt.Sprint(3*cooldownKeys - 1); c.left(last, now) == 0 {
		t.Error("the newest refusal was forgotten")
	}
}

func TestClosingAnswersAllQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuestions(8, testTimeout)
		a, b := startAsk(t, q, siteQuestion("a")), startAsk(t, q, siteQuestion("b"))
		q.close()
		q.close()
		for _, one := range []asking{a, b, startAsk(t, q, siteQuestion("c"))} {
			wantKind(t, "after close", one.result(), kindNoCapacity)
		}
	})
}
