package main

// A client of one running kernel: its connections and who reads them. Each
// connection has a goroutine that reads it and waits for nobody, because a
// kernel throws output away that is not taken from it.

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	// kernelMessageLimit is how much of one message is kept: the output of a
	// whole cell and what goes with it.
	kernelMessageLimit = cellOutputLimit + 1<<20
	// kernelReplyLimit is the same for answers, which carry no output.
	kernelReplyLimit = 16 << 20

	kernelHandshake = 10 * time.Second
	kernelAskAgain  = 100 * time.Millisecond
	kernelUser      = "agent-runtime"
)

var errHungUp = errors.New("the kernel hung up")

// kernelAddress is what a connection file tells, in its own terms.
type kernelAddress struct {
	Transport string     `json:"transport"` // ipc or tcp
	IP        string     `json:"ip"`        // of ipc: the beginning of the sockets' paths
	Shell     int        `json:"shell_port"`
	IOPub     int        `json:"iopub_port"`
	Stdin     int        `json:"stdin_port"`
	Control   int        `json:"control_port"`
	Heartbeat int        `json:"hb_port"`
	Key       jupyterKey `json:"-"`
}

func (a kernelAddress) dial(ctx context.Context, port int) (net.Conn, error) {
	var d net.Dialer
	if a.Transport == "ipc" {
		return d.DialContext(ctx, "unix", a.IP+"-"+strconv.Itoa(port))
	}
	return d.DialContext(ctx, "tcp", net.JoinHostPort(a.IP, strconv.Itoa(port)))
}

// kernelListener is told what comes from a kernel. Its functions are called
// by the goroutine that reads and must not wait for anything.
type kernelListener struct {
	published func(jupyterMessage) // of the output channel, belonging to a request
	answered  func(jupyterMessage) // of the shell channel: execute_reply
}

// kernelClient talks with one kernel.
type kernelClient struct {
	key     jupyterKey
	session string
	to      kernelListener
	log     *slog.Logger

	shell, control, stdin, iopub *zmtpConn

	live    chan struct{} // closed when the output channel has brought something
	drained chan struct{} // closed when the output channel has come to its end
	broken  chan struct{} // closed when a connection has ended
	readers sync.WaitGroup

	mu    sync.Mutex               // guards asked
	asked map[string]chan struct{} // closed when the answer to that request comes
}

// dialKernel connects to a kernel, the output channel first. Nothing is
// retried: an error may mean that the kernel has not come so far yet.
func dialKernel(ctx context.Context, a kernelAddress, to kernelListener, log *slog.Logger) (*kernelClient, error) {
	c := &kernelClient{
		key: a.Key, session: rand.Text(), to: to, log: log,
		live: make(chan struct{}), drained: make(chan struct{}), broken: make(chan struct{}),
		asked: make(map[string]chan struct{}),
	}
	channels := []struct {
		conn       **zmtpConn
		socketType string
		port       int
		limit      int64
	}{
		{&c.iopub, "SUB", a.IOPub, kernelMessageLimit},
		{&c.control, "DEALER", a.Control, kernelReplyLimit},
		{&c.stdin, "DEALER", a.Stdin, kernelReplyLimit},
		{&c.shell, "DEALER", a.Shell, kernelReplyLimit},
	}
	for _, ch := range channels {
		conn, err := c.connect(ctx, a, ch.port, ch.socketType, ch.limit)
		if err != nil {
			c.hangUp()
			return nil, err
		}
		*ch.conn = conn
	}
	if err := c.iopub.subscribe(); err != nil {
		c.hangUp()
		return nil, err
	}
	c.readers.Go(func() { // these end with their connection
		c.read(c.iopub, c.fromIOPub)
		close(c.drained)
	})
	c.readers.Go(func() { c.read(c.shell, c.fromShell) })
	c.readers.Go(func() { c.read(c.control, c.fromShell) })
	c.readers.Go(func() { c.read(c.stdin, c.fromStdin) })
	return c, nil
}

