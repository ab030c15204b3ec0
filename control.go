package main

// The command line talks to the running runtime through a Unix socket in a
// folder that only this account can enter. A connection carries one request
// and one reply, each a line of JSON.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	controlSocket = "control.sock"
	controlLock   = "control.lock"

	// controlTime is how long a whole exchange may take.
	controlTime = 5 * time.Second

	// controlConnections is how many exchanges go on at once; more wait.
	controlConnections = 8

	controlRequestLimit = 4 << 10
	controlReplyLimit   = 64 << 20 // some questions list every command of a lab
)

// The things that a runtime can be asked to do.
const (
	controlQuestions = "questions" // tell the open questions
	controlAnswer    = "answer"    // answer the question ID with Yes
	controlReload    = "reload"    // act on a change of the state file or the certificate
)

// controlRequest is what the command line asks of the runtime.
type controlRequest struct {
	Do  string `json:"do"`
	ID  string `json:"id,omitempty"`
	Yes bool   `json:"yes,omitempty"`
}

// controlReply is the runtime's answer.
type controlReply struct {
	Problem   string            `json:"problem,omitempty"` // for a person; empty: done
	Questions []controlQuestion `json:"questions,omitempty"`
}

// controlQuestion is an open question with all that the terminal shows of it.
// Its text is safe to print.
type controlQuestion struct {
	ID      string    `json:"id"`
	Title   string    `json:"title"`
	Body    []string  `json:"body"`
	Asked   time.Time `json:"asked"`
	Waiting int       `json:"waiting"` // requests that wait for the answer
	Shown   bool      `json:"shown"`   // what is typed in the runtime's terminal answers it
}

// controlServer holds the control socket of a data folder. While one does, no
// second runtime can serve that folder.
type controlServer struct {
	listener  net.Listener
	unlock    func()
	questions *questions
	reload    func()
	log       *slog.Logger
}

// listenControl makes the control socket of the data folder dir, over what a
// runtime that was killed left there. Requests wait until serve is called.
// reload is called when the state file changed, by several goroutines at once
// even; it must not block.
func listenControl(dir string, q *questions, reload func(), log *slog.Logger) (*controlServer, error) {
	folder, err := socketFolder(dir)
	if err != nil {
		return nil, err
	}
	unlock, err := lockFile(filepath.Join(folder, controlLock), 0)
	if errors.Is(err, errLocked) {
		return nil, problemf(kindConflict, "Another runtime is already running with the data folder %s: end it first, "+
			"or choose another folder with AGENT_RUNTIME_RUNTIME_DIR.", dir).because(err)
	}
	if err != nil {
		return nil, err
	}
	listener, err := listenPrivate(filepath.Join(folder, controlSocket))
	if err != nil {
		unlock()
		return nil, problemf(kindInternal, "The control socket in %s cannot be made.", folder).because(err)
	}
	return &controlServer{listener: listener, unlock: unlock, questions: q, reload: reload, log: log}, nil
}

// listenPrivate makes a socket at path that only this account may use. Nobody
// else listens there: the caller holds the lock.
func listenPrivate(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// serve answers requests until ctx ends, then removes the socket and returns
// once the exchanges going on are over.
func (c *controlServer) serve(ctx context.Context) {
	var exchanges sync.WaitGroup
	defer c.unlock()
	defer exchanges.Wait()
	stop := context.AfterFunc(ctx, func() { _ = c.listener.Close() })
	defer stop()
	slots := make(chan struct{}, controlConnections)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			c.log.Warn("control connection not accepted", "error", err)
			<-slots
			time.Sleep(100 * time.Millisecond) // such as too many open files
			continue
		}
		exchanges.Go(func() { // ends within controlTime
			defer func() { <-slots }()
			c.exchange(ctx, conn)
		})
	}
}

// exchange answers the one request of conn and closes it.
func (c *controlServer) exchange(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(controlTime))
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer stop()
	var req controlRequest
	if err := readJSONLine(conn, controlRequestLimit, &req); err != nil {
		c.log.Debug("control request not read", "error", err)
		return
	}
	if err := writeJSONLine(conn, c.handle(req)); err != nil {
		c.log.Debug("control reply not written", "error", err)
	}
}

func (c *controlServer) handle(req controlRequest) controlReply {
	switch req.Do {
	case controlQuestions:
		return controlReply{Questions: tellQuestions(c.questions.list())}
	case controlAnswer:
		if err := c.questions.answer(req.ID, req.Yes); err != nil {
			return controlReply{Problem: err.Error()}
		}
		c.log.Info("question answered from another terminal", "question", req.ID, "yes", req.Yes)
		return controlReply{}
	case controlReload:
		c.reload()
		return controlReply{}
	default:
		return controlReply{Problem: "The running runtime does not know this request: it may be of another version, restart it."}
	}
}

func tellQuestions(list []question) []controlQuestion {
	told := make([]controlQuestion, len(list))
	for i, what := range list {
		told[i] = controlQuestion{ID: what.id, Title: visible(what.title), Asked: what.asked, Waiting: what.waiting, Shown: what.shown}
		for _, line := range what.body {
			told[i].Body = append(told[i].Body, visible(line))
		}
	}
	return told
}

// callControl asks the runtime that runs with the data folder dir. It gives a
// problem of kindNoCapacity when none runs, and one when the runtime says so.
func callControl(dir string, req controlRequest) (controlReply, error) {
	folder, err := socketFolder(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // of the data folder itself
		return controlReply{}, err
	}
	conn, err := net.DialTimeout("unix", filepath.Join(folder, controlSocket), controlTime)
	if err != nil {
		return controlReply{}, problemf(kindNoCapacity, "No runtime is running with the data folder %s: "+
			"start it with `agent-runtime serve`.", dir).because(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(controlTime))
	var reply controlReply
	err = writeJSONLine(conn, req)
	if err == nil {
		err = readJSONLine(conn, controlReplyLimit, &reply)
	}
	if err != nil {
		return controlReply{}, problemf(kindTooSlow, "The running runtime did not answer: it may be about to end, try again.").because(err)
	}
	if reply.Problem != "" {
		return controlReply{}, problemf(kindConflict, "%s", reply.Problem)
	}
	return reply, nil
}

// readJSONLine reads one line of JSON of at most limit bytes into v.
func readJSONLine(r io.Reader, limit int64, v any) error {
	line, err := bufio.NewReader(io.LimitReader(r, limit)).ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

func writeJSONLine(w io.Writer, v any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(line.Bytes())
	return err
}
