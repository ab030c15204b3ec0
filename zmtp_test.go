package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// bytesConn is a connection that gives fixed bytes and swallows what is written.
type bytesConn struct {
	net.Conn
	in io.Reader
}

func (c bytesConn) Read(p []byte) (int, error)     { return c.in.Read(p) }
func (bytesConn) Write(p []byte) (int, error)      { return len(p), nil }
func (bytesConn) SetWriteDeadline(time.Time) error { return nil }
func (bytesConn) Close() error                     { return nil }
func (bytesConn) SetDeadline(time.Time) error      { return nil }

func greetingOf(version byte, mechanism string) []byte {
	greeting := make([]byte, zmtpGreetingSize)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, version
	copy(greeting[12:], mechanism)
	return greeting
}

// zmtpPair returns two ends that have shaken hands.
func zmtpPair(t *testing.T, left, right string, limit int64) (a, b *zmtpConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	made := make(chan *zmtpConn, 1)
	go func() {
		defer close(made)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if z, err := newZMTP(conn, right, "", limit); err == nil {
			made <- z
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err = newZMTP(conn, left, "name", limit)
	if err != nil {
		t.Fatal(err)
	}
	b = <-made
	if b == nil {
		t.Fatal("the other end did not shake hands")
	}
	t.Cleanup(func() { _ = a.close(); _ = b.close() })
	return a, b
}

func TestZMTPMessagesArriveAsTheyWereSent(t *testing.T) {
	t.Parallel()
	a, b := zmtpPair(t, "DEALER", "ROUTER", 10<<20)
	for _, frames := range [][][]byte{
		{{}}, {{1}}, {{}, {}, {}}, {bytes.Repeat([]byte("x"), 255)}, {bytes.Repeat([]byte("x"), 256), {2}}, {bytes.Repeat([]byte("y"), 5<<20)},
	} {
		sent := make(chan error, 1)
		go func() { sent <- a.writeMessage(frames...) }()
		m, err := b.readMessage()
		if err != nil || m.skipped != 0 || !slices.EqualFunc(m.frames, frames, bytes.Equal) {
			t.Errorf("%d frames: got %d, skipped %d, %v", len(frames), len(m.frames), m.skipped, err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
}

func TestZMTPMessageAboveTheLimitIsPassedOver(t *testing.T) {
	t.Parallel()
	a, b := zmtpPair(t, "PUB", "SUB", 1000)
	go func() {
		_ = a.writeMessage([]byte("head"), bytes.Repeat([]byte("x"), 2000), []byte("tail"))
		_ = a.writeMessage([]byte("next"))
	}()
	m, err := b.readMessage()
	if err != nil || len(m.frames) != 1 || m.skipped != 2004 {
		t.Errorf("got %d frames, skipped %d, %v", len(m.frames), m.skipped, err)
	}
	if m, err = b.readMessage(); err != nil || string(m.frames[0]) != "next" {
		t.Errorf("the next message is %q, %v", m.frames, err)
	}
}

func TestZMTPHandshakeRefusesWhatIsNoPeer(t *testing.T) {
	t.Parallel()
	good := greetingOf(3, "NULL")
	ready := func(command []byte) []byte {
		return slices.Concat(good, []byte{zmtpCommand, byte(len(command))}, command)
	}
	for _, c := range []struct {
		name  string
		bytes []byte
	}{
		{"nothing", nil},
		{"another protocol", []byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + strings.Repeat("x", 100))},
		{"an old version", greetingOf(1, "NULL")},
		{"another mechanism", greetingOf(3, "CURVE")},
		{"a message instead of a command", slices.Concat(good, []byte{0, 1, 0})},
		{"an error", ready([]byte("\x05ERROR\x04nope"))},
		{"a torn property", ready([]byte("\x05READY\x0bSocket-Type\x00\x00\x00\xffROUTER"))},
		{"another kind of socket", ready(readyCommand("PUB", ""))},
		{"a huge command", slices.Concat(good, []byte{zmtpCommand | zmtpLong, 0, 0, 0, 1, 0, 0, 0, 0})},
	} {
		if _, err := newZMTP(bytesConn{in: bytes.NewReader(c.bytes)}, "DEALER", "", 1000); err == nil {
			t.Errorf("%s was accepted", c.name)
		}
	}
	if _, err := newZMTP(bytesConn{in: bytes.NewReader(ready(readyCommand("ROUTER", "x")))}, "DEALER", "", 1000); err != nil {
		t.Errorf("a peer was refused: %v", err)
	}
}

func FuzzZMTPReader(f *testing.F) {
	f.Add([]byte{0, 1, 'a'})
	f.Add([]byte{1, 1, 'a', 0, 0})
	f.Add([]byte{4, 5, 4, 'P', 'I', 'N', 'G', 0, 0})
	f.Add([]byte{2, 0, 0, 0, 0, 0, 0, 0, 2, 'a', 'b'})
	f.Add([]byte{2, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'a'})
	f.Add([]byte{2, 0xff, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0x10, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 64
		stream := slices.Concat(greetingOf(3, "NULL"), []byte{zmtpCommand, byte(len(readyCommand("PUB", "")))}, readyCommand("PUB", ""), data)
		z, err := newZMTP(bytesConn{in: bytes.NewReader(stream)}, "SUB", "", limit)
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for {
			m, err := z.readMessage()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errZMTPFraming) {
					t.Errorf("unexpected error %v", err)
				}
				return
			}
			size := 0
			for _, frame := range m.frames {
				size += len(frame)
			}
			total += size
			if size > limit || len(m.frames) > zmtpFrameCount || total > len(data) {
				t.Errorf("a message of %d bytes in %d frames", size, len(m.frames))
			}
		}
	})
}

func FuzzZMTPHandshake(f *testing.F) {
	f.Add(readyCommand("ROUTER", "id"))
	f.Add([]byte("\x05READY"))
	f.Add([]byte("\x05READY\xff"))
	f.Add([]byte("\x05READY\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, command []byte) {
		if name, err := parseReady(command); err == nil && len(name) > len(command) {
			t.Errorf("a socket type of %d bytes out of %d", len(name), len(command))
		}
	})
}
