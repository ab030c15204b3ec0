package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLearnersAreKeptAndChecked(t *testing.T) {
	t.Parallel()
	s, err := openState(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 9, 19, 5, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		err  error
		want kind
	}{
		{"add", addLearner(s, "ada", nil, now), -1},
		{"add with an age", addLearner(s, "bob b", new(17), now), -1},
		{"add twice", addLearner(s, "ada", nil, now), kindConflict},
		{"add none", addLearner(s, "", nil, now), kindInvalid},
		{"add a long one", addLearner(s, strings.Repeat("x", 129), nil, now), kindInvalid},
		{"add a line", addLearner(s, "a\nb", nil, now), kindInvalid},
		{"add an odd age", addLearner(s, "cy", new(-1), now), kindInvalid},
		{"verify", verifyLearner(s, "ada", 16, now.Add(time.Hour)), -1},
		{"verify an odd age", verifyLearner(s, "ada", 151, now), kindInvalid},
		{"verify nobody", verifyLearner(s, "eve", 16, now), kindNotFound},
		{"remove", removeLearner(s, "bob b"), -1},
		{"remove nobody", removeLearner(s, "bob b"), kindNotFound},
	} {
		if got := kindOf(c.err); got != c.want {
			t.Errorf("%s = %v, want kind %d", c.name, c.err, c.want)
		}
	}
	data, err := s.current()
	if err != nil || len(data.Learners) != 1 {
		t.Fatalf("learners = %v, %v", data, err)
	}
	if got := data.Learners["ada"]; *got.Age != 16 || !got.AddedAt.Equal(now) || !got.VerifiedAt.Equal(now.Add(time.Hour)) {
		t.Errorf("learner = %+v", got)
	}
}

// kindOf is the kind of a problem, -1 for no error.
func kindOf(err error) kind {
	if err == nil {
		return -1
	}
	if p, ok := errors.AsType[*problem](err); ok {
		return p.kind
	}
	return kindInternal
}
