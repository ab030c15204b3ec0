package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func testRecord(id string, minute int) runRecord {
	start := time.Date(2026, 9, 19, 5, minute, 0, 123, time.UTC)
	return runRecord{
		ID: id, Principal: "https://course.example", LabID: "lab", Commit: strings.Repeat("a", 40), Action: "a",
		Status: statusSucceeded, ExitCode: new(0), StartedAt: start, EndedAt: start.Add(time.Second),
	}
}

func testStore(t testing.TB) runStore {
	t.Helper()
	store, err := openRunStore(filepath.Join(t.TempDir(), "runs"))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestRunStoreKeepsRunsAsTheyAre(t *testing.T) {
	t.Parallel()
	store := testStore(t)
	second, first := testRecord("SECOND", 2), testRecord("FIRST", 1)
	second.Status, second.ExitCode, second.EndedAt, second.First = statusRunning, nil, time.Time{}, 7
	for _, record := range []runRecord{second, first} {
		if err := store.save(record, [][]byte{[]byte("line\n"), []byte("\xffé\n")}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.list()
	if err != nil || !reflect.DeepEqual(got, []runRecord{first, second}) {
		t.Errorf("list() = %+v, %v", got, err)
	}
	record, text, err := store.load("SECOND")
	if err != nil || !reflect.DeepEqual(record, second) || string(text) != "line\n\xffé\n" {
		t.Errorf("load = %+v, %q, %v", record, text, err)
	}
	if info, err := os.Stat(store.path("FIRST")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
}

func TestRunStoreDropsWhatIsNotWhole(t *testing.T) {
	t.Parallel()
	store := testStore(t)
	if err := store.save(testRecord("GOOD", 1), nil); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(store.path("GOOD"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"EMPTY": "", "TORN": string(good[:len(good)/2]), "OTHER": string(good), "NOT-JSON": "x\n", "LONG": strings.Repeat(" ", recordMost+1) + string(good),
		"ODD":  strings.Replace(strings.Replace(string(good), "GOOD", "ODD", 1), `"succeeded"`, `"sleeping"`, 1),
		"FAR":  strings.Replace(strings.Replace(string(good), "GOOD", "FAR", 1), `"first":0`, `"first":99999999999999999`, 1),
		"PAST": strings.Replace(strings.Replace(string(good), "GOOD", "PAST", 1), `"first":0`, `"first":-1`, 1),
	} {
		if err := os.WriteFile(store.path(name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	temp, note := store.path("HALF")+tempSuffix, filepath.Join(store.dir, "note.txt")
	for _, path := range []string{temp, note} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder := store.path("FOLDER")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	records, err := store.list()
	if err != nil || len(records) != 1 || records[0].ID != "GOOD" {
		t.Errorf("list() = %+v, %v", records, err)
	}
	left, err := os.ReadDir(store.dir)
	if err != nil || len(left) != 3 {
		t.Errorf("left are %v, %v; want the good run, the folder and the note", left, err)
	}
}

func FuzzParseRun(f *testing.F) {
	f.Add([]byte(`{"run_id":"A","principal":"https://a","lab_id":"l","status":"running","started_at":"2026-09-19T05:00:00Z","first":3}` + "\ntext"))
	f.Add([]byte("\n"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		record, text, err := parseRun(data)
		if err != nil {
			if !errors.Is(err, errDamagedRun) {
				t.Errorf("parseRun(%q) fails with %v, which is no errDamagedRun", data, err)
			}
			return
		}
		store := runStore{dir: t.TempDir()}
		record.ID = "ID"
		if err := store.save(record, [][]byte{text}); err != nil {
			t.Skip(err) // a year that cannot be written
		}
		again, kept, err := store.load("ID")
		if err != nil || string(kept) != string(text) || again.First != record.First || !again.StartedAt.Equal(record.StartedAt) || again.Principal != record.Principal {
			t.Errorf("saved and read again, %+v is %+v, %v", record, again, err)
		}
		w := restoredWindow(1000, record.First, text)
		if parts, next, _ := w.quoted(0); next < record.First || len(parts) > 0 && next == record.First && len(text) == 0 {
			t.Errorf("restored from %d, it ends at %d", record.First, next)
		}
	})
}
