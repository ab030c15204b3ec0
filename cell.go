package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

type cellState int

const (
	cellWaiting cellState = iota // others of its lab, or the kernel's start, come first
	cellRunning                  // the kernel has it
	cellDone
)

// cell is one piece of code given to a lab's kernel, and what came of it.
type cell struct {
	id      string
	request string // id of the message that asks the kernel to run it

	begun chan struct{} // closed when the kernel has begun to run it
	half  chan struct{} // closed when one of its reply and its idle state has come
	ended chan struct{} // closed when it is done

	size atomic.Int64 // bytes of its log

	mu       sync.Mutex    // guards the rest
	code     string        // "" once it was sent
	changed  chan struct{} // closed, and made anew, when the log or the state changes
	state    cellState
	log      cellLog
	began    time.Time  // when begun was closed
	sign     time.Time  // when the last message about it came
	replied  bool       // the kernel has answered
	idle     bool       // the kernel has published all there is, threads apart
	exiting  bool       // the cell has asked the kernel to end
	stopped  bool       // somebody interrupted it
	failure  *cellError // nil while nothing has gone wrong
	told     bool       // the failure is in the log
	count    *int       // the kernel's number of the execution
	notBegun error      // why the kernel never got it
}

func newCell(id, code string) *cell {
	if id == "" {
		id = rand.Text()
	}
	return &cell{
		id: id, request: rand.Text(), code: code,
		begun: make(chan struct{}), half: make(chan struct{}), ended: make(chan struct{}),
		changed: make(chan struct{}),
		log:     cellLog{limit: cellOutputLimit},
	}
}

// cellResult is a cell at one moment. The caller must not change the outputs.
type cellResult struct {
	id      string
	done    bool
	outputs []cellOutput
	failure *cellError
	count   *int
}

func (c *cell) result() cellResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cellResult{c.id, c.state == cellDone, c.log.outputs(), c.failure, c.count}
}

// wait returns when c is done, with the reason when the kernel never got it,
// or with ctx's error when ctx ends before.
func (c *cell) wait(ctx context.Context) error {
	select {
	case <-c.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.notBegun
}

// follow returns the next events from number on, at most count, and the number
// to go on with. When there is none yet, changed is closed once it is worth
// asking again; over is true when there will be none.
func (c *cell) follow(number, count int) (events []*cellEvent, next int, changed <-chan struct{}, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	events, next = c.log.after(number, count)
	return events, next, c.changed, len(events) == 0 && c.state == cellDone
}

// outcome is what the last event of a stream tells; marker is nil unless
// output was left out.
func (c *cell) outcome() (success bool, marker *cellEvent, notBegun error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure == nil, c.log.marker(), c.notBegun
}

// take hands the code out to be sent. It is false when c is done already,
// because its client left or its kernel was shut down.
func (c *cell) take() (code string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != cellWaiting {
		return "", false
	}
	c.state = cellRunning
	code, c.code = c.code, ""
	c.noteLocked()
	return code, true
}

// abandon ends c if the kernel has not got it, and reports whether it did.
func (c *cell) abandon(why error, failure cellError) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != cellWaiting {
		return false
	}
	c.notBegun = why
	c.failLocked(failure)
	return true
}

// orphaned ends c because its kernel has ended, well if it asked for that.
func (c *cell) orphaned(failure cellError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.replied && c.exiting {
		c.finishLocked()
	}
	c.failLocked(failure)
}

func (c *cell) failLocked(failure cellError) {
	if c.state == cellDone {
		return
	}
	c.failure = failure.bounded()
	c.finishLocked()
}

func (c *cell) finishLocked() {
	if c.state == cellDone {
		return
	}
	if c.failure != nil && !c.told {
		c.log.add(&cellEvent{kind: eventError, failure: c.failure})
	}
	c.state = cellDone
	c.code = ""
	close(c.ended)
	c.noteLocked()
}

func (c *cell) noteLocked() {
	c.size.Store(int64(c.log.size))
	close(c.changed)
	c.changed = make(chan struct{})
}

// published takes a message that the kernel published about c. It may come
// after c is done; what it says is kept then too.
func (c *cell) published(m jupyterMessage) {
	event, isOutput := cellEventOf(m)
	var content struct {
		State string `json:"execution_state"`
		Count *int   `json:"execution_count"`
	}
	if !isOutput && m.content != nil && json.Unmarshal(m.content, &content) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sign = time.Now()
	switch {
	case m.skipped > 0:
		c.skippedLocked(m)
	case isOutput:
		c.outputLocked(event)
	case m.header.Type == "execute_input":
		c.count = content.Count
		c.beginLocked()
	case m.header.Type == "status" && content.State == "idle":
		c.idle = true
		c.halfLocked()
	}
	if isOutput {
		c.noteLocked()
	}
}

