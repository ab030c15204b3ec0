package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Names in a sandbox's folder that are ours alone.
const (
	recordFile = "record.json"
	eventsFile = "events.jsonl"
)

// Prefixes of folders that are not sandboxes: being made, being removed, and
// used for trying whether this machine can isolate.
const (
	newPrefix = ".new-"
	oldPrefix = ".old-"
	tryPrefix = ".try-"
)

// sandboxRecord is what is kept of a sandbox on disk. The file's own time is
// that of the last use.
type sandboxRecord struct {
	ID        string           `json:"id"`
	Principal principal        `json:"principal"` // who made it; nobody else may know of it
	LearnerID string           `json:"learner_id"`
	TaskID    string           `json:"task_id,omitempty"`
	CreatedAt time.Time        `json:"created_at"`
	EndedAt   time.Time        `json:"ended_at,omitzero"` // zero while it is active
	Snapshots []snapshotRecord `json:"snapshots,omitempty"`
}

type snapshotRecord struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	Bytes     int64     `json:"bytes"`
	Entries   int64     `json:"entries"`
}

func (s snapshotRecord) size() treeSize { return treeSize{s.Bytes, s.Entries} }

func (r sandboxRecord) active() bool { return r.EndedAt.IsZero() }

func (r sandboxRecord) write(folder string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeAtomic(filepath.Join(folder, recordFile), append(data, '\n'), 0o600)
}

// readRecords reads the records of all sandboxes in a folder, with the times of
// their last use. What a crash left half made or half removed is cleared away;
// a folder whose record cannot be read is left alone.
func readRecords(folder string, log *slog.Logger) (map[string]sandboxRecord, map[string]time.Time, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, err
	}
	records := make(map[string]sandboxRecord)
	used := make(map[string]time.Time)
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() {
			continue
		}
		if strings.HasPrefix(name, newPrefix) || strings.HasPrefix(name, oldPrefix) {
			if err := removeTree(filepath.Join(folder, name)); err != nil {
				log.Warn("unfinished sandbox stays", "folder", name, "error", err)
			}
			continue
		}
		if strings.HasPrefix(name, ".") {
			continue
		}
		record, at, err := readRecord(filepath.Join(folder, name))
		if err == nil && record.ID != name {
			err = errors.New("the record is another sandbox's")
		}
		if err != nil {
			log.Warn("sandbox without a readable record is left alone", "folder", name, "error", err)
			continue
		}
		records[name], used[name] = record, at
	}
	return records, used, nil
}

func readRecord(folder string) (record sandboxRecord, used time.Time, err error) {
	name := filepath.Join(folder, recordFile)
	info, err := os.Stat(name)
	if err != nil {
		return record, used, err
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return record, used, err
	}
	return record, info.ModTime(), json.Unmarshal(data, &record)
}
