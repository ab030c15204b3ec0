package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func testWorkspace(t testing.TB) workspace {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return workspace{dir: dir}
}

// put makes a file, with its folders, without the API.
func put(t testing.TB, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFilesNeverLeaveTheWorkspace(t *testing.T) {
	t.Parallel()
	w := testWorkspace(t)
	outside := filepath.Join(filepath.Dir(w.dir), "outside")
	put(t, filepath.Join(outside, "secret"), "secret")
	put(t, filepath.Join(w.dir, "inside", "plain"), "plain")
	for name, target := range map[string]string{
		"link":     filepath.Join(outside, "secret"),
		"rel":      "../outside/secret",
		"dir":      outside,
		"chain":    "link",
		"dangling": "../outside/new",
		"proc":     "/proc/self/root",
		"cwd":      "/proc/self/cwd",
		"up":       "..",
		"loop":     "loop",
		"ok":       "inside",
		"okfile":   "inside/plain",
	} {
		if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	const invalid, missing, fine = kindInvalid, kindNotFound, kind(-1)
	for _, c := range []struct {
		name        string
		read, write kind
	}{
		{"", invalid, invalid}, {".", invalid, invalid}, {"..", invalid, invalid}, {"../x", invalid, invalid},
		{"a/../../x", invalid, invalid}, {"/etc/passwd", invalid, invalid}, {"a\x00b", invalid, invalid},
		{strings.Repeat("a/", 2100) + "x", invalid, invalid}, {strings.Repeat("n", 300), invalid, invalid},
		{"link", invalid, invalid}, {"link/", invalid, invalid}, {"link/.", invalid, invalid}, {"rel", invalid, invalid},
		{"dir", invalid, invalid}, {"dir/", invalid, invalid}, {"dir/secret", invalid, invalid}, {"dir/new", invalid, invalid},
		{"chain", invalid, invalid}, {"dangling", invalid, invalid}, {"proc/etc/passwd", invalid, invalid},
		{"cwd/go.mod", invalid, invalid}, {"up/outside/secret", invalid, invalid}, {"up/outside/new", invalid, invalid},
		{"loop", missing, missing}, {"inside", missing, kindConflict}, {"inside/plain/x", missing, kindConflict},
		{"inside/none", missing, fine}, {"ok/plain", fine, fine}, {"okfile", fine, fine}, {`back\slash`, missing, fine},
		{"./inside//plain", fine, fine}, {"...", missing, fine}, {"-rf", missing, fine}, {"new/deep/er", missing, fine},
	} {
		_, err := w.read(c.name)
		if got := kindOf(err); got != c.read {
			t.Errorf("read(%.40q) = %v, want kind %d", c.name, err, c.read)
		}
		err = w.write(c.name, []byte("written"))
		if got := kindOf(err); got != c.write {
			t.Errorf("write(%.40q) = %v, want kind %d", c.name, err, c.write)
		}
	}
	if got, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(got) != "secret" {
		t.Errorf("the file outside = %q, %v", got, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("the folder outside holds %v, %v", entries, err)
	}
}

func TestWhatIsNoFileIsNeitherReadNorWaitedFor(t *testing.T) {
	t.Parallel()
	w := testWorkspace(t)
	if err := syscall.Mkfifo(filepath.Join(w.dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	// A path of a socket is short; the folder of a test is not.
	short, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	listener, err := net.Listen("unix", filepath.Join(short, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.Rename(filepath.Join(short, "socket"), filepath.Join(w.dir, "socket")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pipe", filepath.Join(w.dir, "to pipe")); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for _, name := range []string{"pipe", "socket", "to pipe"} {
		if _, err := w.read(name); !isKind(err, kindNotFound) {
			t.Errorf("read(%q) = %v, want not found", name, err)
		}
		if err := w.write(name, []byte("x")); !isKind(err, kindNotFound) {
			t.Errorf("write(%q) = %v, want not found", name, err)
		}
	}
	copied, skipped, err := w.snapshotTo(filepath.Join(filepath.Dir(w.dir), "shot"), treeSize{1 << 20, 100})
	if err != nil || copied.entries != 3 || !slices.Equal(skipped, []string{"pipe", "socket"}) {
		t.Errorf("snapshot = %v, %v, %v, want pipe and socket skipped", copied, skipped, err)
	}
	if err := removeTree(w.dir); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestWriteReplacesALinkedFileAlone(t *testing.T) {
	t.Parallel()
	w := testWorkspace(t)
	outside := filepath.Join(filepath.Dir(w.dir), "outside")
	put(t, outside, "old")
	if err := os.Link(outside, filepath.Join(w.dir, "hard")); err != nil {
		t.Fatal(err)
	}
	if err := w.write("hard", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(outside); string(got) != "old" {
		t.Errorf("the file outside = %q, want it unchanged", got)
	}
}

func TestWriteKeepsProgramsProgramsAndNothingElse(t *testing.T) {
	t.Parallel()
	w := testWorkspace(t)
	for name, modes := range map[string][2]fs.FileMode{
		"program": {0o700, 0o755}, "private": {0o600, 0o644}, "suid": {0o755 | fs.ModeSetuid, 0o755}, "locked": {0, 0o644},
	} {
		put(t, filepath.Join(w.dir, name), "old")
		if err := os.Chmod(filepath.Join(w.dir, name), modes[0]); err != nil {
			t.Fatal(err)
		}
		if err := w.write(name, []byte("new")); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(w.dir, name)); err != nil || info.Mode() != modes[1] {
			t.Errorf("mode of %s = %v, want %v", name, info.Mode(), modes[1])
		}
	}
}

func TestFilesAreCappedInSize(t *testing.T) {
	t.Parallel()
	w := testWorkspace(t)
	if err := w.write("most", make([]byte, workspaceFileLimit)); err != nil {
		t.Error(err)
	}
	if got, err := w.read("most"); err != nil || len(got) != workspaceFileLimit {
		t.Errorf("read = %d bytes, %v", len(got), err)
	}
	if err := w.write("most", make([]byte, workspaceFileLimit+1)); !isKind(err, kindTooLarge) {
		t.Errorf("write = %v, want too large", err)
	}
	put(t, filepath.Join(w.dir, "more"), "")
	if err := os.Truncate(filepath.Join(w.dir, "more"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := w.read("more"); !isKind(err, kindTooLarge) {
		t.Errorf("read = %v, want too large", err)
	}
}

func TestWritersAtOnceNeverMix(t *testing.T) {
	t.Parallel()
	w := testWorkspace(t)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		wg.Go(func() {
			for range 50 {
				if err := w.write("file", bytes.Repeat([]byte{byte('a' + i)}, 100_000)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			got, err := w.read("file")
			if isKind(err, kindNotFound) {
				continue
			}
			if err != nil || len(got) != 100_000 || bytes.Count(got, got[:1]) != len(got) {
				t.Errorf("read = %d bytes, %v, want one writer's", len(got), err)
				return
			}
		}
	})
	wg.Wait()
	close(stop)
	reader.Wait()
	if names, err := w.list(true); err != nil || !slices.Equal(names, []string{"file"}) {
		t.Errorf("list = %v, %v, want the file alone", names, err)
	}
}

func TestAFolderSwappedForALinkLeadsNowhere(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		outside := filepath.Join(filepath.Dir(s.dir), "outside")
		put(t, filepath.Join(outside, "file"), "secret")
		script := `
import os, sys
os.makedirs("real", exist_ok=True); open("real/file", "w").write("mine")
os.symlink(sys.argv[1], "link"); os.symlink("real", "swap"); open("running", "w").close()
while True:
    for target in (sys.argv[1], "real"):
        os.symlink(target, "next"); os.rename("next", "swap")
`
		if err := s.write(pageA, sb.id, "script.py", []byte(script)); err != nil {
			t.Fatal(err)
		}
		done := make(chan sandboxResult, 1)
		go func() {
			timeout := 3.0
			result, _ := s.exec(t.Context(), pageA, sb.id, []string{"python3", "script.py", outside}, &timeout)
			done <- result
		}()
		waitForFile(t, s, sb.id, "running")
		reads, writes := 0, 0
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			if got, err := s.read(pageA, sb.id, "swap/file"); err == nil {
				reads++
				if string(got) == "secret" {
					t.Fatal("read what is outside")
				}
			}
			if err := s.write(pageA, sb.id, "swap/made", []byte("x")); err == nil {
				writes++
			}
			if names, err := s.files(pageA, sb.id, true); err == nil && slices.Contains(names, "swap/file") {
				t.Fatal("listed through a link")
			}
		}
		if result := <-done; result.limit != endedByTime || reads == 0 || writes == 0 {
			t.Errorf("the swapper ended with %+v; %d reads and %d writes went through", result, reads, writes)
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
			t.Errorf("the folder outside holds %v, %v", entries, err)
		}
	})
}

func TestNamesThatAreNotTextCanBeUsed(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		mustRunPython(t, s, sb.id, `
import os
os.remove("script.py")
for name in (b"\xff\xfe", b"new\nline", b'quo"te', b"\x1b[31m", b"n" * 255, b"-rf", b"a b%2F"):
    open(name, "wb").write(name)
`)
		names, err := s.files(pageA, sb.id, false)
		if err != nil || len(names) != 7 {
			t.Fatalf("files = %q, %v", names, err)
		}
		for _, name := range names {
			if got, err := s.read(pageA, sb.id, name); err != nil || string(got) != name {
				t.Errorf("read(%q) = %q, %v", name, got, err)
			}
		}
		odd := encodedNames(names)
		if len(odd) != 1 || odd[0].Name != "\ufffd\ufffd" || odd[0].URLPath != "%FF%FE" {
			t.Errorf("encoded names = %+v", odd)
		}
	})
}

func TestQuotaHoldsForFilesAndLetsOneTidyUp(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, func(cfg *sandboxConfig) { cfg.workspaceQuota = 20 << 20 })
		sb := mustCreate(t, s, sandboxOrder{})
		data := make([]byte, 8<<20)
		for range 5 { // the same one again takes nothing
			if err := s.write(pageA, sb.id, "a", data); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() { _ = s.write(pageA, sb.id, fmt.Sprintf("b%d", i), data) })
		}
		wg.Wait()
		if size, err := measureTree(s.keys, filepath.Join(s.dir, sb.id, workspaceFolder), treeDepth, nil); err != nil || size.bytes > 20<<20 {
			t.Errorf("workspace = %v, %v, want at most the quota", size, err)
		}
		if err := s.write(pageA, sb.id, "c", data); !isKind(err, kindFull) {
			t.Errorf("write = %v, want full", err)
		}
		// Above its quota a workspace may only shrink.
		put(t, filepath.Join(s.dir, sb.id, workspaceFolder, "more"), strings.Repeat("x", 10<<20))
		got := mustExec(t, s, sb.id, "sh", "-c", "trap '' XFSZ; echo x > more2 2>/dev/null || echo REFUSED; rm -f a more*; ls a more 2>/dev/null")
		if got.stdout != "REFUSED\n" || got.limit != "" {
			t.Errorf("exec = %+v, want a refusal to write and then room", got)
		}
		if err := s.write(pageA, sb.id, "c", data[:1<<20]); err != nil {
			t.Errorf("write after tidying up = %v", err)
		}
	})
}

func TestALockedWorkspaceIsOpenedAgain(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, func(cfg *sandboxConfig) { cfg.keep = 0 })
		sb := mustCreate(t, s, sandboxOrder{})
		got := mustExec(t, s, sb.id, "sh", "-c", "mkdir -p a/b/c /tmp/x; touch a/b/c/d /tmp/x/y; chmod 000 a/b/c a/b a /tmp/x /tmp /dev/shm /workspace; true")
		if got.status != 0 {
			t.Fatal(got.stderr)
		}
		if err := s.write(pageA, sb.id, "after", []byte("x")); err != nil {
			t.Error(err)
		}
		if names, err := s.files(pageA, sb.id, true); err != nil || !slices.Equal(names, []string{"a/", "a/b/", "a/b/c/", "a/b/c/d", "after"}) {
			t.Errorf("files = %q, %v", names, err)
		}
		if got := mustExec(t, s, sb.id, "sh", "-c", "ls; touch /tmp/z /dev/shm/z; stat -c %a a"); got.stdout != "a\nafter\n0\n" {
			t.Errorf("exec = %+v", got)
		}
		if err := s.delete(pageA, sb.id); err != nil {
			t.Fatal(err)
		}
		s.reapOnce()
		if _, err := os.Stat(filepath.Join(s.dir, sb.id)); !os.IsNotExist(err) {
			t.Errorf("the folder stays: %v", err)
		}
	})
}

