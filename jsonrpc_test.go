package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestMessagesAreReadWithTheirFlaws(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, id, method string
		code             int
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "1", "ping", 0},
		{` {"method":"ping","params":{"a":[1]},"id":"x\u0061","jsonrpc":"2.0"} `, `"xa"`, "ping", 0},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", "notifications/initialized", 0},
		{`{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping"}`, "12345678901234567890", "ping", 0},
		{`{"jsonrpc":"2.0","id":3,"result":{}}`, "3", "", 0},
		{`{"jsonrpc":"2.0","id":3,"error":{}}`, "3", "", 0},
		{`{"jsonrpc":"2.0","id":4,"method":"x","params":[1]}`, "4", "x", rpcInvalidParams},
		{`{"jsonrpc":"2.0","method":"x","params":null}`, "", "x", rpcInvalidParams},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, "null", "", rpcInvalid},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "null", "", rpcInvalid},
		{`{"jsonrpc":"1.0","id":5,"method":"ping"}`, "5", "", rpcInvalid},
		{`{"JSONRPC":"2.0","ID":5,"METHOD":"ping"}`, "null", "", rpcInvalid},
		{`{"jsonrpc":"2.0","id":6}`, "6", "", rpcInvalid},
		{`{"jsonrpc":"2.0","id":6,"method":1}`, "6", "", rpcInvalid},
		{`{"jsonrpc":"2.0"}`, "null", "", rpcInvalid},
		{`[]`, "null", "", rpcInvalid},
		{"[" + strings.Repeat("1,", rpcBatchLimit) + "1]", "null", "", rpcInvalid},
		{`null`, "null", "", rpcInvalid},
		{`"ping"`, "null", "", rpcInvalid},
		{`{"jsonrpc":"2.0","id":7,"method":"ping"`, "null", "", rpcNoJSON},
		{`{} {}`, "null", "", rpcNoJSON},
		{"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", "null", "", rpcNoJSON},
		{`Content-Length: 20`, "null", "", rpcNoJSON},
	} {
		messages, batch := parseRPC([]byte(c.line))
		if len(messages) != 1 || batch {
			t.Errorf("%s is %d messages, batch %v", c.line, len(messages), batch)
			continue
		}
		m, code := messages[0], 0
		if m.flaw != nil {
			code = m.flaw.Code
		}
		if string(m.id) != c.id || code != c.code || code == 0 && m.method != c.method {
			t.Errorf("%s is %+v, code %d; want %+v", c.line, m, code, c)
		}
	}
	messages, batch := parseRPC([]byte(`[{"jsonrpc":"2.0","id":1,"method":"ping"}, 1]`))
	if !batch || len(messages) != 2 || messages[0].method != "ping" || messages[1].flaw == nil {
		t.Errorf("a batch is %+v", messages)
	}
}

func TestLinesThatAreTooLongAreSkippedWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	r := newRPCReader(strings.NewReader("\n" + long + "\n \r\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\r\n" + long))
	r.limit = 9_999
	for i, want := range []string{"null", "1", "null"} {
		messages, _, err := r.next()
		if err != nil || string(messages[0].id) != want {
			t.Errorf("message %d: %+v, %v; want the id %s", i, messages, err, want)
		}
	}
	if _, _, err := r.next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func FuzzJSONRPC(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `[{"jsonrpc":"2.0","id":"a","method":"x","params":{}}]`, "\n\n", "[[]]", "null\r\n{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		r := newRPCReader(strings.NewReader(string(input)))
		r.limit = 200
		for range len(input) + 1 {
			messages, _, err := r.next()
			if err != nil {
				return
			}
			for _, m := range messages {
				if m.flaw != nil && m.id == "" && m.flaw.Code != rpcInvalidParams {
					t.Fatalf("%q: a flaw that nobody is told of: %+v", input, m)
				}
				if m.id == "" {
					continue
				}
				text, err := json.Marshal(rpcReply{Version: "2.0", ID: m.id, Result: struct{}{}})
				again, _ := parseRPC(text)
				if err != nil || m.id != rpcNoID && again[0].id != m.id {
					t.Fatalf("%q: the answer is %s, %v", input, text, err)
				}
			}
		}
		t.Fatalf("%q has more messages than bytes", input)
	})
}
