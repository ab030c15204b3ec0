package main

import (
	"os"
	"strings"
	"testing"
)

func TestWindowsTellsHowToStartAtLogin(t *testing.T) {
	t.Parallel()
	_, err := serviceHere(os.Getenv, t.TempDir(), serviceSettings{})
	if err == nil || !strings.Contains(err.Error(), "shell:startup") {
		t.Errorf("serviceHere: %v", err)
	}
}
