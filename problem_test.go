package main

import (
	"errors"
	"testing"
)

func TestProblemIsOneSentenceWithItsCause(t *testing.T) {
	t.Parallel()
	p := problemf(kindFull, "The file cannot be written.")
	if got, want := p.Error(), "The file cannot be written."; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if got, want := p.because(errors.New("no space left")).Error(), "The file cannot be written: no space left"; got != want {
		t.Errorf("Error() with a cause = %q, want %q", got, want)
	}
}
