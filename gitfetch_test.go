package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const testManifest = "schema = 1\nid = \"hello\"\ntitle = \"Hello\"\n"

// newTestFetcher returns a fetcher of a user with an empty home who trusts the
// server's certificate. It does not wait between tries.
func newTestFetcher(t *testing.T, s *gitServer, environ ...string) *fetcher {
	t.Helper()
	base := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_SSL_CAINFO=" + s.caFile}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	named := func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	}
	f := newFetcher(newProcesses(), append(slices.DeleteFunc(base, named), environ...), log)
	f.pauses = []time.Duration{time.Millisecond, time.Millisecond}
	return f
}

func testSource(t *testing.T, repo, commit string) source {
	t.Helper()
	src, err := parseSource(repo, commit)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// newDst is where a test's checkout goes: the folder of the labs, and within
// it a place for one commit.
func newDst(t *testing.T) (labs, dst string) {
	t.Helper()
	labs = filepath.Join(t.TempDir(), "labs")
	return labs, filepath.Join(labs, "lab-01234567", "0123456789ab")
}

// mustFetch fetches and reads a commit, which must come out as it is.
func mustFetch(t *testing.T, f *fetcher, src source, dst string) *commitTree {
	t.Helper()
	if err := f.fetch(t.Context(), src, dst); err != nil {
		t.Fatalf("fetch = %v", err)
	}
	tree, err := f.read(t.Context(), dst, src)
	if err != nil {
		t.Fatalf("read = %v", err)
	}
	if modified := tree.modified(dst); len(modified) > 0 {
		t.Errorf("modified after the fetch = %q, want none", modified)
	}
	return tree
}

// wantFailure fetches, which must fail with a problem of this kind, and must
// leave nothing in the labs folder. It returns the sentence told.
func wantFailure(t *testing.T, f *fetcher, src source, k kind) string {
	t.Helper()
	labs, dst := newDst(t)
	err := f.fetch(t.Context(), src, dst)
	p, ok := errors.AsType[*problem](err)
	if !ok || p.kind != k {
		t.Fatalf("fetch = %v, want a problem of kind %d", err, k)
	}
	wantNothingLeft(t, labs)
	t.Log(p.detail)
	return p.detail
}

func wantNothingLeft(t *testing.T, labs string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(labs, "*", "*"))
	hidden, err2 := filepath.Glob(filepath.Join(labs, "*", ".*"))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if left = append(left, hidden...); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func wantWords(t *testing.T, told string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(told, word) {
			t.Errorf("told %q, want it to hold %q", told, word)
		}
	}
}