// FuzzPathsStayInside checks that no path reaches or changes anything outside.
func FuzzPathsStayInside(f *testing.F) {
	for _, seed := range []string{"a", "../a", "a/../../b", "/etc/passwd", "link", "link/x", "dir/x", "a/./b", "a//b", "..", ".", "", "a\x00", `..\x`, "up/..", "\xff", "a/..", "dir/../x", "link/", "a/b/c/d/"} {
		f.Add(seed)
	}
	w := testWorkspace(f)
	outside := filepath.Join(filepath.Dir(w.dir), "outside")
	put(f, filepath.Join(outside, "x"), "secret")
	f.Fuzz(func(t *testing.T, name string) {
		for link, target := range map[string]string{"link": "../outside/x", "dir": "../outside", "up": ".."} {
			_ = os.Remove(filepath.Join(w.dir, link))
			_ = os.Symlink(target, filepath.Join(w.dir, link))
		}
		if data, err := w.read(name); err == nil && string(data) == "secret" {
			t.Errorf("read(%q) reached outside", name)
		}
		content := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
		if err := w.write(name, []byte(content)); err == nil {
			if got, err := w.read(name); err != nil || string(got) != content {
				t.Errorf("read(%q) = %q, %v, want what was written", name, got, err)
			}
		} else if kindOf(err) == kindInternal {
			t.Errorf("write(%q) = %v, want a problem", name, err)
		}
		if entries, _ := os.ReadDir(filepath.Dir(w.dir)); len(entries) != 2 {
			t.Errorf("write(%q) made %v", name, entries)
		}
		if got, _ := os.ReadFile(filepath.Join(outside, "x")); string(got) != "secret" {
			t.Errorf("write(%q) reached outside", name)
		}
	})
}

