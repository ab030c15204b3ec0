package main

import (
	"context"
	"sync"
	"time"
)

// recent is an answer that takes long to find and may be a little old: it is
// found once at a time however many ask, and kept for a while.
type recent[T any] struct {
	find    func(context.Context) (T, error)
	keep    time.Duration
	limit   time.Duration // for finding it
	flights *flights[T]

	mu     sync.Mutex // guards the rest
	answer T
	found  time.Time // zero: nothing is kept
}

// newRecent returns one that knows nothing yet. Finding ends with base; the
// owner then calls wait.
func newRecent[T any](base context.Context, keep, limit time.Duration, find func(context.Context) (T, error)) *recent[T] {
	return &recent[T]{find: find, keep: keep, limit: limit, flights: newFlights[T](base)}
}

// get returns the answer that is kept, or finds one. All who ask share it.
func (r *recent[T]) get(ctx context.Context) (T, error) {
	r.mu.Lock()
	answer, found := r.answer, r.found
	r.mu.Unlock()
	if !found.IsZero() && time.Since(found) < r.keep {
		return answer, nil
	}
	return r.flights.do(ctx, "", func(ctx context.Context) (T, error) {
		limited, cancel := context.WithTimeout(ctx, r.limit)
		defer cancel()
		answer, err := r.find(limited)
		if err == nil && ctx.Err() == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.answer, r.found = answer, time.Now()
		}
		return answer, err
	})
}

// wait returns when nothing is being found any more.
func (r *recent[T]) wait() { r.flights.wait() }