// writeFile makes a file and the folders that it needs. While it is open no
// child is started, which would hold it open too, so that a program can be run
// at once.
func writeFile(t *testing.T, path, data string, mode fs.FileMode) string {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFetchChecksOutExactlyTheCommit(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, first := s.addRepo("lab.git", map[string]string{"lab.toml": testManifest, "old.txt": "old\n"})
	s.commit("lab.git", map[string]string{"lab.toml": testManifest + "#", "new.txt": "new\n"})
	f := newTestFetcher(t, s)
	_, dst := newDst(t)
	tree := mustFetch(t, f, testSource(t, url, first), dst)
	if string(tree.manifest) != testManifest {
		t.Errorf("manifest = %q, want %q", tree.manifest, testManifest)
	}
	if len(tree.files) != 2 || tree.files[1].path != "old.txt" || len(tree.notices) != 0 {
		t.Errorf("files = %v, notices = %q; want lab.toml and old.txt and none", tree.files, tree.notices)
	}
	if _, err := os.Lstat(filepath.Join(dst, "new.txt")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of another commit is there: %v", err)
	}
	entries, _ := os.ReadDir(filepath.Dir(dst))
	if len(entries) != 1 {
		t.Errorf("beside the checkout: %v, want nothing", entries)
	}
	if err := f.fetch(t.Context(), testSource(t, url, first), dst); !errors.Is(err, fs.ErrExist) {
		t.Errorf("fetch into what exists = %v, want %v", err, fs.ErrExist)
	}
}

func TestFetchOfACopyThatIsThereNeedsNoNetwork(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	f := newTestFetcher(t, s)
	_, dst := newDst(t)
	src := testSource(t, url, commit)
	mustFetch(t, f, src, dst)
	s.close()
	if tree, err := f.read(t.Context(), dst, src); err != nil || string(tree.manifest) != testManifest {
		t.Errorf("read without the server = %v", err)
	}
}

func TestInnerCommitFromAnOldHostHasItsOwnSentence(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, first := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	tip := s.commit("lab", map[string]string{"lab.toml": testManifest, "b": "b"})
	s.wrap(oldProtocol)
	f := newTestFetcher(t, s)
	wantWords(t, wantFailure(t, f, testSource(t, url, first), kindUnreachable), "branch or a tag", first)
	_, dst := newDst(t)
	mustFetch(t, f, testSource(t, url, tip), dst)
}

// hostileConfig is a user's settings of which each would change what a fetch
// does. HOME, PROGRAM and URL stand for values.
const hostileConfig = `[core]
	hooksPath = HOME/hooks
	fsmonitor = PROGRAM
	sshCommand = PROGRAM
	askPass = PROGRAM
	pager = PROGRAM
	editor = PROGRAM
	autocrlf = true
	eol = crlf
	attributesFile = HOME/attributes
[init]
	templateDir = HOME/template
	defaultObjectFormat = sha256
[extensions]
	objectFormat = sha256
[credential]
	helper = !PROGRAM
[url "ssh://git@evil.example.test/"]
	insteadOf = URL/
[filter "lfs"]
	required = true
	smudge = HOME/missing smudge
	process = HOME/missing process
[protocol]
	version = 0
[http]
	extraHeader = "X-Secret: 1"
	followRedirects = true
[fetch]
	fsckObjects = true
	recurseSubmodules = true
[submodule]
	recurse = true
[alias]
	fetch = !PROGRAM
	checkout = !PROGRAM
[pager]
	fetch = PROGRAM
	init = PROGRAM
`

// hostileHome makes a home whose settings, hooks and template run a program
// that leaves a marker and fails.
func hostileHome(t *testing.T, url string) (home, program, marker string) {
	t.Helper()
	home = t.TempDir()
	marker = filepath.Join(home, "marker")
	program = writeFile(t, filepath.Join(home, "program"), "#!/bin/sh\necho \"$0 $*\" >> "+marker+"\nexit 1\n", 0o700)
	for _, hook := range []string{"hooks", "template/hooks"} {
		for _, name := range []string{"post-checkout", "post-index-change", "reference-transaction", "fsmonitor-watchman"} {
			writeFile(t, filepath.Join(home, hook, name), "#!/bin/sh\necho hook >> "+marker+"\nexit 1\n", 0o700)
		}
	}
	writeFile(t, filepath.Join(home, ".netrc"), "machine 127.0.0.1 login me password secret\n", 0o600)
	writeFile(t, filepath.Join(home, ".gitconfig"), strings.NewReplacer("HOME", home, "PROGRAM", program, "URL", url).Replace(hostileConfig), 0o600)
	return home, program, marker
}

func TestHostileSettingsOfTheUserHaveNoSay(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, _ := s.addRepo("lab", nil)
	commit := s.commitFiles("lab", []gitServerFile{
		{path: ".gitattributes", data: "*.bin filter=lfs diff=lfs merge=lfs -text\n*.sh text eol=crlf\n*.u16 working-tree-encoding=UTF-16 text\n*.id ident\n"},
		{path: "lab.toml", data: testManifest},
		{path: "run.sh", mode: "100755", data: "#!/bin/sh\nexit 0\n"},
		{path: "a.id", data: "$Id$\n"},
		{path: "a.u16", data: "text\n"},
		{path: "crlf.txt", data: "a\r\nb\n"},
		{path: "big.bin", data: pointerStart + "v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"},
		{path: "sub/small.bin", data: "not a pointer, though it is as long as one: " + strings.Repeat("x", 100)},
		{path: "link", mode: "120000", data: "run.sh"},
	})
	home, program, marker := hostileHome(t, s.url)
	config := filepath.Join(home, ".gitconfig")
	before, _ := os.ReadFile(config)
	var secret sync.Map
	s.wrap(func(git http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, name := range []string{"Authorization", "X-Secret"} {
				if r.Header.Get(name) != "" {
					secret.Store(name, true)
				}
			}
			git.ServeHTTP(w, r)
		})
	})
	f := newTestFetcher(t, s,
		"HOME="+home, "XDG_CONFIG_HOME="+home, "GIT_DIR="+home, "GIT_WORK_TREE="+home, "GIT_INDEX_FILE="+marker,
		"GIT_OBJECT_DIRECTORY="+home, "GIT_SSH_COMMAND="+program, "GIT_ASKPASS="+program, "SSH_ASKPASS="+program,
		"GIT_DEFAULT_HASH=sha256", "GIT_TEMPLATE_DIR="+home+"/template", "GIT_EXTERNAL_DIFF="+program,
		"GIT_PROXY_COMMAND="+program, "GIT_EXEC_PATH="+home, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.hooksPath",
		"GIT_CONFIG_VALUE_0="+home+"/hooks", "GIT_CONFIG_PARAMETERS='core.fsmonitor="+program+"'", "GIT_TRACE="+marker,
		"GIT_NAMESPACE=x", "GIT_CEILING_DIRECTORIES=/", "GIT_ALLOW_PROTOCOL=ssh:ext", "GIT_PAGER="+program)
	_, dst := newDst(t)
	tree := mustFetch(t, f, testSource(t, url, commit), dst)
	if data, err := os.ReadFile(marker); err == nil {
		t.Errorf("something of the user ran: %s", data)
	}
	if after, _ := os.ReadFile(config); string(after) != string(before) {
		t.Error("the user's settings were changed")
	}
	secret.Range(func(name, _ any) bool { t.Errorf("the header %v reached the host", name); return true })
	wantWords(t, strings.Join(tree.notices, "|"), "1 file of this lab is only a Git LFS pointer")
	for name, want := range map[string]string{"run.sh": "#!/bin/sh\nexit 0\n", "a.id": "$Id$\n", "a.u16": "text\n", "crlf.txt": "a\r\nb\n"} {
		if got, err := os.ReadFile(filepath.Join(dst, name)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestNothingIsAskedOfAHostThatWantsAPassword(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	var sent sync.Map
	s.wrap(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if value := r.Header.Get("Authorization"); value != "" {
				sent.Store(value, true)
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
		})
	})
	home := t.TempDir()
	marker := filepath.Join(home, "marker")
	program := writeFile(t, filepath.Join(home, "ask"), "#!/bin/sh\ntouch "+marker+"\necho password=x\n", 0o700)
	writeFile(t, filepath.Join(home, ".netrc"), "machine 127.0.0.1 login me password secret\ndefault login me password secret\n", 0o600)
	writeFile(t, filepath.Join(home, ".gitconfig"), "[credential]\n\thelper = "+program+"\n[core]\n\taskPass = "+program+"\n", 0o600)
	writeFile(t, filepath.Join(home, ".git-credentials"), strings.Replace(url, "https://", "https://me:secret@", 1)+"\n", 0o600)
	f := newTestFetcher(t, s, "HOME="+home, "GIT_ASKPASS="+program, "SSH_ASKPASS="+program, "DISPLAY=:0")
	wantWords(t, wantFailure(t, f, testSource(t, url, commit), kindUnreachable), "1 try", "not open to everyone")
	if _, err := os.Lstat(marker); err == nil {
		t.Error("a program was asked for a password")
	}
	sent.Range(func(value, _ any) bool { t.Errorf("sent %q to the host", value); return true })
}

