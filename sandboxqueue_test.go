package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTurnsComeInOrderAndThoseWhoLeaveAreSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q turnQueue
		if err := q.enter(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		order := make(chan int, 3)
		leaving, leave := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		for i, ctx := range []context.Context{t.Context(), leaving, t.Context()} {
			go func() {
				if err := q.enter(ctx, 3); err != nil {
					if !errors.Is(err, gone) {
						t.Errorf("enter = %v, want the cause", err)
					}
					return
				}
				order <- i
				q.leave()
			}()
			synctest.Wait()
		}
		if err := q.enter(t.Context(), 3); !isKind(err, kindTooMany) {
			t.Errorf("a fourth = %v, want too many", err)
		}
		leave(gone)
		synctest.Wait()
		q.leave()
		synctest.Wait()
		if first, second := <-order, <-order; first != 0 || second != 2 {
			t.Errorf("turns = %d, %d, want 0 and 2", first, second)
		}
		if err := q.enter(t.Context(), 0); err != nil {
			t.Errorf("enter when all have left = %v", err)
		}
	})
}

func TestATurnThatComesWhileOneLeavesIsPassedOn(t *testing.T) {
	t.Parallel()
	for range 200 {
		var q turnQueue
		if err := q.enter(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- q.enter(ctx, 1) }()
		go leave()
		q.leave()
		if err := <-done; err == nil {
			q.leave()
		}
		late, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := q.enter(late, 1); err != nil {
			t.Fatal("the turn was lost")
		}
		cancel()
	}
}
