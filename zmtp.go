package main

// The part of the ZeroMQ message transport protocol 3.0 that a Jupyter client
// speaks: greeting, NULL security, whole messages of frames. Bytes come from
// another process, so every size is bounded before memory is taken for it.

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	zmtpGreetingSize = 64
	zmtpMechanism    = "NULL"

	// zmtpCommandLimit bounds a command, of which only the handshake's is read.
	zmtpCommandLimit = 4096
	// zmtpFrameCount bounds the frames of one message that are kept. A Jupyter
	// message has six, its routing names, and a few binary attachments.
	zmtpFrameCount = 64
	// zmtpTrust is how many bytes are taken on the word of a frame's header,
	// before any of them has come.
	zmtpTrust = 1 << 20
	// zmtpWriteTimeout is how long a peer may leave a message unread.
	zmtpWriteTimeout = 10 * time.Second

	zmtpMore    = 1
	zmtpLong    = 2
	zmtpCommand = 4
)

// zmtpPeers lists which socket types may be at the other end of which.
var zmtpPeers = map[string][]string{
	"DEALER": {"ROUTER", "DEALER", "REP"},
	"ROUTER": {"DEALER", "ROUTER", "REQ"},
	"SUB":    {"PUB", "XPUB"},
	"PUB":    {"SUB", "XSUB"},
}

var errZMTPFraming = errors.New("the peer does not keep to ZMTP 3")

// zmtpMessage is one message. When it was larger than the reader's limit, the
// frames that fitted are in frames and skipped counts the bytes of the others.
type zmtpMessage struct {
	frames  [][]byte
	skipped int64
}

// zmtpConn is an open connection. One goroutine may read while others write.
// Any error of a read means that the connection is of no more use.
type zmtpConn struct {
	conn  net.Conn
	in    *bufio.Reader
	limit int64 // bytes of one message that are kept

	writing sync.Mutex // held while a message is written, so that none is torn
}

// newZMTP shakes hands over conn as a socket of the given type and name. The
// caller bounds the time by conn's deadline, and owns conn when this fails.
func newZMTP(conn net.Conn, socketType, identity string, limit int64) (*zmtpConn, error) {
	z := &zmtpConn{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), limit: limit}
	if err := z.greet(); err != nil {
		return nil, err
	}
	if err := z.writeFrames(zmtpCommand, readyCommand(socketType, identity)); err != nil {
		return nil, err
	}
	command, err := z.readCommand()
	if err != nil {
		return nil, err
	}
	peer, err := parseReady(command)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(zmtpPeers[socketType], peer) {
		return nil, fmt.Errorf("%w: a %s cannot talk with a %q", errZMTPFraming, socketType, peer)
	}
	return z, nil
}

func (z *zmtpConn) greet() error {
	var greeting [zmtpGreetingSize]byte
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:32], zmtpMechanism)
	if _, err := z.conn.Write(greeting[:]); err != nil {
		return err
	}
	if _, err := io.ReadFull(z.in, greeting[:]); err != nil {
		return err
	}
	if greeting[0] != 0xff || greeting[9] != 0x7f || greeting[10] < 3 {
		return fmt.Errorf("%w: its greeting is not one", errZMTPFraming)
	}
	if mechanism := string(bytes.TrimRight(greeting[12:32], "\x00")); mechanism != zmtpMechanism {
		return fmt.Errorf("%w: it wants security %q", errZMTPFraming, mechanism)
	}
	return nil
}

func readyCommand(socketType, identity string) []byte {
	command := []byte("\x05READY")
	for _, property := range [][2]string{{"Socket-Type", socketType}, {"Identity", identity}} {
		command = append(command, byte(len(property[0])))
		command = append(command, property[0]...)
		command = binary.BigEndian.AppendUint32(command, uint32(len(property[1])))
		command = append(command, property[1]...)
	}
	return command
}

// parseReady returns the socket type that a READY command names.
func parseReady(command []byte) (string, error) {
	rest, ok := bytes.CutPrefix(command, []byte("\x05READY"))
	if !ok {
		return "", fmt.Errorf("%w: it answered the handshake with %.40q", errZMTPFraming, command)
	}
	socketType := ""
	for len(rest) > 0 {
		nameEnd := 1 + int(rest[0])
		if len(rest) < nameEnd+4 {
			return "", fmt.Errorf("%w: torn handshake", errZMTPFraming)
		}
		name := string(rest[1:nameEnd])
		size := binary.BigEndian.Uint32(rest[nameEnd:])
		rest = rest[nameEnd+4:]
		if uint64(size) > uint64(len(rest)) {
			return "", fmt.Errorf("%w: torn handshake", errZMTPFraming)
		}
		if name == "Socket-Type" {
			socketType = string(rest[:size])
		}
		rest = rest[size:]
	}
	return socketType, nil
}

