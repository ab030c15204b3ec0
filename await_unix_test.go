//go:build unix

package main

import (
	"testing"
	"time"
)

// patience is how long tests wait for something that should come soon. It is
// long because machines are slow at times; nothing waits for it in vain.
const patience = 60 * time.Second

// await waits until is holds.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s did not come to be", what)
		}
	}
}