func TestIDThatIsNotACommitIsRefused(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	s.git("lab", nil, "tag", "-a", "-m", "x", "v1", commit)
	f := newTestFetcher(t, s)
	for name, revision := range map[string]string{"tag": "refs/tags/v1", "tree": commit + "^{tree}", "blob": commit + ":lab.toml"} {
		id := strings.TrimSpace(s.git("lab", nil, "rev-parse", revision))
		told := wantFailure(t, f, testSource(t, url, id), kindUnacceptable)
		wantWords(t, told, "id of a "+name)
	}
}

func TestUnknownCommitIsToldInGitsWords(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, _ := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	unknown := strings.Repeat("12345678", 5)
	before := s.requests.Load()
	told := wantFailure(t, newTestFetcher(t, s), testSource(t, url, unknown), kindUnreachable)
	wantWords(t, told, "has no commit "+unknown, "not our ref", "1 try")
	if n := s.requests.Load() - before; n > 3 {
		t.Errorf("%d requests for what another try cannot change, want one try's", n)
	}
}

func TestMissingRepositoryIsToldInGitsWords(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	src := testSource(t, s.url+"/none", strings.Repeat("a", 40))
	wantWords(t, wantFailure(t, newTestFetcher(t, s), src, kindUnreachable), "not found", "1 try", s.url)
}