func (z *zmtpConn) readCommand() ([]byte, error) {
	flags, size, err := z.readHeader()
	if err != nil {
		return nil, err
	}
	if flags&zmtpCommand == 0 || size > zmtpCommandLimit {
		return nil, fmt.Errorf("%w: no handshake", errZMTPFraming)
	}
	return z.readBody(size)
}

// readMessage returns the next message. Commands between messages are passed over.
func (z *zmtpConn) readMessage() (zmtpMessage, error) {
	var m zmtpMessage
	room := z.limit
	for {
		flags, size, err := z.readHeader()
		if err != nil {
			return zmtpMessage{}, err
		}
		keep := flags&zmtpCommand == 0 && m.skipped == 0 && size <= room && len(m.frames) < zmtpFrameCount
		if !keep {
			if err := z.discard(size); err != nil {
				return zmtpMessage{}, err
			}
			if flags&zmtpCommand != 0 {
				continue
			}
			m.skipped += max(size, 1)
		} else {
			frame, err := z.readBody(size)
			if err != nil {
				return zmtpMessage{}, err
			}
			m.frames = append(m.frames, frame)
			room -= size
		}
		if flags&zmtpMore == 0 {
			return m, nil
		}
	}
}

func (z *zmtpConn) readHeader() (flags byte, size int64, err error) {
	if flags, err = z.in.ReadByte(); err != nil {
		return 0, 0, err
	}
	if flags&^(zmtpMore|zmtpLong|zmtpCommand) != 0 || flags&zmtpCommand != 0 && flags&zmtpMore != 0 {
		return 0, 0, fmt.Errorf("%w: a frame begins with %#x", errZMTPFraming, flags)
	}
	if flags&zmtpLong == 0 {
		short, err := z.in.ReadByte()
		return flags, int64(short), noEOF(err)
	}
	var long [8]byte
	if _, err := io.ReadFull(z.in, long[:]); err != nil {
		return 0, 0, noEOF(err)
	}
	size = int64(binary.BigEndian.Uint64(long[:]))
	if size < 0 {
		return 0, 0, fmt.Errorf("%w: a frame has an impossible size", errZMTPFraming)
	}
	return flags, size, nil
}

// readBody reads a frame's bytes. Memory beyond zmtpTrust is taken as the
// bytes come, at most double what has come.
func (z *zmtpConn) readBody(size int64) ([]byte, error) {
	body := make([]byte, 0, min(size, zmtpTrust))
	for int64(len(body)) < size {
		if len(body) == cap(body) {
			body = slices.Grow(body, int(min(size-int64(len(body)), int64(len(body)))))
		}
		end := min(int64(cap(body)), size)
		n, err := io.ReadFull(z.in, body[len(body):end])
		body = body[:len(body)+n]
		if err != nil {
			return nil, noEOF(err)
		}
	}
	return body, nil
}

func (z *zmtpConn) discard(size int64) error {
	_, err := io.CopyN(io.Discard, z.in, size)
	return noEOF(err)
}

// noEOF tells a connection that ended within a frame from one that ended.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeMessage sends frames as one message.
func (z *zmtpConn) writeMessage(frames ...[]byte) error { return z.writeFrames(0, frames...) }

func (z *zmtpConn) writeFrames(flags byte, frames ...[]byte) error {
	size := 0
	for _, frame := range frames {
		size += len(frame) + 9
	}
	wire := make([]byte, 0, size)
	for i, frame := range frames {
		f := flags
		if i < len(frames)-1 {
			f |= zmtpMore
		}
		if len(frame) > 255 {
			wire = append(wire, f|zmtpLong)
			wire = binary.BigEndian.AppendUint64(wire, uint64(len(frame)))
		} else {
			wire = append(wire, f, byte(len(frame)))
		}
		wire = append(wire, frame...)
	}
	z.writing.Lock()
	defer z.writing.Unlock()
	if err := z.conn.SetWriteDeadline(time.Now().Add(zmtpWriteTimeout)); err != nil {
		return err
	}
	_, err := z.conn.Write(wire)
	return err
}

// subscribe asks a publisher for everything.
func (z *zmtpConn) subscribe() error { return z.writeMessage([]byte{1}) }

func (z *zmtpConn) close() error { return z.conn.Close() }
