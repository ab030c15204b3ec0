package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// questionsJoined is how many callers may wait for one answer, and
	// questionsEach how many questions of one principal may be open, so that
	// no single site uses up the room.
	questionsJoined = 8
	questionsEach   = 3

	// questionRetry is what a caller who found no room is told to wait.
	questionRetry = 5 * time.Second
)

// errWithdrawn is the outcome of a question that nobody waits for any more.
var errWithdrawn = errors.New("withdrawn")

// question is something that the person at the terminal is to decide.
type question struct {
	key       string    // what it is about: equal keys are asked about once
	principal principal // who asks
	stranger  bool      // the person never granted this principal anything
	title     string    // one line
	body      []string  // whole lines; text from outside is already visible()
	freeNos   int       // how often in a row a no may be followed at once by asking again

	// grant makes what a yes gives, after the yes and only if a caller still
	// waits; all who joined get the same. nil: a yes alone is enough.
	grant func() (string, error)

	asked   time.Time // set by the queue, as are the rest
	id      string    // short, for a person to type
	waiting int       // in a list: how many requests wait for the answer
	shown   bool      // in a list: what is typed in the terminal answers it
}

// openQuestion is a question that waits for its answer. outcome and done are
// what became of it: outcome may be read once done is closed.
type openQuestion struct {
	question
	callers int
	expiry  *time.Timer
	done    chan struct{}
	outcome error // nil: yes; errWithdrawn, or a problem to tell the callers
}

// questions is the queue of all that is to be decided, for pages and local
// programs alike. One question is shown at a time; the questions of those who
// were granted something before come before those of strangers, otherwise
// they come in the order in which they were asked.
type questions struct {
	limit   int
	timeout time.Duration

	mu      sync.Mutex // guards the rest
	open    []*openQuestion
	shown   *openQuestion // among open, or nil
	paused  cooldowns
	changed chan struct{} // closed and replaced when open changes
	closed  bool
}

// newQuestions returns a queue with room for limit questions, each of which
// expires after timeout.
func newQuestions(limit int, timeout time.Duration) *questions {
	return &questions{limit: limit, timeout: timeout, changed: make(chan struct{})}
}

// ask waits for the person's answer and gives nil when it is yes. A question
// with the key of an open one joins it. Otherwise the error is a problem, or
// that of ctx when the caller left first: the last one to leave withdraws the
// question.
func (q *questions) ask(ctx context.Context, what question) error {
	_, err := q.askFor(ctx, what)
	return err
}

// askFor is ask for a question with a grant, which it returns.
func (q *questions) askFor(ctx context.Context, what question) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	open, err := q.enter(what)
	if err != nil {
		return "", err
	}
	select {
	case <-open.done:
	case <-ctx.Done():
		q.leave(open)
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if open.outcome != nil || open.grant == nil {
		return "", open.outcome
	}
	return open.grant()
}

// enter joins the open question with the key of what, or opens it.
func (q *questions) enter(what question) (*openQuestion, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, shuttingDown()
	}
	if wait := q.paused.left(what.key, time.Now()); wait > 0 {
		return nil, problemf(kindTooMany, "This was refused a moment ago: ask again in %d seconds.",
			int64((wait+time.Second-1)/time.Second)).after(wait)
	}
	for _, open := range q.open {
		if open.key == what.key {
			return open, open.joinLocked(what)
		}
	}
	if err := q.makeRoomLocked(what); err != nil {
		return nil, err
	}
	return q.addLocked(what), nil
}

// joinLocked lets one more caller wait for open, which must show the person
// all that what says.
func (open *openQuestion) joinLocked(what question) error {
	if open.title != what.title || !slices.Equal(open.body, what.body) {
		return problemf(kindTooMany, "A different question of the same kind is still open in the terminal: "+
			"wait for its answer.").after(questionRetry)
	}
	if open.callers == questionsJoined {
		return problemf(kindTooMany, "This question is open in the terminal and %d requests already wait for its answer.",
			questionsJoined).after(questionRetry)
	}
	open.callers++
	return nil
}

