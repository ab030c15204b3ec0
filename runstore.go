package main

// The folder of runs: one file per run, a line of JSON and then the output
// that was kept. Files are replaced whole but not synced: after a power loss
// the history may lack its end, and a torn file is dropped.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	runSuffix  = ".run"
	tempSuffix = ".tmp"

	// recordMost is the length in bytes of the longest first line. The
	// longest part of one, the principal, was in a request's header.
	recordMost = 64 << 10

	// firstMost is more characters than any run writes.
	firstMost = 1 << 53
)

// errDamagedRun says that a run's file is not whole, or not one of ours.
var errDamagedRun = errors.New("a run's file is damaged")

// runRecord is what is known of a run besides its output.
type runRecord struct {
	ID        string    `json:"run_id"`
	Principal principal `json:"principal"`
	LabID     string    `json:"lab_id"`
	Commit    string    `json:"commit"`
	Action    string    `json:"action"`
	Status    runStatus `json:"status"`
	ExitCode  *int      `json:"exit_code"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	First     int       `json:"first"` // offset of the first character of the output in the file
}

// runStore keeps runs on disk. Its methods may be called at the same time for
// different runs.
type runStore struct{ dir string }

func openRunStore(dir string) (runStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return runStore{}, fmt.Errorf("open the folder of runs: %w", err)
	}
	return runStore{dir: dir}, nil
}

func (s runStore) path(id string) string { return filepath.Join(s.dir, id+runSuffix) }

// save replaces a run's file by its record and the parts of its output.
func (s runStore) save(record runRecord, output [][]byte) error {
	temp := s.path(record.ID) + tempSuffix
	err := writeRun(temp, record, output)
	if err == nil {
		err = os.Rename(temp, s.path(record.ID))
	}
	if err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("save run %s: %w", record.ID, err)
	}
	return nil
}

func writeRun(path string, record runRecord, output [][]byte) (err error) {
	head, err := json.Marshal(record)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(append(head, '\n')); err != nil {
		return err
	}
	for _, part := range output {
		if _, err := file.Write(part); err != nil {
			return err
		}
	}
	return nil
}

func (s runStore) load(id string) (runRecord, []byte, error) {
	data, err := os.ReadFile(s.path(id))
	if err != nil {
		return runRecord{}, nil, err
	}
	return parseRun(data)
}

func (s runStore) remove(id string) { _ = os.Remove(s.path(id)) }

// parseRun reads a run's file.
func parseRun(data []byte) (runRecord, []byte, error) {
	head, text, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return runRecord{}, nil, fmt.Errorf("%w: its first line has no end", errDamagedRun)
	}
	record, err := parseRunRecord(head)
	return record, text, err
}

func parseRunRecord(line []byte) (runRecord, error) {
	var record runRecord
	if err := json.Unmarshal(line, &record); err != nil {
		return runRecord{}, fmt.Errorf("%w: %w", errDamagedRun, err)
	}
	known := slices.Contains(runStatuses, record.Status)
	named := record.ID != "" && record.Principal != "" && record.LabID != ""
	if !known || !named || record.StartedAt.IsZero() || record.First < 0 || record.First > firstMost {
		return runRecord{}, fmt.Errorf("%w: its first line lacks members", errDamagedRun)
	}
	return record, nil
}

// list returns the records of all runs, oldest first. Files that are not
// whole are removed.
func (s runStore) list() ([]runRecord, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var records []runRecord
	for _, entry := range entries {
		id, isRun := strings.CutSuffix(entry.Name(), runSuffix)
		switch {
		case !entry.Type().IsRegular():
			continue
		case strings.HasSuffix(entry.Name(), tempSuffix):
			_ = os.Remove(filepath.Join(s.dir, entry.Name()))
		case isRun:
			record, err := s.readRecord(id)
			if errors.Is(err, errDamagedRun) {
				s.remove(id)
			}
			if err == nil {
				records = append(records, record)
			}
		}
	}
	slices.SortStableFunc(records, func(a, b runRecord) int { return a.StartedAt.Compare(b.StartedAt) })
	return records, nil
}

// readRecord reads the first line of a run's file.
func (s runStore) readRecord(id string) (runRecord, error) {
	file, err := os.Open(s.path(id))
	if err != nil {
		return runRecord{}, err
	}
	defer file.Close()
	line, err := bufio.NewReaderSize(file, recordMost).ReadSlice('\n')
	if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
		return runRecord{}, fmt.Errorf("%w: its first line has no end", errDamagedRun)
	}
	if err != nil {
		return runRecord{}, err
	}
	record, err := parseRunRecord(line)
	if err == nil && record.ID != id {
		err = fmt.Errorf("%w: it is that of run %.40q", errDamagedRun, record.ID)
	}
	return record, err
}
