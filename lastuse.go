package main

// When sites and local programs last used what they were granted. It is noted
// in memory, where a request's token is recognised, and saved now and then in
// a file of its own: no request waits for the disk, and a file that is lost
// costs nothing but the knowledge.

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	lastUseFile = "lastuse.json"

	// lastUseSaved is how often it is saved while there is something new.
	lastUseSaved = time.Minute

	// lastUseLimit is the size in bytes above which the file is not read.
	lastUseLimit = 4 << 20
)

// lastUses knows the time of the last use of each grant. Its file has one
// writer, the runtime that serves the data folder.
type lastUses struct {
	path  string
	log   *slog.Logger
	times sync.Map    // principal to *atomic.Int64, in nanoseconds of Unix time
	fresh atomic.Bool // something was noted since the last save
}

// openLastUses begins with what was saved in the data folder dir.
func openLastUses(dir string, log *slog.Logger) *lastUses {
	u := &lastUses{path: filepath.Join(dir, lastUseFile), log: log}
	if err := removeUnfinished(u.path); err != nil {
		log.Warn("unfinished files stay", "file", u.path, "err", err)
	}
	for p, at := range readLastUses(dir) {
		u.set(p, at)
	}
	return u
}

// note records that p uses what it was granted, now.
func (u *lastUses) note(p principal) {
	u.set(p, time.Now())
	u.fresh.Store(true)
}

func (u *lastUses) set(p principal, at time.Time) {
	v, known := u.times.Load(p)
	if !known {
		v, _ = u.times.LoadOrStore(p, new(atomic.Int64))
	}
	v.(*atomic.Int64).Store(at.UnixNano())
}

// all returns the times that are known. The caller owns the result.
func (u *lastUses) all() map[principal]time.Time {
	known := make(map[principal]time.Time)
	u.times.Range(func(p, at any) bool {
		known[p.(principal)] = time.Unix(0, at.(*atomic.Int64).Load()).UTC()
		return true
	})
	return known
}

// keep saves what is noted every minute, and once more when ctx ends.
func (u *lastUses) keep(ctx context.Context, state *stateStore) {
	tick := time.NewTicker(lastUseSaved)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		if !u.fresh.Swap(false) {
			continue
		}
		if err := u.save(state); err != nil {
			u.fresh.Store(true)
			u.log.Warn("times of last use are not saved", "err", err)
		}
	}
}

// save forgets those who have no grant any more, and writes the file.
func (u *lastUses) save(state *stateStore) error {
	data, err := state.current()
	if err != nil {
		return err
	}
	known := u.all()
	for p := range known {
		if grantedSince(data, p).IsZero() {
			delete(known, p)
			u.times.Delete(p)
		}
	}
	content, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	return writeAtomic(u.path, append(content, '\n'), 0o600)
}

// readLastUses reads what the runtime of the data folder dir saved last. A
// file that is missing or damaged tells nothing.
func readLastUses(dir string) map[principal]time.Time {
	path := filepath.Join(dir, lastUseFile)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > lastUseLimit {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return decodeLastUses(content)
}

// decodeLastUses leaves out times that no clock was set to.
func decodeLastUses(content []byte) map[principal]time.Time {
	var known map[principal]time.Time
	if json.Unmarshal(content, &known) != nil {
		return nil
	}
	maps.DeleteFunc(known, func(_ principal, at time.Time) bool { return at.Year() < 2000 || at.Year() > 2200 })
	return known
}

// grantedSince is since when p has what it was granted; zero when it has
// nothing.
func grantedSince(data *stateData, p principal) time.Time {
	if name, ok := strings.CutPrefix(string(p), clientPrincipal); ok {
		return data.Clients[name].CreatedAt
	}
	return data.Pairings[string(p)].PairedAt
}

// lastUsed is when p last used the grant that it has now, of the times known;
// zero when it has not. A use before that grant was of an earlier one.
func lastUsed(known map[principal]time.Time, data *stateData, p principal) time.Time {
	if at := known[p]; !at.Before(grantedSince(data, p)) {
		return at
	}
	return time.Time{}
}
