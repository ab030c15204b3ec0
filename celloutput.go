package main

// What a cell gave out. JSON that a kernel sent is checked once and then kept
// and passed on as it is, so that large output is neither decoded nor encoded
// again.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// cellOutputLimit is how much output of one cell is kept.
	cellOutputLimit = 64 << 20
	// cellEventCost is what an event counts for besides its own bytes, so that
	// countless small ones are bounded too.
	cellEventCost = 128
	// cellErrorLimit bounds each text of an error, which is kept besides the rest.
	cellErrorLimit = 256 << 10
)

type eventKind string

// The kinds are named as a page's stream names them.
const (
	eventStream  eventKind = "stream"
	eventResult  eventKind = "result"
	eventDisplay eventKind = "display"
	eventUpdate  eventKind = "display_update"
	eventClear   eventKind = "clear_output"
	eventError   eventKind = "error"
)

// eventKinds are the kernel's names of the kinds.
var eventKinds = map[string]eventKind{
	"stream":              eventStream,
	"execute_result":      eventResult,
	"display_data":        eventDisplay,
	"update_display_data": eventUpdate,
	"clear_output":        eventClear,
	"error":               eventError,
}

// plainStreams lists how printed text begins in the two common ways to write
// JSON.
var plainStreams = []struct{ json, name string }{
	{`{"name": "stdout", "text":`, "stdout"},
	{`{"name": "stderr", "text":`, "stderr"},
	{`{"name":"stdout","text":`, "stdout"},
	{`{"name":"stderr","text":`, "stderr"},
}

// cellEvent is one thing that a cell gave out. Nobody changes it once it is
// in a log.
type cellEvent struct {
	kind      eventKind
	name      string          // of a stream: stdout or stderr
	text      json.RawMessage // of a stream: a JSON string
	data      json.RawMessage // of a result, display or update: an object by MIME type
	metadata  json.RawMessage // likewise: an object
	displayID string          // of a display or update; "" when it has none
	count     *int            // of a result
	wait      bool            // of a clear: not before the next output
	failure   *cellError      // of an error
}

// cellError is why a cell failed.
type cellError struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// bounded returns e with texts of bounded size and a traceback that is not nil.
func (e cellError) bounded() *cellError {
	room := cellErrorLimit
	e.Name, e.Value = cutText(e.Name, 1024), cutText(e.Value, cellErrorLimit)
	lines := []string{}
	for _, line := range e.Traceback {
		line = cutText(line, room)
		room -= len(line)
		lines = append(lines, line)
		if room <= 0 {
			break
		}
	}
	e.Traceback = lines
	return &e
}

func (e *cellEvent) size() int {
	return cellEventCost + len(e.text) + len(e.data) + len(e.metadata) + len(e.displayID)
}

// cellEventOf reads what a kernel's message says; ok is false for messages
// that are no output, such as those of widgets, and for broken ones.
func cellEventOf(m jupyterMessage) (event *cellEvent, ok bool) {
	var c struct {
		Name      string          `json:"name"`
		Text      json.RawMessage `json:"text"`
		Data      json.RawMessage `json:"data"`
		Metadata  json.RawMessage `json:"metadata"`
		Count     *int            `json:"execution_count"`
		Wait      jsonTruth       `json:"wait"`
		Transient struct {
			DisplayID jsonName `json:"display_id"`
		} `json:"transient"`
	}
	kind, known := eventKinds[m.header.Type]
	if !known {
		return nil, false
	}
	if kind == eventError {
		return cellErrorEvent(m.content)
	}
	if name, text, plain := plainStream(m.content); plain && kind == eventStream {
		return &cellEvent{kind: kind, name: name, text: text}, true
	}
	if json.Unmarshal(m.content, &c) != nil {
		return nil, false
	}
	event = &cellEvent{kind: kind, count: c.Count, wait: bool(c.Wait)}
	switch kind {
	case eventStream:
		event.name, event.text = "stdout", passable(c.Text)
		if c.Name == "stderr" {
			event.name = c.Name
		}
		return event, len(event.text) > 0 && event.text[0] == '"'
	case eventResult, eventDisplay, eventUpdate:
		event.displayID = string(c.Transient.DisplayID)
		event.data, event.metadata = passable(c.Data), passable(c.Metadata)
		if len(event.metadata) == 0 || event.metadata[0] != '{' {
			event.metadata = json.RawMessage("{}")
		}
		return event, len(event.data) > 0 && event.data[0] == '{'
	}
	return event, true
}

// jsonTruth is any JSON value as Python sees it in a condition: kernels pass on
// what code gave them where true or false is expected.
type jsonTruth bool

