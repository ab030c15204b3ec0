package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRecentAnswerIsFoundOnceForAllAndKeptForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var found atomic.Int32
		fails := errors.New("once")
		r := newRecent(t.Context(), 10*time.Second, time.Minute, func(context.Context) (int32, error) {
			time.Sleep(time.Second)
			if n := found.Add(1); n != 1 {
				return n, nil
			}
			return 0, fails
		})
		if _, err := r.get(t.Context()); !errors.Is(err, fails) {
			t.Errorf("the first answer is %v, want its error", err)
		}
		ask := func(want int32) {
			t.Helper()
			var group sync.WaitGroup
			for range 5 {
				group.Go(func() {
					if got, err := r.get(t.Context()); got != want || err != nil {
						t.Errorf("got %d, %v; want %d", got, err, want)
					}
				})
			}
			group.Wait()
		}
		ask(2)
		time.Sleep(9 * time.Second)
		ask(2)
		time.Sleep(2 * time.Second)
		ask(3)
		r.wait()
	})
}