func TestUntrustedCertificateIsRefused(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	other := newGitServer(t)
	home := t.TempDir()
	writeFile(t, filepath.Join(home, ".gitconfig"), "[http]\n\tsslVerify = false\n", 0o600)
	f := newTestFetcher(t, other, "HOME="+home)
	wantWords(t, wantFailure(t, f, testSource(t, url, commit), kindUnreachable), "certificate", "1 try")
}

func TestRedirectIsNotFollowedButNamed(t *testing.T) {
	t.Parallel()
	s, other := newGitServer(t), newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	otherURL, _ := other.addRepo("moved/lab", map[string]string{"lab.toml": testManifest})
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		s.wrap(func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, otherURL+"/info/refs?service=git-upload-pack", status)
			})
		})
		told := wantFailure(t, newTestFetcher(t, s), testSource(t, url, commit), kindUnreachable)
		wantWords(t, told, "redirects to "+otherURL+",")
	}
	if n := other.requests.Load(); n != 0 {
		t.Errorf("%d requests reached where the redirect points, want none", n)
	}
}

func TestCutTransferIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	files := map[string]string{"lab.toml": testManifest, "noise": noise(64 << 10)}
	url, commit := s.addRepo("lab", files)
	f := newTestFetcher(t, s)
	s.wrap(cutPack(1, 2000))
	_, dst := newDst(t)
	mustFetch(t, f, testSource(t, url, commit), dst)
	s.wrap(cutPack(3, 2000))
	wantWords(t, wantFailure(t, f, testSource(t, url, commit), kindUnreachable), "3 tries")
}

func TestFailingHostIsTriedThreeTimes(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	for status, tries := range map[int]string{500: "3 tries", 503: "3 tries", 429: "3 tries", 403: "1 try"} {
		s.wrap(func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", status) })
		})
		wantWords(t, wantFailure(t, newTestFetcher(t, s), testSource(t, url, commit), kindUnreachable), tries)
	}
	s.close()
	wantWords(t, wantFailure(t, newTestFetcher(t, s), testSource(t, url, commit), kindUnreachable), "3 tries")
}

func TestStalledHostIsTooSlow(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	s.wrap(stalled)
	f := newTestFetcher(t, s)
	f.limit = time.Second
	wantFailure(t, f, testSource(t, url, commit), kindTooSlow)
	if left := processesWith(t, url); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
}

func TestCallerThatLeavesEndsTheFetch(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	ctx, cancel := context.WithCancel(t.Context())
	s.wrap(func(git http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cancel()
			stalled(git).ServeHTTP(w, r)
		})
	})
	labs, dst := newDst(t)
	if err := newTestFetcher(t, s).fetch(ctx, testSource(t, url, commit), dst); !errors.Is(err, context.Canceled) {
		t.Errorf("fetch = %v, want %v", err, context.Canceled)
	}
	wantNothingLeft(t, labs)
}