func (t *jsonTruth) UnmarshalJSON(raw []byte) error {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		*t = true // a number beyond all bounds
	}
	switch v := v.(type) {
	case nil:
		*t = false
	case bool:
		*t = jsonTruth(v)
	case float64:
		*t = v != 0
	case string:
		*t = v != ""
	case []any:
		*t = len(v) > 0
	case map[string]any:
		*t = len(v) > 0
	}
	return nil
}

// jsonName is a name that code may also have given as something else than a
// string, such as a number; its JSON is the name then.
type jsonName string

func (n *jsonName) UnmarshalJSON(raw []byte) error {
	var name string
	if json.Unmarshal(raw, &name) != nil {
		name = string(passable(raw))
	}
	*n = jsonName(name)
	return nil
}

// plainStream reads printed text as kernels commonly write it. Text is most of
// what they send, and this is several times faster than reading any JSON.
func plainStream(content []byte) (name string, text json.RawMessage, ok bool) {
	for _, begin := range plainStreams {
		rest, found := bytes.CutPrefix(content, []byte(begin.json))
		if !found {
			continue
		}
		rest = bytes.TrimLeft(rest, " ")
		end := jsonStringEnd(rest)
		if end > 0 && string(rest[end:]) == "}" && utf8.Valid(rest[:end]) {
			return begin.name, rest[:end], true
		}
	}
	return "", nil, false
}

// jsonStringEnd returns the length of the JSON string that b begins with; 0
// when it begins with none.
func jsonStringEnd(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return 0
		case c == '\\':
			i++
			n := jsonEscapeLength(b[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		}
	}
	return 0
}

// jsonEscapeLength is the length of what follows a backslash; 0 when it is
// not an escape.
func jsonEscapeLength(b []byte) int {
	switch {
	case len(b) > 0 && strings.IndexByte(`"\/bfnrt`, b[0]) >= 0:
		return 1
	case len(b) < 5 || b[0] != 'u':
		return 0
	}
	for _, c := range b[1:5] {
		if !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return 0
		}
	}
	return 5
}

func cellErrorEvent(content json.RawMessage) (*cellEvent, bool) {
	var failure cellError
	if json.Unmarshal(content, &failure) != nil {
		return nil, false
	}
	return &cellEvent{kind: eventError, failure: failure.bounded()}, true
}

// passable makes checked JSON fit for any answer: one line of valid UTF-8.
func passable(raw json.RawMessage) json.RawMessage {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	if bytes.ContainsAny(raw, "\r\n") {
		var line bytes.Buffer
		if json.Compact(&line, raw) == nil {
			raw = line.Bytes()
		}
	}
	return raw
}

// logEntry is an event with its number. Numbers rise and are never reused, so
// that a reader can go on where it stopped although entries went away.
type logEntry struct {
	number int
	*cellEvent
}

// cellLog is a cell's events in order, without those that later ones have
// made void. The zero value is not usable: limit must be set.
type cellLog struct {
	limit    int
	entries  []logEntry
	next     int             // the next entry's number
	size     int             // of all entries
	left     int64           // bytes that were left out
	clearing bool            // all before the last clear goes with the next output
	ids      map[string]bool // display ids that the entries have had
}

// add puts an event that is not an update at the end.
func (l *cellLog) add(e *cellEvent) {
	if e.kind == eventClear {
		l.clear(e)
		return
	}
	if l.clearing {
		l.clearing = false
		l.removeBefore(slices.IndexFunc(l.entries, func(old logEntry) bool { return old.kind == eventClear }))
	}
	if e.kind == eventError {
		l.append(e)
		return
	}
	if kept := l.fitting(e); kept != nil {
		l.append(kept)
	}
}

// clear drops what there is, or, when it is to wait, will with the next output.
func (l *cellLog) clear(e *cellEvent) {
	if l.clearing && e.wait {
		return
	}
	isClear := func(old logEntry) bool { return old.kind == eventClear }
	if !e.wait {
		l.clearing = false
		l.removeBefore(len(l.entries))
	} else {
		l.clearing = true
		l.remove(isClear)
	}
	l.append(e)
}

// removeBefore drops the first n entries, and the count of what was left out.
func (l *cellLog) removeBefore(n int) {
	for _, e := range l.entries[:n] {
		l.size -= e.size()
	}
	l.entries = slices.Delete(l.entries, 0, n)
	l.left = 0
}

func (l *cellLog) remove(is func(logEntry) bool) {
	l.entries = slices.DeleteFunc(l.entries, func(e logEntry) bool {
		if !is(e) {
			return false
		}
		l.size -= e.size()
		return true
	})
}

