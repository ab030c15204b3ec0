package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"testing"
)

// signed returns a message with these four documents and a right signature.
func signed(t testing.TB, key jupyterKey, header jupyterHeader, parent string, content any) [][]byte {
	t.Helper()
	frames, err := key.encode(header, json.RawMessage(parent), content)
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

func TestJupyterMessageIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	key := newJupyterKey()
	header := jupyterHeader{ID: "id", Type: "stream", Session: "s", Username: "u"}
	frames := signed(t, key, header, `{"msg_id":"p"}`, map[string]string{"text": "ä"})
	m, err := newJupyterReader(key).decode(zmtpMessage{frames: slices.Concat([][]byte{[]byte("topic")}, frames, [][]byte{[]byte("attachment")})})
	if err != nil || m.header.ID != "id" || m.header.Type != "stream" || m.header.Version != "5.3" || m.parent != "p" || string(m.content) != `{"text":"ä"}` {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestJupyterReaderRefusesWhatIsNotTheKernels(t *testing.T) {
	t.Parallel()
	key := newJupyterKey()
	good := signed(t, key, jupyterHeader{ID: "id"}, "{}", struct{}{})
	resigned := func(at int, document string) [][]byte {
		frames := slices.Clone(good)
		frames[at] = []byte(document)
		sum := key.sign(frames[2:6])
		frames[1] = []byte(hex.EncodeToString(sum[:]))
		return frames
	}
	changed := slices.Clone(good)
	changed[5] = []byte(`{"a":1}`)
	for _, c := range []struct {
		name   string
		frames [][]byte
		want   error
	}{
		{"no frames", nil, errJupyterShape},
		{"no delimiter", good[1:], errJupyterShape},
		{"three frames too few", good[:3], errJupyterShape},
		{"another key", signed(t, newJupyterKey(), jupyterHeader{}, "{}", struct{}{}), errJupyterSignature},
		{"changed content", changed, errJupyterSignature},
		{"no signature", slices.Concat(good[:1], [][]byte{{}}, good[2:]), errJupyterSignature},
		{"a signature of another form", slices.Concat(good[:1], [][]byte{bytes.Repeat([]byte("z"), 64)}, good[2:]), errJupyterSignature},
		{"broken header", resigned(2, "{"), errJupyterShape},
		{"broken parent", resigned(3, "nothing"), errJupyterShape},
		{"content that is a list", resigned(5, "[]"), errJupyterShape},
		{"empty content", resigned(5, ""), errJupyterShape},
	} {
		if _, err := newJupyterReader(key).decode(zmtpMessage{frames: c.frames}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestJupyterReaderTakesAMessageOnce(t *testing.T) {
	t.Parallel()
	key := newJupyterKey()
	reader := newJupyterReader(key)
	first := zmtpMessage{frames: signed(t, key, jupyterHeader{ID: "0"}, "{}", struct{}{})}
	for range 2 * jupyterRemembered {
		if _, err := reader.decode(zmtpMessage{frames: signed(t, key, jupyterHeader{ID: newCell("", "").id}, "{}", struct{}{})}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := reader.decode(first); err != nil {
		t.Error(err)
	}
	if _, err := reader.decode(first); !errors.Is(err, errJupyterRepeated) {
		t.Errorf("the second time: %v", err)
	}
	if len(reader.seen) > jupyterRemembered {
		t.Errorf("%d signatures are remembered", len(reader.seen))
	}
}

func TestJupyterKeyIsNotPrinted(t *testing.T) {
	t.Parallel()
	key := newJupyterKey()
	if key.String() == string(key) || len(key) < 32 {
		t.Errorf("key of %d bytes prints as %v", len(key), key)
	}
}

func FuzzJupyterReader(f *testing.F) {
	key := jupyterKey("key")
	for _, frames := range [][][]byte{nil, signed(f, key, jupyterHeader{ID: "id", Type: "stream"}, `{"msg_id":"p"}`, map[string]string{"name": "stdout", "text": "x"})} {
		f.Add(bytes.Join(frames, []byte{0}), int64(0))
	}
	f.Add([]byte("topic\x00<IDS|MSG>\x00s\x00{}\x00{}\x00{}"), int64(9))
	f.Fuzz(func(t *testing.T, data []byte, skipped int64) {
		frames := bytes.Split(data, []byte{0})
		if at := slices.IndexFunc(frames, func(frame []byte) bool { return string(frame) == jupyterDelimiter }); at >= 0 && len(frames) > at+5 {
			sum := key.sign(frames[at+2 : at+6])
			frames[at+1] = []byte(hex.EncodeToString(sum[:]))
		}
		m, err := newJupyterReader(key).decode(zmtpMessage{frames: frames, skipped: max(skipped, 0)})
		if err != nil {
			return
		}
		event, ok := cellEventOf(m)
		if !ok {
			return
		}
		c := newCell("id", "")
		c.published(m)
		var body bytes.Buffer
		out := newCellWriter(&body)
		out.result(c.result(), true)
		if err := out.Flush(); err != nil || !json.Valid(body.Bytes()) {
			t.Errorf("%q gives %s, which is no JSON", data, body.Bytes())
		}
		body.Reset()
		out.event("id", event)
		_ = out.Flush()
		if line := bytes.TrimSuffix(body.Bytes(), []byte("\n\n")); bytes.ContainsAny(line, "\r\n") || !json.Valid(bytes.TrimPrefix(line, []byte("data: "))) {
			t.Errorf("%q gives the event %q", data, line)
		}
	})
}
