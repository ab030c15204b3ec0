package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const testSite = "https://course.example.org"

func testHash(c string) string { return strings.Repeat(c, 64) }

func testPairing(c string) pairing {
	return pairing{TokenHash: testHash(c), Scope: scopeActions, PairedAt: time.Date(2026, 9, 19, 5, 0, 0, 0, time.UTC)}
}

// logBuffer collects what is logged.
type logBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newTestState(t *testing.T, dir string) (*stateStore, *logBuffer) {
	t.Helper()
	logged := &logBuffer{}
	s, err := openState(dir, slog.New(slog.NewTextHandler(logged, nil)))
	if err != nil {
		t.Fatalf("openState: %v", err)
	}
	return s, logged
}

func pairTestSite(t *testing.T, s *stateStore, p pairing) {
	t.Helper()
	err := s.update(func(d *stateData) error {
		d.Pairings[testSite] = p
		return nil
	})
	if err != nil {
		t.Fatalf("update: %v", err)
	}
}

func mustCurrent(t *testing.T, s *stateStore) *stateData {
	t.Helper()
	data, err := s.current()
	if err != nil {
		t.Fatalf("current: %v", err)
	}
	return data
}

func writeTestFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func grants(d *stateData) int {
	return len(d.Pairings) + len(d.Clients) + len(d.Approvals) + len(d.Learners)
}

func TestStateLastsAndIsSeenByOtherStores(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	runtime, _ := newTestState(t, dir)
	cli, _ := newTestState(t, dir)
	for _, c := range []string{"a", "b", "c"} { // the file keeps its size
		pairTestSite(t, cli, testPairing(c))
		if got := mustCurrent(t, runtime).Pairings[testSite]; got != testPairing(c) {
			t.Fatalf("pairing = %+v, want %+v", got, testPairing(c))
		}
	}
	err := cli.update(func(d *stateData) error {
		delete(d.Pairings, testSite)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := grants(mustCurrent(t, runtime)); got != 0 {
		t.Errorf("after the revocation %d grants are left, want 0", got)
	}
}

func TestRemovedStateFileGrantsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := newTestState(t, dir)
	pairTestSite(t, s, testPairing("a"))
	before := mustCurrent(t, s)
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil {
		t.Fatal(err)
	}
	if got := grants(mustCurrent(t, s)); got != 0 {
		t.Errorf("grants = %d, want 0", got)
	}
	if len(before.Pairings) != 1 {
		t.Error("the snapshot given out before has changed")
	}
}

func TestSettledSnapshotIsNotReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := newTestState(t, dir)
	pairTestSite(t, s, testPairing("a"))
	if first := mustCurrent(t, s); first == mustCurrent(t, s) {
		t.Error("a file just written was trusted to differ from the next one by its time")
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(filepath.Join(dir, stateFile), old, old); err != nil {
		t.Fatal(err)
	}
	if first := mustCurrent(t, s); first != mustCurrent(t, s) {
		t.Error("an old file was read twice")
	}
}

func TestDamagedStateIsSetAsideAndGrantsNothing(t *testing.T) {
	t.Parallel()
	whole := func() string {
		d := newStateData()
		d.Pairings[testSite] = testPairing("a")
		content, err := encodeState(d)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}()
	cases := map[string]string{
		"empty":         "",
		"cut":           "{",
		"cut later":     whole[:len(whole)-9],
		"zeros":         strings.Repeat("\x00", 4096),
		"list":          "[]",
		"null":          "null",
		"wrong types":   `{"version":1,"pairings":[]}`,
		"trailing":      whole + "x",
		"twice":         whole + whole,
		"newer version": strings.Replace(whole, `"version": 1`, `"version": 2`, 1),
		"no version":    strings.Replace(whole, `"version": 1`, `"version": 0`, 1),
		"unknown key":   strings.Replace(whole, `"version": 1`, `"version": 1, "only_on_mondays": true`, 1),
		"short hash":    strings.Replace(whole, testHash("a"), "aa", 1),
		"unknown scope": strings.Replace(whole, `"actions"`, `"all"`, 1),
		"null pairing":  `{"version":1,"pairings":{"https://course.example.org":null}}`,
	}
	for name, content := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeTestFile(t, filepath.Join(dir, stateFile), content)
			// Grants of an earlier version must not come back either.
			writeTestFile(t, filepath.Join(dir, "paired_origins.json"), `{"https://course.example.org":{"token_hash":"`+testHash("b")+`"}}`)
			s, logged := newTestState(t, dir)
			if got := grants(mustCurrent(t, s)); got != 0 {
				t.Errorf("grants = %d, want 0", got)
			}
			kept, err := filepath.Glob(filepath.Join(dir, "state.json.damaged-*"))
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept files = %v, %v, want one", kept, err)
			}
			if got, _ := os.ReadFile(kept[0]); string(got) != content {
				t.Errorf("kept file holds %q, want %q", got, content)
			}
			if !strings.Contains(logged.String(), filepath.Base(kept[0])) {
				t.Errorf("log %q does not name %s", logged, kept[0])
			}
			again, logged := newTestState(t, dir)
			if got := grants(mustCurrent(t, again)); got != 0 || logged.String() != "" {
				t.Errorf("next start: %d grants, log %q, want none", got, logged)
			}
		})
	}
}

func TestDamagedStatesOfOneSecondAreAllKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := newTestState(t, dir)
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	s.now = func() time.Time { return noon }
	for _, content := range []string{"one", "two", "three"} {
		writeTestFile(t, filepath.Join(dir, stateFile), content)
		if err := s.update(func(*stateData) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"": "one", "-2": "two", "-3": "three"} {
		got, err := os.ReadFile(filepath.Join(dir, "state.json.damaged-20260504T120000Z"+name))
		if string(got) != want {
			t.Errorf("kept file %q = %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestStateDamagedWhileRunningGrantsNothingUntilMended(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, stateFile)
	s, logged := newTestState(t, dir)
	pairTestSite(t, s, testPairing("a"))
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writeTestFile(t, file, string(whole[:20]))
	for range 3 {
		if got := grants(mustCurrent(t, s)); got != 0 {
			t.Errorf("grants = %d, want 0", got)
		}
	}
	if got := strings.Count(logged.String(), "level=WARN"); got != 1 {
		t.Errorf("the damage was logged %d times, want once: %s", got, logged)
	}
	writeTestFile(t, file, string(whole))
	if got := grants(mustCurrent(t, s)); got != 1 {
		t.Errorf("mended: grants = %d, want 1", got)
	}
}

func TestFailedChangeLeavesFileAndMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := newTestState(t, dir)
	pairTestSite(t, s, testPairing("a"))
	before, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	refuse := errors.New("no")
	changes := map[string]func(d *stateData) error{
		"refused": func(d *stateData) error { clear(d.Pairings); return refuse },
		"invalid": func(d *stateData) error { d.Pairings[testSite] = pairing{}; return nil },
	}
	for name, change := range changes {
		if err := s.update(change); err == nil || name == "refused" && !errors.Is(err, refuse) {
			t.Errorf("%s: update = %v", name, err)
		}
		after, _ := os.ReadFile(filepath.Join(dir, stateFile))
		if !bytes.Equal(before, after) || mustCurrent(t, s).Pairings[testSite] != testPairing("a") {
			t.Errorf("%s: the state has changed", name)
		}
	}
}

func TestGrantsOfAnEarlierVersionAreTakenOverOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	commit := strings.Repeat("c", 40)
	writeTestFile(t, filepath.Join(dir, "paired_origins.json"), `{
		"https://old.example.org": {"paired_at": "2025-03-01T10:00:00+00:00", "token_hash": "`+testHash("a")+`"},
		"https://lab.example.org": {"paired_at": "2025-03-01T10:00:00.123456", "token_hash": "`+testHash("b")+`", "scope": "actions"},
		"https://when.example.org": {"paired_at": 1e300, "token_hash": "`+testHash("e")+`", "scope": null},
		"https://hash.example.org": {"paired_at": "2025-03-01T10:00:00+00:00", "token_hash": "x"},
		"https://scope.example.org": {"token_hash": "`+testHash("d")+`", "scope": "everything"},
		"https://type.example.org": 5,
		"file:///etc": {"token_hash": "`+testHash("d")+`"}}`)
	writeTestFile(t, filepath.Join(dir, "labs", "approvals.json"), `{
		"https://lab.example.org https://git.example.org/lab.git `+commit+`": {"manifest_sha256": "`+testHash("f")+`", "approved_at": 1740823200.5},
		"https://lab.example.org https://git.example.org/lab.git main": {"manifest_sha256": "`+testHash("f")+`", "approved_at": ""}}`)
	s, logged := newTestState(t, dir)
	day := time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC)
	want := newStateData()
	want.Pairings = map[string]pairing{
		"https://old.example.org":  {TokenHash: testHash("a"), Scope: scopeCode, PairedAt: day},
		"https://lab.example.org":  {TokenHash: testHash("b"), Scope: scopeActions, PairedAt: day.Add(123456 * time.Microsecond)},
		"https://when.example.org": {TokenHash: testHash("e"), Scope: scopeCode},
	}
	want.Approvals = map[string]approval{
		approvalKey("https://lab.example.org", "https://git.example.org/lab.git", commit): {ManifestSHA256: testHash("f"), ApprovedAt: day},
	}
	gotText, _ := json.Marshal(mustCurrent(t, s))
	wantText, _ := json.Marshal(want)
	if !bytes.Equal(gotText, wantText) {
		t.Errorf("state = %s\nwant    %s", gotText, wantText)
	}
	if got := strings.Count(logged.String(), "skipped"); got != 5 {
		t.Errorf("%d skipped entries were logged, want 5: %s", got, logged)
	}
	if err := os.Remove(filepath.Join(dir, stateFile)); err != nil {
		t.Fatal(err)
	}
	again, _ := newTestState(t, dir)
	if got := grants(mustCurrent(t, again)); got != 0 {
		t.Errorf("after the person removed the state %d grants came back", got)
	}
}