// processesWith returns the command lines of running processes that hold text.
func processesWith(t *testing.T, text string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range lines {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), text) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// noise does not get smaller when it is compressed.
func noise(size int) string {
	data := make([]byte, size)
	state := uint32(1)
	for i := range data {
		state = state*1664525 + 1013904223
		data[i] = byte(state >> 24)
	}
	return string(data)
}

func TestFullDiskIsToldAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest})
	for _, command := range []string{"fetch", "checkout"} {
		script := `case " $* " in *" ` + command + ` "*) echo "fatal: write error: No space left on device" >&2; exit 128;; esac`
		f := newTestFetcher(t, s, "PATH="+gitWrapper(t, script))
		wantWords(t, wantFailure(t, f, testSource(t, url, commit), kindFull), "not enough room")
	}
}

func TestSweepRemovesWhatKilledFetchesLeft(t *testing.T) {
	t.Parallel()
	labs := filepath.Join(t.TempDir(), "labs")
	if err := sweepFetches(labs); err != nil {
		t.Errorf("sweep without a folder = %v", err)
	}
	kept := writeFile(t, filepath.Join(labs, "lab-1", "0123456789ab", "lab.toml"), "x", 0o600)
	writeFile(t, filepath.Join(labs, "lab-1", ".fetch-A", "lab", ".git", "shallow.lock"), "x", 0o400)
	writeFile(t, filepath.Join(labs, "lab-2", ".fetch-B", "home", ".gitconfig"), "x", 0o600)
	file := writeFile(t, filepath.Join(labs, "approvals.json"), "{}", 0o600)
	if err := sweepFetches(labs); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{kept, file} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("swept away: %v", err)
		}
	}
	for _, path := range []string{filepath.Join(labs, "lab-1", ".fetch-A"), filepath.Join(labs, "lab-2")} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
}

func TestPathsThatDifferInCaseAreListedOnADiskThatFoldsIt(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, commit := s.addRepo("lab", map[string]string{"lab.toml": testManifest, "LAB.toml": "x", "Data/a": "1", "data/a": "2", "Data/b": "3"})
	f := newTestFetcher(t, s)
	_, dst := newDst(t)
	if tree := mustFetch(t, f, testSource(t, url, commit), dst); string(tree.manifest) != testManifest {
		t.Errorf("manifest = %q, want that of lab.toml", tree.manifest)
	}
	f.foldsCase = func(string) bool { return true }
	told := wantFailure(t, f, testSource(t, url, commit), kindUnacceptable)
	wantWords(t, told, `"Data/a" and "data/a"`, `"LAB.toml" and "lab.toml"`)
}

func TestSubmodulesAndTagsAreNotFetched(t *testing.T) {
	t.Parallel()
	s := newGitServer(t)
	url, other := s.addRepo("lab", map[string]string{"x": "x"})
	commit := s.commitFiles("lab", []gitServerFile{
		{path: "lab.toml", data: testManifest},
		{path: ".gitmodules", data: "[submodule \"sub\"]\n\tpath = sub\n\turl = " + url + "\n"},
		{path: "sub", mode: "160000", data: other},
	})
	s.git("lab", nil, "tag", "v1", other)
	_, dst := newDst(t)
	tree := mustFetch(t, newTestFetcher(t, s), testSource(t, url, commit), dst)
	wantWords(t, strings.Join(tree.notices, "|"), "1 submodule")
	if entries, err := os.ReadDir(filepath.Join(dst, "sub")); err == nil && len(entries) > 0 {
		t.Errorf("the submodule holds %v", entries)
	}
	if refs := searchTree(t, filepath.Join(dst, ".git"), "refs/tags/v1"); len(refs) > 0 {
		t.Errorf("a tag was fetched: %q", refs)
	}
}
