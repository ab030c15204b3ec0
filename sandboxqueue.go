package main

import (
	"context"
	"slices"
	"sync"
)

// turnQueue lets one at a time through, in the order they came.
type turnQueue struct {
	mu      sync.Mutex // guards the rest
	taken   bool
	waiting []chan struct{}
}

// enter waits for its turn, at most behind most others. Whoever got it calls
// leave. One whose ctx ends gives its place up.
func (q *turnQueue) enter(ctx context.Context, most int) error {
	turn, err := q.join(most)
	if turn == nil || err != nil {
		return err
	}
	select {
	case <-turn:
	case <-ctx.Done():
	}
	if ctx.Err() == nil {
		return nil
	}
	q.mu.Lock()
	at := slices.Index(q.waiting, turn)
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	q.mu.Unlock()
	if at < 0 { // the turn came in the same moment
		q.leave()
	}
	return context.Cause(ctx)
}

// join returns what closes when the turn has come; nil when it has.
func (q *turnQueue) join(most int) (chan struct{}, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.taken {
		q.taken = true
		return nil, nil
	}
	if len(q.waiting) >= most {
		return nil, problemf(kindTooMany, "%d commands of this sandbox are waiting already: wait for one to end.", most)
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	return turn, nil
}

func (q *turnQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.taken = false
		return
	}
	close(q.waiting[0])
	q.waiting = q.waiting[1:]
}
