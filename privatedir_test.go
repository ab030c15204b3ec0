//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestDataFolderIsClosedToOtherAccounts(t *testing.T) {
	t.Parallel()
	as := map[bool]os.FileMode{true: 0o711, false: 0o700}
	for _, c := range []struct{ before, after os.FileMode }{
		{0o755, 0o700},
		{0o700, 0o700},
		{0o777, 0o700},
		{0o500, 0o700},
		{0o711, as[os.Geteuid() == 0]},
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, c.before); err != nil {
			t.Fatal(err)
		}
		if err := makeDataFolder(dir); err != nil {
			t.Errorf("%o: %v", c.before, err)
		}
		if got := modeOf(t, dir); got != c.after {
			t.Errorf("%o became %o, want %o", c.before, got, c.after)
		}
	}
}

func TestFoldersOfAnotherAccountAreRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 1, 1); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func(string) error{"data": makeDataFolder, "private": makePrivateFolder} {
		err := try(dir)
		if !isKind(err, kindForbidden) || !strings.Contains(err.Error(), "belongs to") {
			t.Errorf("%s folder: %v, want a refusal that names the owner", name, err)
		}
	}
}

func TestPrivateFolderIsNoLinkAndNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, file} {
		if err := makePrivateFolder(path); !isKind(err, kindForbidden) {
			t.Errorf("%s: %v, want a refusal", filepath.Base(path), err)
		}
	}
}

func TestSocketFolderIsShortAndPrivate(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", "/tmp")
	long := filepath.Join(temp, strings.Repeat("long/", 30))
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("/tmp", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	seen := make(map[string]bool)
	for _, dir := range []string{short, long, long + "/long"} {
		folder, err := socketFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(folder) })
		if len(folder)+1+socketNameLimit > socketPathLimit {
			t.Errorf("%s is too long for a socket", folder)
		}
		if again, err := socketFolder(dir); again != folder || err != nil {
			t.Errorf("again: %s, %v, want %s", again, err, folder)
		}
		if got := modeOf(t, folder); got != 0o700 {
			t.Errorf("mode of %s = %o, want 700", folder, got)
		}
		seen[folder] = true
	}
	if len(seen) != 3 || !seen[filepath.Join(short, "run")] {
		t.Errorf("folders = %v, want three and run in the short one", seen)
	}
}

func TestLinkedStateStaysALinkWhateverTheUmask(t *testing.T) {
	// The umask belongs to the whole process, so this test is not parallel.
	old := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(old) })
	for _, umask := range []int{0, 0o277} {
		syscall.Umask(0)
		home := t.TempDir()
		dir, target := filepath.Join(home, "data"), filepath.Join(home, "elsewhere", "mine.json")
		for _, folder := range []string{dir, filepath.Dir(target)} {
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("../elsewhere/mine.json", filepath.Join(dir, stateFile)); err != nil {
			t.Fatal(err)
		}
		syscall.Umask(umask)
		s, _ := newTestState(t, dir)
		for _, c := range []string{"a", "b"} {
			pairTestSite(t, s, testPairing(c))
		}
		if got := mustCurrent(t, s).Pairings[testSite]; got != testPairing("b") {
			t.Errorf("pairing = %+v", got)
		}
		info, err := os.Lstat(filepath.Join(dir, stateFile))
		if err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("state file is no link any more: %v, %v", info, err)
		}
		if got := modeOf(t, target); got != 0o600 {
			t.Errorf("mode of the target = %o, want 600", got)
		}
		if got := modeOf(t, dir); got != 0o700 {
			t.Errorf("mode of the folder = %o, want 700", got)
		}
	}
}

func TestOpenStateFileIsClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := newTestState(t, dir)
	pairTestSite(t, s, testPairing("a"))
	file := filepath.Join(dir, stateFile)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	newTestState(t, dir)
	if got := modeOf(t, file); got != 0o600 {
		t.Errorf("mode = %o, want 600", got)
	}
}

func TestPipeAsStateFileIsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, stateFile), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := newTestState(t, dir)
	pairTestSite(t, s, testPairing("a"))
	if got := grants(mustCurrent(t, s)); got != 1 {
		t.Errorf("grants = %d, want 1", got)
	}
}

func TestLockIsExclusiveAndGivesUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockFile(path, 0); !errors.Is(err, errLocked) {
		t.Errorf("second lock: %v, want errLocked", err)
	}
	unlock()
	unlock, err = lockFile(path, 0)
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	unlock()
}