// What the runtime itself counts while a command runs must be no more than what
// it counted before, or the first look ends a command that only deletes.
func TestAFullWorkspaceGivesTimeToTidyUp(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, func(cfg *sandboxConfig) { cfg.workspaceQuota = 1 << 20 })
		sb := mustCreate(t, s, sandboxOrder{})
		mustExec(t, s, sb.id, "python3", "-c", "import os\nfor _ in range(100): os.mkdir('d'); os.chdir('d')")
		put(t, filepath.Join(s.dir, sb.id, workspaceFolder, "more"), strings.Repeat("x", 2<<20))
		for _, rubbish := range []string{"d", "more"} { // too deep and too large, then too large
			got := mustExec(t, s, sb.id, "sh", "-c", "sleep 0.5; rm -r "+rubbish+"; sleep 0.2; echo done")
			if got.stdout != "done\n" || got.limit != "" {
				t.Errorf("exec = %+v, want it to end by itself", got)
			}
		}
	})
}

// Folders on the way and whole blocks were not counted, so that many small
// files passed the quota.
func TestWritesCountAllTheyMake(t *testing.T) {
	s := testSandboxes(t, func(cfg *sandboxConfig) { cfg.workspaceQuota = 1 << 20 })
	sb := mustCreate(t, s, sandboxOrder{})
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		err = s.write(pageA, sb.id, fmt.Sprintf("%d/a/b/c/d/e/f", i), []byte("x"))
	}
	if !isKind(err, kindFull) {
		t.Errorf("write = %v, want full", err)
	}
	if size, err := measureTree(s.keys, filepath.Join(s.dir, sb.id, workspaceFolder), treeDepth, nil); err != nil || !size.within(s.quota()) {
		t.Errorf("workspace = %v, %v, want at most the quota", size, err)
	}
}

