package main

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestFlightDoesTheWorkOnceForAllWhoAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlights[int](t.Context())
		var calls atomic.Int32
		work := func(context.Context) (int, error) {
			time.Sleep(time.Second)
			return int(calls.Add(1)), nil
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if got, err := f.do(t.Context(), "a", work); got != 1 || err != nil {
					t.Errorf("do = %d, %v, want 1, nil", got, err)
				}
			})
		}
		wg.Wait()
		if got, _ := f.do(t.Context(), "a", work); got != 2 {
			t.Errorf("asking after the end = %d, want the work done again", got)
		}
	})
}

func TestFlightsOfOtherKeysDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base, stop := context.WithCancel(t.Context())
		f := newFlights[string](base)
		go f.do(t.Context(), "slow", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		synctest.Wait()
		got, err := f.do(t.Context(), "quick", func(context.Context) (string, error) { return "done", nil })
		if got != "done" || err != nil {
			t.Errorf("do = %q, %v, want done, nil", got, err)
		}
		stop()
		f.wait()
	})
}

func TestFlightGoesOnWhileOneAskerStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlights[int](t.Context())
		work := func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Minute):
				return 7, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		leaver, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := f.do(leaver, "a", work); !errors.Is(err, context.Canceled) {
				t.Errorf("the one who left got %v, want context.Canceled", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if got, err := f.do(t.Context(), "a", work); got != 7 || err != nil {
				t.Errorf("the one who stayed got %d, %v, want 7, nil", got, err)
			}
		})
		synctest.Wait()
		leave()
		wg.Wait()
	})
}

func TestFlightIsGivenUpWhenAllHaveLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFlights[int](t.Context())
		var running, calls atomic.Int32
		work := func(ctx context.Context) (int, error) {
			if running.Add(1) != 1 {
				t.Error("the same work runs twice at once")
			}
			defer running.Add(-1)
			if calls.Add(1) > 1 {
				return 7, nil
			}
			<-ctx.Done()
			time.Sleep(time.Second) // unwinding takes its time
			return 0, ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := f.do(ctx, "a", work); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("do = %v, want context.DeadlineExceeded", err)
				}
			})
		}
		wg.Wait()
		short, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if _, err := f.do(short, "a", work); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a short visit during unwinding = %v, want context.DeadlineExceeded", err)
		}
		if got, err := f.do(t.Context(), "a", work); got != 7 || err != nil {
			t.Errorf("asking after all had left = %d, %v, want 7, nil", got, err)
		}
	})
}

func TestFlightEndsWithItsOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base, stop := context.WithCancelCause(t.Context())
		f := newFlights[int](base)
		ended := false
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := f.do(t.Context(), "a", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				ended = true
				return 0, context.Cause(ctx)
			})
			if err == nil || err.Error() != "shutting down" {
				t.Errorf("do = %v, want the owner's cause", err)
			}
		})
		synctest.Wait()
		stop(errors.New("shutting down"))
		f.wait()
		if !ended {
			t.Error("wait returned before the work had ended")
		}
		wg.Wait()
		_, err := f.do(t.Context(), "b", func(context.Context) (int, error) {
			t.Error("work was started after the owner's end")
			return 0, nil
		})
		if err == nil || err.Error() != "shutting down" {
			t.Errorf("do after the end = %v, want the owner's cause", err)
		}
	})
}

func TestFlightTurnsPanicIntoError(t *testing.T) {
	t.Parallel()
	f := newFlights[int](t.Context())
	_, err := f.do(t.Context(), "a", func(context.Context) (int, error) { panic("broken wing") })
	if err == nil || !strings.Contains(err.Error(), "broken wing") || !strings.Contains(err.Error(), "flight_test.go") {
		t.Errorf("do = %v, want the panic and its stack", err)
	}
	_, err = f.do(t.Context(), "a", func(context.Context) (int, error) {
		runtime.Goexit()
		return 0, nil
	})
	if !errors.Is(err, errGoexit) {
		t.Errorf("do = %v, want errGoexit", err)
	}
	f.wait()
}

func TestFlightIsNotStartedForOneWhoHasLeft(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newFlights[int](t.Context()).do(ctx, "a", func(context.Context) (int, error) {
		t.Error("work was started for nobody")
		return 0, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("do = %v, want context.Canceled", err)
	}
}
