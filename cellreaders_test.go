package main

import (
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// Clients that stopped reading once held up to 64 MB each for two minutes.
func TestSlowReadersAreDroppedWhenTheyHoldTooMuch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rs cellReaders
		read := func(c *cell) *cellReader { return rs.begin(httptest.NewRecorder(), c) }
		large := func() *cell {
			c := newCell("", "")
			c.size.Store(cellReadersBytes / 4)
			return c
		}
		shared := large()
		readers := []*cellReader{read(shared), read(shared), read(large()), read(large()), read(large())}
		time.Sleep(slowClient)
		if read(newCell("", "")); readers[0].dropped.Load() {
			t.Error("a reader was dropped although there was room")
		}
		if _, err := readers[0].Write(make([]byte, 3*cellPiece)); err != nil {
			t.Errorf("write = %v", err)
		}
		newest := read(large())
		for i, want := range []bool{false, true, true, false, false} {
			if got := readers[i].dropped.Load(); got != want {
				t.Errorf("reader %d dropped = %v, want %v", i, got, want)
			}
		}
		if _, err := readers[2].Write([]byte("x")); !errors.Is(err, errDropped) {
			t.Errorf("write to a dropped reader = %v", err)
		}
		if read(large()); newest.dropped.Load() || readers[0].dropped.Load() {
			t.Error("a reader was dropped that has just taken something")
		}
		for _, r := range readers {
			rs.end(r)
		}
	})
}
