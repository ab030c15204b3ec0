package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestADeepTreeIsFoundAndRemoved(t *testing.T) {
	t.Parallel()
	w := testWorkspace(t)
	dir, err := os.OpenRoot(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 600 {
		if err := dir.Mkdir("d", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := dir.OpenRoot("d")
		if err != nil {
			t.Fatal(err)
		}
		dir.Close()
		dir = next
	}
	if err := dir.Chmod(".", 0o000); err != nil {
		t.Fatal(err)
	}
	dir.Close()
	if _, err := w.list(true); !isKind(err, kindConflict) {
		t.Errorf("list = %v, want a conflict", err)
	}
	if _, err := measureTree(w.keys, w.dir, treeDepth, nil); err != errTreeDeep {
		t.Errorf("measure = %v, want too deep", err)
	}
	if _, _, err := w.snapshotTo(w.dir+"-shot", treeSize{1 << 20, 10_000}); !isKind(err, kindConflict) {
		t.Errorf("snapshot = %v, want a conflict", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(w.dir)); err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	if err := removeTree(w.dir); err != nil {
		t.Error(err)
	}
}

func TestACopyOfRandomTreesIsTheSame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		w := testWorkspace(t)
		for range random.IntN(30) {
			dir := w.dir
			for range random.IntN(4) {
				dir = filepath.Join(dir, string(rune('a'+random.IntN(3))))
			}
			put(t, filepath.Join(dir, fmt.Sprintf("f%d", random.IntN(5))), strings.Repeat("x", random.IntN(5000)))
		}
		shot := w.dir + "-shot"
		if _, _, err := w.snapshotTo(shot, treeSize{1 << 20, 1000}); err != nil {
			t.Fatal(err)
		}
		if got, want := treeText(t, shot), treeText(t, w.dir); got != want {
			t.Errorf("copy = %s, want %s", got, want)
		}
	}
}

func treeText(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		data, _ := os.ReadFile(filepath.Join(dir, name))
		fmt.Fprintf(&text, "%s %v %x\n", name, d.Type(), sha256.Sum256(data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestASnapshotIsWholeAndRestoresTheSame(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		got := mustExec(t, s, sb.id, "sh", "-c", `
mkdir -p calm/inner locked shut; echo one > calm/one; echo two > calm/inner/two; chmod 755 calm/one
echo hidden > locked/hidden; chmod 000 locked; echo shut > shut/file; chmod 000 shut/file; chmod 500 shut
ln -s /etc/passwd out; ln -s calm/one in; mkfifo pipe; printf '\377' > "$(printf '\377')"`)
		if got.status != 0 {
			t.Fatal(got.stderr)
		}
		shot, err := s.snapshot(t.Context(), pageA, sb.id)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"calm", "in", "locked", "out", "shut", "\xff"}
		if !slices.Equal(shot.files, want) || !slices.Equal(shot.skipped, []string{"pipe"}) {
			t.Errorf("snapshot = %q, skipped %q, want %q, skipped pipe", shot.files, shot.skipped, want)
		}
		if target, err := os.Readlink(filepath.Join(shot.path, "out")); err != nil || target != "/etc/passwd" {
			t.Errorf("link in the snapshot = %q, %v", target, err)
		}
		if err := s.delete(pageA, sb.id); err != nil {
			t.Fatal(err)
		}
		again := mustCreate(t, s, sandboxOrder{restore: shot.id})
		got = mustExec(t, s, again.id, "sh", "-c", `
stat -c '%n %a' calm calm/one locked shut; readlink out in; cat calm/one calm/inner/two; test -r locked && echo open
chmod 700 locked shut; chmod 600 shut/file; cat locked/hidden shut/file; echo more > calm/one; ls | wc -l`)
		wantOut := "calm 755\ncalm/one 755\nlocked 0\nshut 500\n/etc/passwd\ncalm/one\none\ntwo\nhidden\nshut\n6\n"
		if got.stdout != wantOut || got.status != 0 {
			t.Errorf("restored = %q, %s, want %q", got.stdout, got.stderr, wantOut)
		}
		for name, order := range map[string]sandboxOrder{
			"of nobody":          {learnerID: adult, restore: "none"},
			"of another learner": {learnerID: unaged, restore: shot.id},
		} {
			s.cfg.minAge = 0
			if _, err := s.create(t.Context(), pageA, order); !isKind(err, kindNotFound) {
				t.Errorf("restore of a snapshot %s = %v, want not found", name, err)
			}
		}
		if _, err := s.create(t.Context(), pageB, sandboxOrder{learnerID: adult, restore: shot.id}); !isKind(err, kindNotFound) {
			t.Errorf("restore by another site = %v, want not found", err)
		}
	})
}

func TestSnapshotsOfALiveWorkspaceTakeTurnsWithExecs(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		script := `
import os
for i in range(5):
    for n in range(10):
        open(f"f{n}.new", "w").write(str(i) * 100); os.rename(f"f{n}.new", f"f{n}")
`
		var wg sync.WaitGroup
		stop := make(chan struct{})
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					mustRunPython(t, s, sb.id, script)
				}
			}
		})
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := s.write(pageA, sb.id, "f0", []byte(strings.Repeat("4", 100))); err != nil {
						t.Error(err)
					}
				}
			}
		})
		waitForFile(t, s, sb.id, "f9")
		for range 6 {
			shot, err := s.snapshot(t.Context(), pageA, sb.id)
			if err != nil {
				t.Error(err)
				break
			}
			checkCalmSnapshot(t, shot)
		}
		close(stop)
		wg.Wait()
		if left, _ := filepath.Glob(filepath.Join(s.dir, sb.id, snapshotsFolder, ".*")); len(left) != 0 {
			t.Errorf("left over: %v", left)
		}
	})
}

// checkCalmSnapshot checks that no exec was under way when it was taken.
func checkCalmSnapshot(t *testing.T, shot sandboxSnapshot) {
	t.Helper()
	for _, name := range shot.files {
		data, err := os.ReadFile(filepath.Join(shot.path, name))
		if err != nil {
			t.Error(err)
		}
		if strings.HasPrefix(name, "f") && string(data) != strings.Repeat("4", 100) || strings.HasSuffix(name, ".new") || strings.HasPrefix(name, ".write") {
			t.Errorf("%s in a snapshot = %.20q...", name, data)
		}
	}
}
