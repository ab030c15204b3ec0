package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// importedSuffix is added to the names of the earlier implementation's files
// once they are taken over. Left where they are, they would bring everything
// back if the person removed the state file to start afresh.
const importedSuffix = ".imported"

// earlierFiles are the two files of the earlier implementation whose data
// folder is dir.
func earlierFiles(dir string) (pairings, approvals string) {
	return filepath.Join(dir, "paired_origins.json"), filepath.Join(dir, "labs", "approvals.json")
}

// earlierGrants returns what the person granted to an earlier implementation.
// What is not valid there is skipped, and log says so.
func earlierGrants(dir string, log *slog.Logger) *stateData {
	pairings, approvals := earlierFiles(dir)
	data := newStateData()
	for origin, entry := range readEarlier(pairings, log) {
		p, err := earlierPairing(origin, entry)
		if err != nil {
			log.Warn("an earlier pairing is not valid and was skipped", "origin", origin, "error", err)
			continue
		}
		data.Pairings[origin] = p
	}
	for key, entry := range readEarlier(approvals, log) {
		a, err := earlierApproval(key, entry)
		if err != nil {
			log.Warn("an earlier approval is not valid and was skipped", "approval", key, "error", err)
			continue
		}
		data.Approvals[key] = a
	}
	return data
}

// retireEarlier renames the files of the earlier implementation.
func retireEarlier(dir string, log *slog.Logger) {
	pairings, approvals := earlierFiles(dir)
	for _, file := range []string{pairings, approvals} {
		if err := os.Rename(file, file+importedSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			log.Warn("a file that was taken over keeps its name", "file", file, "error", err)
		}
	}
}

// readEarlier returns the entries of a file of the earlier implementation;
// none when there is no such file or it is damaged, which log tells.
func readEarlier(path string, log *slog.Logger) map[string]json.RawMessage {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	var entries map[string]json.RawMessage
	if err == nil {
		entries, err = readEntries(path)
	}
	if err != nil {
		log.Warn("a file of an earlier version cannot be read: what it granted is not taken over", "file", path, "error", err)
		return nil
	}
	return entries
}

func readEntries(path string) (map[string]json.RawMessage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, stateLimit))
	if err != nil {
		return nil, err
	}
	var entries map[string]json.RawMessage
	err = json.Unmarshal(content, &entries)
	return entries, err
}

func earlierPairing(origin string, entry json.RawMessage) (pairing, error) {
	var e struct {
		PairedAt  any    `json:"paired_at"`
		TokenHash string `json:"token_hash"`
		Scope     *scope `json:"scope"` // nil: saved by a version that knew no scopes
	}
	if err := json.Unmarshal(entry, &e); err != nil {
		return pairing{}, err
	}
	p := pairing{TokenHash: e.TokenHash, Scope: scopeCode, PairedAt: earlierTime(e.PairedAt)}
	if e.Scope != nil {
		p.Scope = *e.Scope
	}
	return p, checkPairing(origin, p)
}

func earlierApproval(key string, entry json.RawMessage) (approval, error) {
	var e struct {
		ManifestSHA256 string `json:"manifest_sha256"`
		ApprovedAt     any    `json:"approved_at"`
	}
	if err := json.Unmarshal(entry, &e); err != nil {
		return approval{}, err
	}
	a := approval{ManifestSHA256: e.ManifestSHA256, ApprovedAt: earlierTime(e.ApprovedAt)}
	return a, checkApproval(key, a)
}

// earlierTime reads a date as a string or as seconds since 1970. Dates only
// inform, so one that cannot be read is the zero time.
func earlierTime(v any) time.Time {
	var t time.Time
	switch v := v.(type) {
	case string:
		var err error
		if t, err = time.Parse(time.RFC3339, v); err != nil {
			t, _ = time.Parse("2006-01-02T15:04:05", v)
		}
	case float64:
		const end = 253402300800 // the year 10000
		if v >= 0 && v < end {
			t = time.Unix(int64(v), 0)
		}
	}
	if checkTime(t) != nil {
		return time.Time{}
	}
	return t.UTC()
}
