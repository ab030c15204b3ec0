package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func rulesOf(t *testing.T, path string) string {
	t.Helper()
	d, err := readDescriptor(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.free()
	return d.rules()
}

func TestWindowsDataFolderIsClosedToOtherAccounts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	for _, when := range []string{"made", "there already"} {
		if err := makeDataFolder(dir); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if onWine() {
			continue // it keeps no such rules
		}
		rules := rulesOf(t, dir)
		if strings.Count(rules, "(") != 1 || !strings.Contains(rules, "FA;;;SY") || strings.Contains(rules, ";WD)") {
			t.Errorf("%s: the rules of the folder are %q, want one for this account and one for the system", when, rules)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Errorf("the folder is closed to us too: %v", err)
	}
}

func TestWindowsOwnFilesAreOurs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if owner, ours := ownership(dir, nil); !ours {
		t.Errorf("a folder just made belongs to %s", owner)
	}
	if owner, ours := ownership(filepath.Join(dir, "missing"), nil); ours {
		t.Errorf("a folder that is not there belongs to us, as %s", owner)
	}
}