func TestWriteMakesNoMoreLevelsThanAWorkspaceMayHave(t *testing.T) {
	w := testWorkspace(t)
	if err := w.write(strings.Repeat("d/", treeDepth)+"f", nil); !isKind(err, kindInvalid) {
		t.Errorf("write = %v, want a refusal", err)
	}
	if err := w.write(strings.Repeat("d/", treeDepth-1)+"f", nil); err != nil {
		t.Error(err)
	}
	if names, err := w.list(true); err != nil || len(names) != treeDepth {
		t.Errorf("list = %d names, %v, want %d", len(names), err, treeDepth)
	}
}

// Each walk locked the folders again that it had unlocked, under the feet of
// others, and took what others had unlocked for their own mode.
func TestWalksShareLockedFolders(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		mustExec(t, s, sb.id, "sh", "-c", "for i in $(seq 60); do mkdir -p k/$i; touch k/$i/f; chmod 0 k/$i/f; done; chmod 0 k/* k")
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				for range 5 {
					if names, err := s.files(pageA, sb.id, true); err != nil || len(names) != 121 {
						t.Errorf("files = %d names, %v", len(names), err)
					}
				}
			})
		}
		shot, err := s.snapshot(t.Context(), pageA, sb.id)
		if err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		for _, dir := range []string{s.workspace(s.byID[sb.id]).dir, shot.path} {
			if got := lockedItems(t, dir); got != 121 {
				t.Errorf("%s has %d locked folders and files, want 121", dir, got)
			}
		}
	})
}

