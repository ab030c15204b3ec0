package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"
)

func TestLastUseIsSavedEachMinuteAndAtTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		state, err := openState(dir, log)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := createClient(state, "tool", scopeCode); err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		uses := openLastUses(dir, log)
		go func() {
			uses.keep(ctx, state)
			close(ended)
		}()
		time.Sleep(lastUseSaved / 2)
		uses.note("local:tool")
		uses.note("https://revoked.example")
		if saved := readLastUses(dir); len(saved) > 0 {
			t.Errorf("saved at once: %v", saved)
		}
		time.Sleep(lastUseSaved)
		first := readLastUses(dir)
		if len(first) != 1 || first["local:tool"].IsZero() || len(uses.all()) != 1 {
			t.Errorf("after a minute %v is saved and %v known, want local:tool alone", first, uses.all())
		}
		uses.note("local:tool")
		end()
		<-ended
		if last := readLastUses(dir); !last["local:tool"].After(first["local:tool"]) {
			t.Errorf("at the end %v is saved, after %v", last, first)
		}
		if again := openLastUses(dir, log).all(); !maps.Equal(again, uses.all()) {
			t.Errorf("opened again: %v, want %v", again, uses.all())
		}
	})
}

func FuzzLastUses(f *testing.F) {
	for _, seed := range []string{`{"https://a.example": "2026-01-02T03:04:05.678Z"}`, `{"local:tool": "0001-01-01T00:00:00Z"}`, `null`, `[]`, `{"a": 1}`, `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		known := decodeLastUses(content)
		for p, at := range known {
			if !time.Unix(0, at.UnixNano()).Equal(at) {
				t.Errorf("%q: %v cannot be kept", p, at)
			}
		}
		encoded, err := json.Marshal(known)
		if err != nil {
			t.Fatal(err)
		}
		if again := decodeLastUses(encoded); !maps.EqualFunc(again, known, time.Time.Equal) {
			t.Errorf("%v became %v", known, again)
		}
	})
}
