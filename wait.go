package main

// Waiting: for channels that are closed once and carry no values, and for time
// to pass.

import (
	"context"
	"time"
)

// pauseFor waits, or returns why ctx has ended.
func pauseFor(ctx context.Context, pause time.Duration) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeOnce closes a channel that is closed by the holder of one lock alone.
func closeOnce(c chan struct{}) {
	if !isClosed(c) {
		close(c)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waitFor waits until c is closed, at most for d, and reports whether it is.
func waitFor(c <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}