// skippedLocked notes output that was too large to be read.
func (c *cell) skippedLocked(m jupyterMessage) {
	if m.header.Type != string(eventError) {
		c.log.leaveOut(m.skipped)
		return
	}
	c.outputLocked(&cellEvent{kind: eventError, failure: cellError{
		Name: "ErrorTooLarge", Value: fmt.Sprintf("The cell raised an error whose text of %d bytes was too large to be kept.", m.skipped),
	}.bounded()})
	c.noteLocked()
}

func (c *cell) outputLocked(e *cellEvent) {
	switch {
	case e.kind == eventUpdate:
		c.log.tell(e)
	case e.kind == eventError && c.state == cellDone:
	case e.kind == eventError:
		c.failure, c.told = e.failure, true
		c.log.add(e)
	default:
		c.log.add(e)
	}
}

// updated changes what an earlier output of c shows.
func (c *cell) updated(e *cellEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.replace(e)
}

// answered takes the kernel's reply to c's request.
func (c *cell) answered(m jupyterMessage) {
	var content struct {
		cellError
		Status  string `json:"status"`
		Count   *int   `json:"execution_count"`
		Payload []struct {
			Source string          `json:"source"`
			Data   json.RawMessage `json:"data"`
			Keep   jsonTruth       `json:"keepkernel"` // what exit was called with
		} `json:"payload"`
	}
	_ = json.Unmarshal(m.content, &content) // broken content leaves the status empty
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sign = time.Now()
	c.beginLocked()
	if content.Count != nil {
		c.count = content.Count
	}
	for _, p := range content.Payload {
		switch {
		case p.Source == "page" && len(p.Data) > 0 && p.Data[0] == '{': // what a ? after a name shows
			c.log.add(&cellEvent{kind: eventDisplay, data: passable(p.Data), metadata: json.RawMessage("{}")})
		case p.Source == "ask_exit" && !bool(p.Keep):
			c.exiting = true
		}
	}
	switch {
	case content.Status == "ok" || c.failure != nil:
	case m.skipped > 0: // a reply as large as this repeats an error, which is published too
	case content.Status == "error":
		c.failure = content.bounded()
	default:
		c.failure = cellError{Name: "CellAborted", Value: "The kernel did not run this cell."}.bounded()
	}
	c.replied = true
	c.halfLocked()
}

func (c *cell) beginLocked() {
	if !isClosed(c.begun) {
		c.began = c.sign
		close(c.begun)
	}
}

// age is for how long the kernel has been running c.
func (c *cell) age() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.began)
}

// halfLocked ends c once both the reply and the idle state have come, in
// whichever order.
func (c *cell) halfLocked() {
	closeOnce(c.half)
	if c.replied && c.idle && c.state == cellRunning {
		c.finishLocked()
	}
}

// giveUp ends c when half of its end has come and then nothing about it for
// longer than patience. It reports whether c is done.
func (c *cell) giveUp(patience time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == cellDone {
		return true
	}
	if time.Since(c.sign) < patience {
		return false
	}
	switch {
	case c.replied || c.failure != nil:
		c.finishLocked()
	case c.stopped:
		c.failLocked(cellError{Name: "KeyboardInterrupt", Value: "The cell was interrupted before it began."})
	default:
		c.failLocked(cellError{Name: "ReplyLost", Value: "The kernel finished this cell without an answer."})
	}
	return true
}

func (c *cell) interrupted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}

// ends reports whether c has asked its kernel to end.
func (c *cell) ends() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exiting
}

func (c *cell) isDone() bool { return isClosed(c.ended) }

const (
	storedCells = 50
	storedBytes = 64 << 20
)

// cellStore keeps the last cells of a lab. The zero value is empty. Cells that
// are not done are kept whatever their number.
type cellStore struct {
	cells []*cell // oldest first
}

// add takes c; a done cell that had its id is forgotten.
func (s *cellStore) add(c *cell) {
	s.cells = slices.DeleteFunc(s.cells, func(old *cell) bool { return old.id == c.id && old.isDone() })
	s.cells = append(s.cells, c)
}

func (s *cellStore) remove(c *cell) {
	s.cells = slices.DeleteFunc(s.cells, func(old *cell) bool { return old == c })
}

// find returns the newest cell for which is holds, or nil.
func (s *cellStore) find(is func(*cell) bool) *cell {
	for _, c := range slices.Backward(s.cells) {
		if is(c) {
			return c
		}
	}
	return nil
}

// trim forgets the oldest done cells that are too many or too large. The
// newest is kept however large it is.
func (s *cellStore) trim() {
	count, size := 0, int64(0)
	var kept []*cell
	for _, c := range slices.Backward(s.cells) {
		if c.isDone() {
			count++
			size += c.size.Load()
			if count > 1 && (count > storedCells || size > storedBytes) {
				continue
			}
		}
		kept = append(kept, c)
	}
	slices.Reverse(kept)
	s.cells = kept
}