func (l *cellLog) append(e *cellEvent) {
	l.entries = append(l.entries, logEntry{l.next, e})
	l.next++
	l.size += e.size()
	if e.displayID != "" {
		if l.ids == nil {
			l.ids = make(map[string]bool)
		}
		l.ids[e.displayID] = true
	}
}

// fitting returns e, the part of it that there is room for, or nil, and
// counts what is left out. Once something was, nothing more is kept, so that
// what is kept has no holes.
func (l *cellLog) fitting(e *cellEvent) *cellEvent {
	room := l.limit - l.size
	if l.left == 0 && e.size() <= room {
		return e
	}
	var kept *cellEvent
	if l.left == 0 {
		kept = e.within(room)
	}
	l.left += int64(e.size())
	if kept != nil {
		l.left -= int64(kept.size())
	}
	return kept
}

// within returns the part of e that takes at most room: the beginning of a
// text, or the plain text of a display; nil when there is none.
func (e *cellEvent) within(room int) *cellEvent {
	part := *e
	if e.kind == eventStream {
		var text string
		if json.Unmarshal(e.text, &text) != nil || room < 2*cellEventCost {
			return nil
		}
		for limit := room - cellEventCost - 2; limit > 0; limit /= 2 { // escapes take more room than what they stand for
			part.text, _ = json.Marshal(cutText(text, limit))
			if part.size() <= room {
				return &part
			}
		}
		return nil
	}
	var data map[string]json.RawMessage
	if json.Unmarshal(e.data, &data) != nil || data["text/plain"] == nil {
		return nil
	}
	part.data, _ = json.Marshal(map[string]json.RawMessage{"text/plain": data["text/plain"]})
	if part.size() > room {
		return nil
	}
	return &part
}

// leaveOut counts output that was never read.
func (l *cellLog) leaveOut(bytes int64) { l.left += bytes }

// replace gives the displays that have e's display id the data of e. The
// events of a stream are not told: see tell.
func (l *cellLog) replace(e *cellEvent) {
	if e.displayID == "" || !l.ids[e.displayID] {
		return
	}
	for i, old := range l.entries {
		if old.displayID != e.displayID || old.kind == eventUpdate {
			continue
		}
		changed := *old.cellEvent
		changed.data, changed.metadata = e.data, e.metadata
		if growth := changed.size() - old.size(); l.size+growth > l.limit {
			l.left += int64(e.size())
		} else {
			l.size += growth
			l.entries[i].cellEvent = &changed
		}
	}
}

// tell puts an update into the log for the readers of the stream, instead of
// an earlier one of the same display.
func (l *cellLog) tell(e *cellEvent) {
	if l.ids[e.displayID] {
		l.remove(func(old logEntry) bool { return old.kind == eventUpdate && old.displayID == e.displayID })
	}
	if kept := l.fitting(e); kept != nil {
		l.append(kept)
	}
}

// after returns up to count events from number on, and the number to go on with.
func (l *cellLog) after(number, count int) ([]*cellEvent, int) {
	at, _ := slices.BinarySearchFunc(l.entries, number, func(e logEntry, n int) int { return e.number - n })
	var events []*cellEvent
	for _, e := range l.entries[at:min(at+count, len(l.entries))] {
		events = append(events, e.cellEvent)
		number = e.number + 1
	}
	return events, number
}

// cellOutput is what a reader sees in one place: an event, or the text of
// consecutive events of one stream.
type cellOutput struct {
	*cellEvent
	texts []json.RawMessage // of a stream; each a JSON string
}

// outputs returns what is to be seen, in order.
func (l *cellLog) outputs() []cellOutput {
	var outputs []cellOutput
	see := func(e *cellEvent) {
		if last := len(outputs) - 1; last >= 0 && e.kind == eventStream && outputs[last].name == e.name {
			outputs[last].texts = append(outputs[last].texts, e.text)
			return
		}
		outputs = append(outputs, cellOutput{e, []json.RawMessage{e.text}})
	}
	for _, e := range l.entries {
		if e.kind == eventStream || e.kind == eventResult || e.kind == eventDisplay {
			see(e.cellEvent)
		}
	}
	if marker := l.marker(); marker != nil {
		see(marker)
	}
	return outputs
}

// marker says how much was left out; nil when nothing was.
func (l *cellLog) marker() *cellEvent {
	if l.left == 0 {
		return nil
	}
	text, _ := json.Marshal(fmt.Sprintf("\n[output of a cell is kept up to %d MB: %d bytes were left out]\n", l.limit>>20, l.left))
	return &cellEvent{kind: eventStream, name: "stderr", text: text}
}
