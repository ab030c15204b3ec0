package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

const (
	eventsFileLimit = 4 << 20 // bytes; the older half goes when it is reached
	eventsAnswer    = 1000    // events in one answer
	eventTextLimit  = 2000    // bytes of a path or a command that an event keeps
)

// sandboxEvent is one thing that a learner did in a sandbox.
type sandboxEvent struct {
	N          int64     `json:"n"`
	At         time.Time `json:"at"`
	Type       string    `json:"type"` // write, exec or snapshot
	Path       string    `json:"path,omitempty"`
	Cmd        []string  `json:"cmd,omitempty"`
	Returncode *int      `json:"returncode,omitempty"`
	Duration   *float64  `json:"duration_s,omitempty"`
	Limit      string    `json:"limit,omitempty"`
	SnapshotID string    `json:"snapshot_id,omitempty"`
}

// eventLog is a file with one event a line. Numbers are never given twice, even
// when old events have gone or the runtime was restarted.
type eventLog struct {
	path string

	mu   sync.Mutex // guards the file and what follows
	last int64      // the newest number; -1 before the file was read
	size int64
}

func newEventLog(path string) *eventLog { return &eventLog{path: path, last: -1} }

// add numbers an event and writes it down.
func (l *eventLog) add(e sandboxEvent) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.openLocked(); err != nil {
		return err
	}
	e.N = l.last + 1
	e.Path, e.Cmd = shortText(e.Path), shortWords(e.Cmd)
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	n, err := f.Write(append(line, '\n'))
	l.size += int64(n)
	if err := errors.Join(err, f.Close()); err != nil {
		l.last = -1 // half a line may be there, which openLocked clears away
		return err
	}
	l.last = e.N
	if l.size > eventsFileLimit {
		return l.shortenLocked()
	}
	return nil
}

// after returns the events with a number above n, oldest first, a bounded
// number of them.
func (l *eventLog) after(n int64) ([]sandboxEvent, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := []sandboxEvent{}
	data, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return events, nil
	}
	if err != nil {
		return nil, err
	}
	for e := range parseEvents(data) {
		if e.N > n && len(events) < eventsAnswer {
			events = append(events, e)
		}
	}
	return events, nil
}

func (l *eventLog) openLocked() error {
	if l.last >= 0 {
		return nil
	}
	data, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.last, l.size = 0, int64(len(data))
	for e := range parseEvents(data) {
		l.last = max(l.last, e.N)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return l.shortenLocked() // a line was cut by a crash
	}
	return nil
}

// shortenLocked keeps the newer whole lines, at most half the limit.
func (l *eventLog) shortenLocked() error {
	data, err := os.ReadFile(l.path)
	if err != nil {
		return err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	if over := len(data) - eventsFileLimit/2; over > 0 {
		data = data[over:]
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	l.size = int64(len(data))
	return writeAtomic(l.path, data, 0o600)
}

// parseEvents yields the events in a log. A damaged line is passed over.
func parseEvents(data []byte) func(yield func(sandboxEvent) bool) {
	return func(yield func(sandboxEvent) bool) {
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, eventsFileLimit)
		for lines.Scan() {
			var e sandboxEvent
			if json.Unmarshal(lines.Bytes(), &e) == nil && !yield(e) {
				return
			}
		}
	}
}

func shortText(s string) string {
	if len(s) > eventTextLimit {
		s = s[:eventTextLimit] + "..."
	}
	return jsonText(s)
}

func shortWords(words []string) []string {
	var out []string
	room := eventTextLimit
	for _, word := range words {
		if room <= 0 {
			return append(out, "...")
		}
		out = append(out, shortText(word[:min(len(word), room)]))
		room -= len(word)
	}
	return out
}
