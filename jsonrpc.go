package main

// JSON-RPC 2.0 as agents speak it: one message of JSON to a line. Reading
// never fails for what a line says; a message carries its own flaw, which is
// what its sender is to be told.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// rpcLineLimit is how many bytes a line may have: a file of 8 MiB, with what
// JSON makes of it, and room for the rest.
const rpcLineLimit = 20 << 20

// rpcBatchLimit is how many messages may come as one list.
const rpcBatchLimit = 100

// The codes of errors, as JSON-RPC has them.
const (
	rpcNoJSON        = -32700
	rpcInvalid       = -32600
	rpcUnknownMethod = -32601
	rpcInvalidParams = -32602
)

// rpcError is why a request has no result.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func rpcErrorf(code int, format string, args ...any) *rpcError {
	return &rpcError{code, fmt.Sprintf(format, args...)}
}

// rpcID is the JSON text of a request's id, the same for ids that are equal;
// "" is that of a notification, which is not answered.
type rpcID string

// rpcNoID stands in answers to what has no id that could be read.
const rpcNoID rpcID = "null"

// MarshalJSON writes the id as it came.
func (id rpcID) MarshalJSON() ([]byte, error) { return []byte(id), nil }

// rpcMessage is one message that was read. With a flaw only its id counts.
type rpcMessage struct {
	id     rpcID
	method string // "" for the answer to a request of ours
	params map[string]json.RawMessage
	flaw   *rpcError
}

// rpcReply is the answer to one request: a result or an error.
type rpcReply struct {
	Version string    `json:"jsonrpc"`
	ID      rpcID     `json:"id"`
	Result  any       `json:"result,omitempty"`
	Error   *rpcError `json:"error,omitempty"`
}

// rpcNotice is a notification.
type rpcNotice struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

// rpcReader reads lines.
type rpcReader struct {
	in    *bufio.Reader
	limit int // bytes of a line
}

func newRPCReader(in io.Reader) *rpcReader { return &rpcReader{bufio.NewReader(in), rpcLineLimit} }

// next returns the messages of the next line that is not blank. batch tells
// that they came as a list, whose answers go back as one.
func (r *rpcReader) next() (messages []rpcMessage, batch bool, err error) {
	for {
		line, tooLong, err := r.line()
		switch {
		case tooLong:
			return flawed(rpcNoJSON, "The message is longer than the %d bytes that are read of one.", r.limit), false, nil
		case len(bytes.TrimSpace(line)) > 0:
			messages, batch = parseRPC(line)
			return messages, batch, nil
		case err != nil:
			return nil, false, err
		}
	}
}

// line reads to the end of a line, or of all input. Of one that is too long
// nothing is kept.
func (r *rpcReader) line() (line []byte, tooLong bool, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		tooLong = tooLong || len(line)+len(part) > r.limit
		if tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

func flawed(code int, format string, args ...any) []rpcMessage {
	return []rpcMessage{{id: rpcNoID, flaw: rpcErrorf(code, format, args...)}}
}

// parseRPC reads a line that is a message or a list of them.
func parseRPC(line []byte) (messages []rpcMessage, batch bool) {
	if !utf8.Valid(line) || !json.Valid(line) {
		return flawed(rpcNoJSON, "The line is not one message of JSON in UTF-8."), false
	}
	var list []json.RawMessage
	if json.Unmarshal(line, &list) != nil || list == nil {
		return []rpcMessage{parseRPCMessage(line)}, false
	}
	if len(list) == 0 || len(list) > rpcBatchLimit {
		return flawed(rpcInvalid, "A list of messages must have 1 to %d of them.", rpcBatchLimit), false
	}
	for _, raw := range list {
		messages = append(messages, parseRPCMessage(raw))
	}
	return messages, true
}

// parseRPCMessage reads valid JSON. Names of members count exactly as they
// are written.
func parseRPCMessage(raw json.RawMessage) rpcMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return flawed(rpcInvalid, "A message must be a JSON object.")[0]
	}
	m := rpcMessage{}
	id, hasID := members["id"]
	if hasID {
		m.id = parseRPCID(id)
	}
	var version string
	_ = json.Unmarshal(members["jsonrpc"], &version)
	method, hasMethod := members["method"]
	_, hasResult := members["result"]
	_, hasError := members["error"]
	switch {
	case version != "2.0":
		m.flaw = rpcErrorf(rpcInvalid, "A message must have the member \"jsonrpc\" with the value \"2.0\".")
	case !hasMethod && (hasResult || hasError):
		return m // we never ask anything, so nobody waits for it
	case m.id == rpcNoID:
		m.flaw = rpcErrorf(rpcInvalid, "The member \"id\" must be a string or a number.")
	case json.Unmarshal(method, &m.method) != nil || m.method == "":
		m.flaw = rpcErrorf(rpcInvalid, "A message must have the member \"method\", a string.")
	case members["params"] != nil && (json.Unmarshal(members["params"], &m.params) != nil || m.params == nil):
		m.flaw = rpcErrorf(rpcInvalidParams, "The member \"params\" must be an object.")
	}
	if m.id == "" && m.flaw != nil && m.flaw.Code == rpcInvalid {
		m.id = rpcNoID // it is no notification either, so it is answered
	}
	return m
}

// parseRPCID returns the one form of an id, and rpcNoID for what can be none.
func parseRPCID(raw json.RawMessage) rpcID {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return rpcNoID
	}
	switch value.(type) {
	case string, json.Number:
		text, _ := json.Marshal(value) // what was just read can be written
		return rpcID(text)
	}
	return rpcNoID
}