// lockedItems counts what has no permissions at all in a tree.
func lockedItems(t *testing.T, dir string) int {
	t.Helper()
	locked := 0
	root, err := openTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	err = walkItems(nil, root, treeDepth, func(e treeItem) error {
		if e.info.Mode().Perm() == 0 {
			locked++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return locked
}

// A folder that became a link while it was listed was an internal error.
func TestListWhileFoldersBecomeLinks(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		s := testSandboxes(t, nil)
		sb := mustCreate(t, s, sandboxOrder{})
		var wg sync.WaitGroup
		wg.Go(func() {
			mustExec(t, s, sb.id, "python3", "-c", `
import ctypes, os, time
c = ctypes.CDLL(None)
os.mkdir("d"); os.mkdir("e"); os.symlink("../..", "l"); os.symlink("e", "m")
end = time.time() + 2
while time.time() < end:
    for other in b"l", b"m":
        c.renameat2(-100, b"d", -100, other, 2)
        c.renameat2(-100, b"d", -100, other, 2)
    os.chmod("e", 0); os.chmod("e", 0o700)
`)
		})
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			if _, err := s.files(pageA, sb.id, true); err != nil && !isKind(err, kindConflict) {
				t.Fatalf("files = %v, want a list or a conflict", err)
			}
		}
		wg.Wait()
	})
}

// Long names in deep folders made an answer of gigabytes.
func TestListsAreBounded(t *testing.T) {
	w := testWorkspace(t)
	dir := w.dir
	for range 20 {
		dir = filepath.Join(dir, strings.Repeat("n", 200))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for i := range 2500 {
		if err := root.WriteFile(fmt.Sprint(i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := w.list(true); !isKind(err, kindTooLarge) {
		t.Errorf("list = %d names, %v, want a refusal", len(names), err)
	}
	if names, err := w.list(false); err != nil || len(names) != 1 {
		t.Errorf("list of the top = %d names, %v", len(names), err)
	}
}