func (c *kernelClient) connect(ctx context.Context, a kernelAddress, port int, socketType string, limit int64) (*zmtpConn, error) {
	conn, err := a.dial(ctx, port)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(kernelHandshake))
	z, err := newZMTP(conn, socketType, c.session, limit)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return z, conn.SetDeadline(time.Time{})
}

// hangUp closes all connections; those who read them end.
func (c *kernelClient) hangUp() {
	for _, z := range []*zmtpConn{c.iopub, c.control, c.stdin, c.shell} {
		if z != nil {
			_ = z.close()
		}
	}
}

// close hangs up and waits for the readers.
func (c *kernelClient) close() {
	c.hangUp()
	c.readers.Wait()
}

func (c *kernelClient) read(z *zmtpConn, handle func(jupyterMessage)) {
	reader := newJupyterReader(c.key)
	for {
		raw, err := z.readMessage()
		if err != nil {
			c.log.Debug("kernel connection ended", "err", err)
			c.breakOff()
			return
		}
		message, err := reader.decode(raw)
		if err != nil {
			c.log.Warn("message of a kernel dropped", "err", err)
			continue
		}
		handle(message)
	}
}

func (c *kernelClient) breakOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	closeOnce(c.broken)
}

func (c *kernelClient) goLive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	closeOnce(c.live)
}

func (c *kernelClient) fromIOPub(m jupyterMessage) {
	c.goLive()
	if m.parent != "" {
		c.to.published(m)
	}
}

func (c *kernelClient) fromShell(m jupyterMessage) {
	if m.header.Type == "execute_reply" {
		c.to.answered(m)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.asked[m.parent]; ok {
		closeOnce(answer)
		delete(c.asked, m.parent)
	}
}

// fromStdin answers a request for input, which a kernel that was told that
// there is nobody to ask should not make, with an empty line.
func (c *kernelClient) fromStdin(m jupyterMessage) {
	if m.header.Type != "input_request" {
		return
	}
	err := c.send(c.stdin, rand.Text(), "input_reply", m.rawHeader, map[string]string{"value": ""})
	if err != nil {
		c.log.Warn("input request of a kernel not answered", "err", err)
	}
}

func (c *kernelClient) send(z *zmtpConn, id, messageType string, parent json.RawMessage, content any) error {
	header := jupyterHeader{ID: id, Type: messageType, Session: c.session, Username: kernelUser}
	frames, err := c.key.encode(header, parent, content)
	if err != nil {
		return err
	}
	return z.writeMessage(frames...)
}

// ask sends a request whose answer says no more than that there is one.
func (c *kernelClient) ask(z *zmtpConn, messageType string, content any) (answered <-chan struct{}, err error) {
	id := rand.Text()
	answer := make(chan struct{})
	c.mu.Lock()
	c.asked[id] = answer
	c.mu.Unlock()
	return answer, c.send(z, id, messageType, nil, content)
}

// ready returns when the kernel answers and its output channel is known to be
// live, so that the first cell loses nothing. A subscription takes effect some
// time after it was made, so the kernel is asked for signs of life until one
// comes through.
func (c *kernelClient) ready(ctx context.Context) error {
	for {
		answered, err := c.ask(c.shell, "kernel_info_request", struct{}{})
		if err != nil {
			return err
		}
		select {
		case <-answered:
		case <-c.broken:
			return errHungUp
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-c.live:
			return nil
		case <-c.broken:
			return errHungUp
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(kernelAskAgain):
		}
	}
}

// wake gives the kernel's event loop something to do. It does not wait.
func (c *kernelClient) wake() error {
	_, err := c.ask(c.shell, "kernel_info_request", struct{}{})
	return err
}

// execute asks the kernel to run code. What comes of it goes to the listener,
// under the request's id.
func (c *kernelClient) execute(id, code string) error {
	return c.send(c.shell, id, "execute_request", nil, map[string]any{
		"code": code, "silent": false, "store_history": true, "user_expressions": struct{}{},
		"allow_stdin": false, "stop_on_error": false,
	})
}

// shutdown asks the kernel to end. It does not wait.
func (c *kernelClient) shutdown() error {
	_, err := c.ask(c.control, "shutdown_request", map[string]bool{"restart": false})
	return err
}
