package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipeListener accepts the far ends of pipes, so that a web server and its
// clients live on the clock of a bubble.
type pipeListener struct {
	conns chan net.Conn
	ended chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.ended); return nil }
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// bubbleServer serves the whole chain around a server that has nothing
// behind it but questions, and returns what connects to it.
func bubbleServer(t *testing.T) (dial func() net.Conn, q *questions) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	state, err := openState(t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	q = newQuestions(8, testTimeout)
	base, end := context.WithCancel(t.Context())
	s := &server{cfg: defaultConfig(""), log: log, state: state, shutdown: base, pairings: newPairings(state, q, log), runs: &runs{}, kernels: &kernels{}, sandboxes: &sandboxes{}}
	web := newHTTPServer(base, newHandler(s), log)
	l := &pipeListener{conns: make(chan net.Conn), ended: make(chan struct{})}
	served := make(chan struct{})
	go func() { // ends with the listener
		_ = web.Serve(l)
		close(served)
	}()
	t.Cleanup(func() {
		end()
		_ = web.Close()
		<-served
	})
	return func() net.Conn {
		here, there := net.Pipe()
		t.Cleanup(func() { _ = here.Close() })
		l.conns <- there
		return here
	}, q
}

// ask writes the beginning of a request; the Host is that of a pipe.
func ask(t *testing.T, conn net.Conn, head, body string) {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: 127.0.0.1:\r\n%s", head, body); err != nil {
		t.Error(err)
	}
}

// readAnswer reads an answer and how long it took to come.
func readAnswer(t *testing.T, conn net.Conn) (status int, body string, took time.Duration) {
	t.Helper()
	began := time.Now()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(data), time.Since(began)
}

func TestBodyThatDoesNotComeIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"read by the handler":          {"POST /pairing/request", http.StatusRequestTimeout},
		"of a route without a body":    {"GET /health", http.StatusOK},
		"of a caller who is refused":   {"POST /labs/prepare", http.StatusUnauthorized},
		"for a path that is not there": {"POST /nothing", http.StatusNotFound},
	} {
		for _, length := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
			t.Run(name+", "+length, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					dial, _ := bubbleServer(t)
					conn := dial()
					ask(t, conn, c.head, "Origin: https://course.example\r\nContent-Type: application/json\r\n"+length+"\r\n\r\n")
					status, _, took := readAnswer(t, conn)
					if status != c.status || took > bodyTimeout {
						t.Errorf("status %d after %v, want %d within %v", status, took, c.status, bodyTimeout)
					}
				})
			})
		}
	}
}

func TestClientThatTakesNoAnswerIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial, _ := bubbleServer(t)
		conn := dial()
		ask(t, conn, "GET /health", "\r\n")
		time.Sleep(writeTimeout + time.Second)
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read = %v, want a closed connection", err)
		}
	})
}

func TestIdleAndSilentConnectionsEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sends string
		limit time.Duration
	}{
		"silent from the start": {"", headerTimeout},
		"half a header":         {"GET /health HTTP/1.1\r\nHost: 127.0.0.1:\r\nX-Slow: ", headerTimeout},
		"idle after an answer":  {"GET /health HTTP/1.1\r\nHost: 127.0.0.1:\r\n\r\n", idleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dial, _ := bubbleServer(t)
				conn := dial()
				began := time.Now()
				go func() { _, _ = io.WriteString(conn, c.sends) }() // ends with the pipe
				_, _ = io.Copy(io.Discard, conn)
				if took := time.Since(began); took > c.limit+time.Second {
					t.Errorf("the connection ended after %v, want %v", took, c.limit)
				}
			})
		})
	}
}

func TestLongAnswerIsSparedByTheTimeouts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial, q := bubbleServer(t)
		conn := dial()
		ask(t, conn, "POST /pairing/request", "Origin: https://course.example\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n{\"scope\":\"actions\"}")
		go func() { // ends with the answer
			time.Sleep(testTimeout - time.Second)
			_ = q.answer(q.list()[0].id, true)
		}()
		status, body, took := readAnswer(t, conn)
		if status != http.StatusOK || took < testTimeout-2*time.Second || !strings.Contains(body, `"scope":"actions"`) {
			t.Errorf("status %d after %v, body %s", status, took, body)
		}
		ask(t, conn, "GET /health", "\r\n")
		if status, _, _ := readAnswer(t, conn); status != http.StatusOK {
			t.Errorf("the connection's next request: status %d", status)
		}
	})
}

func TestPanicAnswers500AndTheProcessLives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial, _ := bubbleServer(t)
		conn := dial()
		// This server has no labs, so starting an action of one panics.
		body := `{"lab_id":"a","commit":"b","action":"c"}`
		ask(t, conn, "POST /labs/runs", fmt.Sprintf("Origin: http://localhost:3000\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		status, body, _ := readAnswer(t, conn)
		if status != http.StatusInternalServerError || !strings.Contains(body, `{"detail":"`) || strings.Contains(body, "nil") {
			t.Errorf("status %d, body %s", status, body)
		}
		ask(t, conn, "GET /health", "\r\n")
		if status, _, _ := readAnswer(t, conn); status != http.StatusOK {
			t.Errorf("after it: status %d", status)
		}
	})
}