// makeRoomLocked refuses what when there is no room for it. A stranger's
// question that is not shown makes way for one of a known principal.
func (q *questions) makeRoomLocked(what question) error {
	theirs := 0
	for _, open := range q.open {
		if open.principal == what.principal {
			theirs++
		}
	}
	if theirs >= questionsEach {
		return problemf(kindTooMany, "%d questions of %s are already open in the terminal: wait for their answers.",
			theirs, what.principal).after(questionRetry)
	}
	if len(q.open) < q.limit {
		return nil
	}
	full := problemf(kindTooMany, "%d questions are already open in the terminal: try again later.",
		len(q.open)).after(questionRetry)
	if what.stranger {
		return full
	}
	for _, open := range slices.Backward(q.open) {
		if open.stranger && open != q.shown {
			q.decideLocked(open, full)
			return nil
		}
	}
	return full
}

func (q *questions) addLocked(what question) *openQuestion {
	what.asked = time.Now()
	what.id = q.newIDLocked()
	if what.grant != nil {
		what.grant = sync.OnceValues(what.grant)
	}
	open := &openQuestion{question: what, callers: 1, done: make(chan struct{})}
	open.expiry = time.AfterFunc(q.timeout, func() { // ends at once, or never runs
		q.decide(open, problemf(kindExpired, "Nobody answered in the terminal within %s.", q.timeout))
	})
	q.open = append(q.open, open)
	slices.SortStableFunc(q.open, func(a, b *openQuestion) int {
		return cmp.Compare(order(a, q.shown), order(b, q.shown))
	})
	q.announceLocked()
	return open
}

// order puts the question shown first and strangers last.
func order(open, shown *openQuestion) int {
	switch {
	case open == shown:
		return 0
	case !open.stranger:
		return 1
	default:
		return 2
	}
}

// newIDLocked makes up an id that is easy to type and in no use.
func (q *questions) newIDLocked() string {
	const length = 5
	for {
		id := strings.ToLower(rand.Text()[:length])
		if !slices.ContainsFunc(q.open, func(open *openQuestion) bool { return open.id == id }) {
			return id
		}
	}
}

// leave notes that a caller of open is gone.
func (q *questions) leave(open *openQuestion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	open.callers--
	if open.callers == 0 && q.decideLocked(open, errWithdrawn) {
		q.paused.withdrawn(open.key, time.Now())
	}
}

// answer decides the open question that has the id.
func (q *questions) answer(id string, yes bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.IndexFunc(q.open, func(open *openQuestion) bool { return open.id == id })
	if at < 0 {
		return problemf(kindNotFound, "No open question has the id %q: it may have been answered or withdrawn.", id)
	}
	open := q.open[at]
	if yes {
		q.paused.forget(open.key)
		q.decideLocked(open, nil)
		return nil
	}
	q.paused.refused(open.key, open.freeNos, time.Now())
	q.decideLocked(open, problemf(kindForbidden, "The person at the terminal said no."))
	return nil
}

func (q *questions) decide(open *openQuestion, outcome error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.decideLocked(open, outcome)
}

// decideLocked gives open its outcome unless it has one, and reports whether
// it did.
func (q *questions) decideLocked(open *openQuestion, outcome error) bool {
	at := slices.Index(q.open, open)
	if at < 0 {
		return false
	}
	q.open = slices.Delete(q.open, at, at+1)
	if q.shown == open {
		q.shown = nil
	}
	open.expiry.Stop()
	open.outcome = outcome
	close(open.done)
	q.announceLocked()
	return true
}

func (q *questions) announceLocked() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// list returns the open questions, the one to be answered next first. The
// caller owns the result.
func (q *questions) list() []question {
	list, _ := q.watch()
	return list
}

// watch is list with a channel that is closed when the list changes.
func (q *questions) watch() ([]question, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]question, len(q.open))
	for i, open := range q.open {
		list[i] = open.question
		list[i].waiting, list[i].shown = open.callers, open == q.shown
	}
	return list, q.changed
}

// next waits for a question and marks it as shown: it stays the first until
// it is decided.
func (q *questions) next(ctx context.Context) (*openQuestion, error) {
	for {
		open, changed := q.show()
		if open != nil {
			return open, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (q *questions) show() (*openQuestion, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shown == nil && len(q.open) > 0 {
		q.shown = q.open[0]
	}
	return q.shown, q.changed
}

// close refuses the open questions and all that come.
func (q *questions) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for len(q.open) > 0 {
		q.decideLocked(q.open[0], shuttingDown())
	}
}

func shuttingDown() error {
	return problemf(kindNoCapacity, "The runtime is shutting down.")
}
