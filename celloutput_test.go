package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// shown tells a result in short: the texts of its streams, the data of the
// rest, and its error's name.
func shown(r cellResult) string {
	var b strings.Builder
	for _, o := range r.outputs {
		if o.kind == eventStream {
			for _, raw := range o.texts {
				var s string
				_ = json.Unmarshal(raw, &s)
				b.WriteString(s)
			}
			continue
		}
		var data map[string]any
		_ = json.Unmarshal(o.data, &data)
		text, _ := data["text/plain"].(string)
		b.WriteString("<" + string(o.kind) + " " + text + ">")
	}
	if r.failure != nil {
		b.WriteString("!" + r.failure.Name)
	}
	return b.String()
}

func quoted(text string) json.RawMessage {
	data, _ := json.Marshal(text)
	return data
}

func printed(text string) *cellEvent {
	return &cellEvent{kind: eventStream, name: "stdout", text: quoted(text)}
}

func displayed(id, text string) *cellEvent {
	return &cellEvent{kind: eventDisplay, displayID: id, data: json.RawMessage(`{"text/plain":` + string(quoted(text)) + `}`), metadata: json.RawMessage("{}")}
}

func logShown(l *cellLog) string { return shown(cellResult{outputs: l.outputs()}) }

func TestLogForgetsWhatIsVoid(t *testing.T) {
	t.Parallel()
	clearNow, clearLater := &cellEvent{kind: eventClear}, &cellEvent{kind: eventClear, wait: true}
	for _, c := range []struct {
		name    string
		events  []*cellEvent
		want    string
		entries int
	}{
		{"nothing", nil, "", 0},
		{"text is joined", []*cellEvent{printed("a"), printed("b")}, "ab", 2},
		{"clear", []*cellEvent{printed("a"), clearNow, printed("b")}, "b", 2},
		{"clear later", []*cellEvent{printed("a"), clearLater, printed("b"), printed("c")}, "bc", 3},
		{"clear later and nothing after", []*cellEvent{printed("a"), clearLater}, "a", 2},
		{"clear twice later", []*cellEvent{printed("a"), clearLater, clearLater, printed("b")}, "b", 2},
		{"clear later, then at once", []*cellEvent{printed("a"), clearLater, clearNow, printed("b")}, "b", 2},
	} {
		l := &cellLog{limit: 1 << 20}
		for _, e := range c.events {
			l.add(e)
		}
		if got := logShown(l); got != c.want || len(l.entries) != c.entries {
			t.Errorf("%s: shows %q in %d entries, want %q in %d", c.name, got, len(l.entries), c.want, c.entries)
		}
		size := 0
		for _, e := range l.entries {
			size += e.size()
		}
		if size != l.size {
			t.Errorf("%s: counts %d bytes, has %d", c.name, l.size, size)
		}
	}
}

func TestEndlessProgressTakesBoundedMemory(t *testing.T) {
	t.Parallel()
	cleared, updated := &cellLog{limit: 1 << 20}, &cellLog{limit: 1 << 20}
	updated.add(displayed("bar", "0"))
	for i := range 10_000 {
		cleared.add(&cellEvent{kind: eventClear, wait: true})
		cleared.add(printed(strings.Repeat("x", 1000)))
		e := displayed("bar", strconv.Itoa(i))
		e.kind = eventUpdate
		updated.replace(e)
		updated.tell(e)
	}
	if got := logShown(cleared); got != strings.Repeat("x", 1000) || len(cleared.entries) > 3 {
		t.Errorf("the cleared log has %d entries", len(cleared.entries))
	}
	if got := logShown(updated); got != "<display 9999>" || len(updated.entries) > 2 {
		t.Errorf("the updated log shows %q in %d entries", got, len(updated.entries))
	}
}

func TestReaderOfALogGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	l := &cellLog{limit: 1 << 20}
	l.add(printed("a"))
	l.add(printed("b"))
	events, next := l.after(0, 1)
	if len(events) != 1 || string(events[0].text) != `"a"` {
		t.Fatalf("got %d events", len(events))
	}
	l.add(&cellEvent{kind: eventClear}) // takes b away
	l.add(printed("c"))
	events, next = l.after(next, 10)
	if len(events) != 2 || events[0].kind != eventClear || string(events[1].text) != `"c"` {
		t.Errorf("got %d events", len(events))
	}
	if events, again := l.after(next, 10); len(events) != 0 || again != next {
		t.Errorf("got %d events more", len(events))
	}
}