func TestDamagedFilesOfAnEarlierVersionAreSkipped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTestFile(t, filepath.Join(dir, "paired_origins.json"), "{\x00")
	if err := os.MkdirAll(filepath.Join(dir, "labs", "approvals.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, logged := newTestState(t, dir)
	if got := grants(mustCurrent(t, s)); got != 0 {
		t.Errorf("grants = %d, want 0", got)
	}
	if got := strings.Count(logged.String(), "not taken over"); got != 2 {
		t.Errorf("log names %d files, want 2: %s", got, logged)
	}
}

func TestOnlyTheNewestApprovalKeepsItsActions(t *testing.T) {
	t.Parallel()
	const repo = "https://git.example.org/lab"
	first, second := strings.Repeat("1", 40), strings.Repeat("2", 40)
	steps := approval{ManifestSHA256: testHash("a"), Actions: []action{{Name: "demo", Label: "Demo", Steps: [][]string{{"true"}}, Timeout: 9}}}
	d := newStateData()
	d.approve(testSite, repo, first, steps)
	d.approve(testSite, repo+"2", first, steps)
	d.approve("https://other.example.org", repo, first, steps)
	d.approve(testSite, repo, second, steps)
	for key, want := range map[string]int{
		approvalKey(testSite, repo, first):                    0,
		approvalKey(testSite, repo, second):                   1,
		approvalKey(testSite, repo+"2", first):                1,
		approvalKey("https://other.example.org", repo, first): 1,
	} {
		got, ok := d.Approvals[key]
		if !ok || len(got.Actions) != want {
			t.Errorf("%s keeps %d actions, want %d", key, len(got.Actions), want)
		}
	}
}

func addTestLearner(s *stateStore, id string) error {
	return s.update(func(d *stateData) error {
		d.Learners[id] = learner{AddedAt: time.Now().UTC()}
		return nil
	})
}

func FuzzState(f *testing.F) {
	d := newStateData()
	age := 17
	d.Pairings[testSite] = testPairing("a")
	d.Clients["editor"] = localClient{TokenHash: testHash("b"), Scope: scopeCode}
	d.approve(testSite, "https://git.example.org/lab", strings.Repeat("1", 40), approval{ManifestSHA256: testHash("c"), Actions: []action{{Name: "a"}}})
	d.Learners["ada"] = learner{Age: &age}
	whole, err := encodeState(d)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"version":1,"pairings":{"https://a.example.org":{"token_hash":"` + testHash("a") + `","paired_at":"0000-01-01T00:00:00+23:59"}}}`))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte("[1]"))
	f.Fuzz(func(t *testing.T, content []byte) {
		data, err := decodeState(content)
		if err != nil {
			if data != nil {
				t.Fatal("a refused file granted something")
			}
			return
		}
		again, err := encodeState(data)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		back, err := decodeState(again)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if text, _ := encodeState(back); !bytes.Equal(text, again) {
			t.Fatalf("round trip gives %s, want %s", text, again)
		}
	})
}
