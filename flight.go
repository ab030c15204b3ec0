package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// errGoexit is the answer of work that ended its goroutine instead of returning.
var errGoexit = errors.New("the work ended without an answer")

// flights lets many ask for the same piece of work at once: one does it and
// all get the answer. Keys tell pieces of work apart. Nothing is kept once
// the answer is given, so asking again does the work again.
type flights[T any] struct {
	base context.Context // the owner's: it outlives every request, and all work ends with it

	mu     sync.Mutex // guards flying and the waiters of each flight
	flying map[string]*flight[T]
}

// flight is one piece of work going on.
type flight[T any] struct {
	waiters int           // those still there for the answer; 0 means given up
	cancel  func()        // ends the work's context
	done    chan struct{} // closed when answer and err are set
	answer  T
	err     error
}

// newFlights returns flights whose work ends when base does.
func newFlights[T any](base context.Context) *flights[T] {
	return &flights[T]{base: base, flying: make(map[string]*flight[T])}
}

// do returns the answer of fn, or of the work that goes on under the same key
// already. All who asked share one value. The context of the work holds
// nothing of ctx: it ends when every asker has left or the owner's base ends.
// An asker whose ctx ends leaves at once with ctx.Err(); one who asks again
// while given-up work is still unwinding waits for that first. A panic in fn
// becomes an error that holds the stack.
func (f *flights[T]) do(ctx context.Context, key string, fn func(context.Context) (T, error)) (T, error) {
	var none T
	for {
		if err := ctx.Err(); err != nil {
			return none, err
		}
		fl, joined, err := f.join(key, fn)
		if err != nil {
			return none, err
		}
		select {
		case <-fl.done:
			if joined {
				return fl.answer, fl.err
			}
		case <-ctx.Done():
			if joined {
				f.leave(fl)
			}
			return none, ctx.Err()
		}
	}
}

// join returns the flight of key, started if need be. joined is false when it
// was given up by all others and can only be waited for.
func (f *flights[T]) join(key string, fn func(context.Context) (T, error)) (fl *flight[T], joined bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.flying[key]; ok {
		if fl.waiters == 0 {
			return fl, false, nil
		}
		fl.waiters++
		return fl, true, nil
	}
	if f.base.Err() != nil {
		return nil, false, context.Cause(f.base)
	}
	ctx, cancel := context.WithCancel(f.base)
	fl = &flight[T]{waiters: 1, cancel: cancel, done: make(chan struct{})}
	f.flying[key] = fl
	go f.fly(ctx, key, fl, fn) // ends with fn; wait waits for it
	return fl, true, nil
}

func (f *flights[T]) leave(fl *flight[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.waiters--
	if fl.waiters == 0 {
		fl.cancel()
	}
}

func (f *flights[T]) fly(ctx context.Context, key string, fl *flight[T], fn func(context.Context) (T, error)) {
	fl.err = errGoexit
	defer func() {
		if r := recover(); r != nil {
			fl.err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
		fl.cancel()
		f.mu.Lock()
		delete(f.flying, key)
		f.mu.Unlock()
		close(fl.done)
	}()
	fl.answer, fl.err = fn(ctx)
}

// wait returns when no work goes on. The owner calls it after the base
// context has ended, since new work may start until then.
func (f *flights[T]) wait() {
	for {
		fl := f.any()
		if fl == nil {
			return
		}
		<-fl.done
	}
}

func (f *flights[T]) any() *flight[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fl := range f.flying {
		return fl
	}
	return nil
}