func TestLogKeepsWhatFitsAndCountsTheRest(t *testing.T) {
	t.Parallel()
	const limit = 10_000
	big := displayed("", "short")
	big.data = json.RawMessage(`{"text/html":` + string(quoted(strings.Repeat("h", 2*limit))) + `,"text/plain":"short"}`)
	for _, c := range []struct {
		name  string
		event *cellEvent
		want  string // how it begins
	}{
		{"text", printed(strings.Repeat("ä", 2*limit)), "before" + strings.Repeat("ä", 1000)},
		{"text of escapes", printed(strings.Repeat("\x01", 2*limit)), "before\x01"},
		{"display with a plain form", big, "before<display short>"},
	} {
		l := &cellLog{limit: limit}
		l.add(printed("before"))
		l.add(c.event)
		l.add(printed("after"))
		got := logShown(l)
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, "after") || !strings.Contains(got, "were left out") || !utf8.ValidString(got) {
			t.Errorf("%s: %.200q", c.name, got)
		}
		if l.size > limit {
			t.Errorf("%s: %d bytes are kept", c.name, l.size)
		}
		l.add(&cellEvent{kind: eventClear})
		l.add(printed("fresh"))
		if got := logShown(l); got != "fresh" {
			t.Errorf("%s: after a clear %q", c.name, got)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", cellErrorLimit)
	e := cellError{Name: long, Value: long, Traceback: []string{long, long}}.bounded()
	if size := len(e.Name) + len(e.Value) + len(strings.Join(e.Traceback, "")); size > 3*cellErrorLimit || !utf8.ValidString(e.Value) {
		t.Errorf("%d bytes are kept", size)
	}
	if e := (cellError{}).bounded(); e.Traceback == nil {
		t.Error("a traceback that is nil would be null for a page")
	}
}

func TestStoreKeepsTheLastCells(t *testing.T) {
	t.Parallel()
	var s cellStore
	ended := func(id string, size int) *cell {
		c := newCell(id, "")
		c.size.Store(int64(size))
		close(c.ended)
		return c
	}
	running := newCell("running", "")
	s.add(running)
	for i := range 2 * storedCells {
		s.add(ended(strconv.Itoa(i), 1000))
		s.trim()
	}
	has := func(id string) bool { return s.find(func(c *cell) bool { return c.id == id }) != nil }
	if len(s.cells) != storedCells+1 || !has("running") || has("0") || !has("99") {
		t.Errorf("%d cells are kept", len(s.cells))
	}
	s.add(ended("large", storedBytes+1))
	s.trim()
	if len(s.cells) != 2 || !has("large") || !has("running") {
		t.Errorf("beside one that is too large %d cells are kept", len(s.cells))
	}
	s.add(ended("large", 1))
	if len(s.cells) != 2 {
		t.Errorf("an id that comes again leaves %d cells", len(s.cells))
	}
}

func FuzzPlainStream(f *testing.F) {
	for _, text := range []string{`""`, `"a\n"`, `"\u00e4\ud83d\ude00"`, `"\ud800"`, `"\x"`, `"\u00g0"`, "\"\x01\"", "\"\xff\"", `"a`, `"a"b"`, `"\"`, `1`} {
		f.Add(`{"name": "stdout", "text": ` + text + `}`)
		f.Add(`{"name":"stderr","text":` + text + `}`)
	}
	f.Fuzz(func(t *testing.T, content string) {
		name, text, ok := plainStream([]byte(content))
		var want struct {
			Name string
			Text *string
		}
		err := json.Unmarshal([]byte(content), &want)
		if !ok {
			return
		}
		var got string
		if err != nil || want.Text == nil || json.Unmarshal(text, &got) != nil || got != *want.Text || name != want.Name {
			t.Errorf("%q: %q %q, want %+v, %v", content, name, text, want, err)
		}
	})
}

func TestCommonFormsOfPrintedTextAreReadFast(t *testing.T) {
	t.Parallel()
	for _, content := range []string{`{"name": "stdout", "text": "a\n\"\u00e4ä"}`, `{"name":"stderr","text":""}`} {
		if _, _, ok := plainStream([]byte(content)); !ok {
			t.Errorf("%s is not", content)
		}
	}
}
