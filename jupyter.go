package main

// Messages of the Jupyter wire protocol 5.3: a list of frames with a
// signature over four JSON documents.

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	jupyterVersion   = "5.3"
	jupyterDelimiter = "<IDS|MSG>"

	// jupyterRemembered is how many signatures back a repeated message is known.
	jupyterRemembered = 1024
)

var (
	errJupyterShape     = errors.New("not a Jupyter message")
	errJupyterSignature = errors.New("the signature is wrong")
	errJupyterRepeated  = errors.New("the message has come before")
)

type jupyterHeader struct {
	ID       string `json:"msg_id"`
	Type     string `json:"msg_type"`
	Session  string `json:"session"`
	Username string `json:"username"`
	Date     string `json:"date"`
	Version  string `json:"version"`
}

// jupyterMessage is a message whose signature was right. Metadata and binary
// attachments are not kept: nothing here needs them.
type jupyterMessage struct {
	header    jupyterHeader
	rawHeader json.RawMessage
	parent    string // id of the request that it belongs to; "" for none
	content   json.RawMessage
	skipped   int64 // bytes that were too many to be kept; content is then nil
}

// jupyterKey signs the messages of one kernel.
type jupyterKey []byte

func newJupyterKey() jupyterKey { return jupyterKey(rand.Text() + rand.Text()) }

func (k jupyterKey) String() string { return "[hidden]" }

// sign returns the signature of the four documents of a message.
func (k jupyterKey) sign(documents [][]byte) [sha256.Size]byte {
	mac := hmac.New(sha256.New, k)
	for _, d := range documents {
		mac.Write(d)
	}
	var sum [sha256.Size]byte
	mac.Sum(sum[:0])
	return sum
}

// encode returns the frames of a message. parent is the raw header of the
// message that it answers, nil when it is a request.
func (k jupyterKey) encode(header jupyterHeader, parent json.RawMessage, content any) ([][]byte, error) {
	header.Version = jupyterVersion
	header.Date = time.Now().UTC().Format(time.RFC3339Nano)
	head, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	if parent == nil {
		parent = json.RawMessage("{}")
	}
	documents := [][]byte{head, parent, []byte("{}"), body}
	sum := k.sign(documents)
	signature := hex.AppendEncode(nil, sum[:])
	return append([][]byte{[]byte(jupyterDelimiter), signature}, documents...), nil
}

// jupyterReader checks and reads the messages of one connection.
type jupyterReader struct {
	key  jupyterKey
	seen map[[sha256.Size]byte]bool
	past [jupyterRemembered][sha256.Size]byte // of seen, a ring
	next int
}

func newJupyterReader(key jupyterKey) *jupyterReader {
	return &jupyterReader{key: key, seen: make(map[[sha256.Size]byte]bool)}
}

// decode reads a message. Of one that was too large the headers are believed
// without a signature, which nobody can check any more; its content is nil.
func (r *jupyterReader) decode(m zmtpMessage) (jupyterMessage, error) {
	start := -1
	for i, frame := range m.frames {
		if string(frame) == jupyterDelimiter {
			start = i
			break
		}
	}
	if start < 0 {
		return jupyterMessage{}, errJupyterShape
	}
	parts := m.frames[start+1:]
	whole := len(parts) >= 5
	if !whole && (m.skipped == 0 || len(parts) < 3) {
		return jupyterMessage{}, errJupyterShape
	}
	message := jupyterMessage{rawHeader: parts[1], skipped: m.skipped}
	if whole { // what was too large was an attachment
		message.content, message.skipped = parts[4], 0
		if err := r.verify(parts[0], parts[1:5]); err != nil {
			return jupyterMessage{}, err
		}
	}
	if err := message.readHeaders(parts[1], parts[2]); err != nil {
		return jupyterMessage{}, err
	}
	return message, nil
}

func (m *jupyterMessage) readHeaders(header, parent []byte) error {
	if err := json.Unmarshal(header, &m.header); err != nil {
		return fmt.Errorf("%w: %w", errJupyterShape, err)
	}
	var above struct {
		ID string `json:"msg_id"`
	}
	if err := json.Unmarshal(parent, &above); err != nil {
		return fmt.Errorf("%w: %w", errJupyterShape, err)
	}
	m.parent = above.ID
	if content := bytes.TrimLeft(m.content, " \t\r\n"); m.content != nil && (len(content) == 0 || content[0] != '{') {
		return errJupyterShape
	}
	return nil
}

// verify refuses a signature that is wrong or has come before.
func (r *jupyterReader) verify(signature []byte, documents [][]byte) error {
	var got [sha256.Size]byte
	if len(signature) != hex.EncodedLen(len(got)) {
		return errJupyterSignature
	}
	if _, err := hex.Decode(got[:], signature); err != nil {
		return errJupyterSignature
	}
	want := r.key.sign(documents)
	if !hmac.Equal(got[:], want[:]) {
		return errJupyterSignature
	}
	if r.seen[got] {
		return errJupyterRepeated
	}
	delete(r.seen, r.past[r.next])
	r.past[r.next] = got
	r.seen[got] = true
	r.next = (r.next + 1) % len(r.past)
	return nil
}
