package main

import (
	"path/filepath"
	"syscall"
	"testing"
)

func TestRealFullDiskLeavesNothingAndRoomLaterHelps(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest, "large": noise(4 << 20)})
	src := testSource(t, url, commit)
	f := newTestFetcher(t, s)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("no disk of its own for this test: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	dst := filepath.Join(disk, "lab-1", "0123456789ab")
	for _, size := range []string{"size=2m", "size=6m"} {
		if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, size); err != nil {
			t.Fatal(err)
		}
		err := f.fetch(t.Context(), src, dst)
		if !isKind(err, kindFull) {
			t.Errorf("fetch on a disk of %s = %v, want it full", size, err)
		}
		wantNothingLeft(t, disk)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=40m"); err != nil {
		t.Fatal(err)
	}
	mustFetch(t, f, src, dst)
}
