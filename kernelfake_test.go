//go:build unix

package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fakeKernel is a scripted kernel.
type fakeKernel struct {
	key                 jupyterKey
	iopub, shell, stdin *zmtpConn
	serial              int
}

// playFakeKernel is the fake kernel's program. It does not return.
func playFakeKernel(how string) {
	if how == "address" {
		fmt.Fprintln(os.Stderr, "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:1')")
		os.Exit(1)
	}
	if how == "silent" {
		select {}
	}
	k, err := startFakeKernel(os.Args[slices.Index(os.Args, "-f")+1])
	if err == nil {
		err = k.serve(how)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// startFakeKernel takes the connections of the one client.
func startFakeKernel(file string) (*fakeKernel, error) {
	var address struct {
		kernelAddress
		Key string `json:"key"`
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &address)
	}
	if err != nil {
		return nil, err
	}
	k := &fakeKernel{key: jupyterKey(address.Key)}
	var control *zmtpConn
	var listeners []net.Listener
	for _, port := range []int{address.IOPub, address.Control, address.Stdin, address.Shell} {
		l, err := net.Listen("unix", address.IP+"-"+strconv.Itoa(port))
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
	}
	for i, end := range []**zmtpConn{&k.iopub, &control, &k.stdin, &k.shell} {
		conn, err := listeners[i].Accept()
		if err != nil {
			return nil, err
		}
		socketType := "ROUTER"
		if i == 0 {
			socketType = "PUB"
		}
		if *end, err = newZMTP(conn, socketType, "", 1<<20); err != nil {
			return nil, err
		}
	}
	go func() {
		_, _ = control.readMessage() // a shutdown, or the client's end
		os.Exit(0)
	}()
	return k, nil
}

// serve does what it is asked until the client ends it.
func (k *fakeKernel) serve(how string) error {
	if how == "welcome" {
		k.send(k.iopub, jupyterMessage{}, "iopub_welcome", "{}")
	}
	for infos := 0; ; {
		raw, err := k.shell.readMessage()
		if err != nil {
			return err
		}
		m, err := newJupyterReader(k.key).decode(raw)
		if err != nil {
			return err
		}
		if m.header.Type == "kernel_info_request" {
			infos++
			k.send(k.shell, m, "kernel_info_reply", `{"status":"ok"}`)
			if how == "late" && infos > 2 || how == "prompt" {
				k.send(k.iopub, m, "status", `{"execution_state":"idle"}`)
			}
			continue
		}
		var request struct{ Code string }
		if err := json.Unmarshal(m.content, &request); err != nil {
			return err
		}
		for step := range strings.FieldsSeq(request.Code) {
			k.step(m, step)
		}
	}
}

func (k *fakeKernel) frames(m jupyterMessage, messageType, content string) [][]byte {
	k.serial++
	header := jupyterHeader{ID: strconv.Itoa(k.serial), Type: messageType, Session: "fake"}
	parent := m.rawHeader
	if parent == nil {
		parent = json.RawMessage("{}")
	}
	frames, err := k.key.encode(header, parent, json.RawMessage(content))
	if err != nil {
		panic(err)
	}
	return frames
}

func (k *fakeKernel) send(z *zmtpConn, m jupyterMessage, messageType, content string) {
	_ = z.writeMessage(k.frames(m, messageType, content)...)
}

// step does one word of a cell's code.
func (k *fakeKernel) step(m jupyterMessage, what string) {
	word, text, _ := strings.Cut(what, ":")
	stream := fmt.Sprintf(`{"name":"stdout","text":%q}`, text)
	switch word {
	case "print":
		k.send(k.iopub, m, "stream", stream)
	case "reply":
		k.send(k.shell, m, "execute_reply", `{"status":"ok","execution_count":1}`)
	case "fail":
		k.send(k.shell, m, "execute_reply", `{"status":"error","ename":"E","evalue":"v","traceback":["t"]}`)
	case "abort":
		k.send(k.shell, m, "execute_reply", `{"status":"aborted"}`)
	case "idle":
		k.send(k.iopub, m, "status", `{"execution_state":"idle"}`)
	case "sleep":
		time.Sleep(200 * time.Millisecond)
	case "twice":
		frames := k.frames(m, "stream", stream)
		_ = k.iopub.writeMessage(frames...)
		_ = k.iopub.writeMessage(frames...)
	case "forge":
		frames := k.frames(m, "stream", stream)
		frames[1] = []byte(strings.Repeat("0", 64))
		_ = k.iopub.writeMessage(frames...)
	case "short":
		_ = k.iopub.writeMessage(k.frames(m, "stream", stream)[:3]...)
	case "broken":
		frames := k.frames(m, "stream", stream)
		frames[5] = []byte(`{"name":`)
		sum := k.key.sign(frames[2:6])
		frames[1] = []byte(hex.EncodeToString(sum[:]))
		_ = k.iopub.writeMessage(frames...)
	case "torn":
		_, _ = k.iopub.conn.Write([]byte{0xff, 0xff, 0xff})
	case "ask":
		k.send(k.stdin, m, "input_request", `{"prompt":"?","password":false}`)
		raw, _ := k.stdin.readMessage()
		reply, err := newJupyterReader(k.key).decode(raw)
		k.send(k.iopub, m, "stream", fmt.Sprintf(`{"name":"stdout","text":%q}`, fmt.Sprint(reply.header.Type, reply.parent == strconv.Itoa(k.serial), err)))
	}
}

// newFakeKernel is kernels whose Python is the fake kernel.
func newFakeKernel(t *testing.T, how string) kernelFixture {
	t.Helper()
	f := newKernelFixture(t, func(s *kernelSettings) {
		s.environ = append(slices.Clone(s.environ), fakeKernelVariable+"="+how)
		s.startup = 5 * time.Second
	})
	f.patience = 500 * time.Millisecond
	binary, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec " + shellQuote([]string{binary}) + " -- \"$@\"\n"
	python := f.starter.envs.python("lab")
	if err := errors.Join(os.Remove(python), writeUnshared(python, []byte(script)), os.Chmod(python, 0o700)); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCellEndsInWhateverOrderItsMessagesCome(t *testing.T) {
	t.Parallel()
	f := newFakeKernel(t, "prompt")
	for _, c := range []struct{ name, code, want string }{
		{"reply first", "print:a reply sleep idle", "a"},
		{"idle first", "print:a idle sleep reply", "a"},
		{"output after the reply", "reply sleep print:a idle", "a"},
		{"idle never", "print:a reply", "a"},
		{"reply never", "print:a idle", "a!ReplyLost"},
		{"error in the reply alone", "print:a fail idle", "a!E"},
		{"error in the reply, idle never", "print:a fail", "a!E"},
		{"aborted", "abort idle", "!CellAborted"},
		{"a wrong signature", "forge:x print:a reply idle", "a"},
		{"a repeated message", "twice:a reply idle", "a"},
		{"three frames too few", "short:x print:a reply idle", "a"},
		{"broken JSON", "broken:x print:a reply idle", "a"},
		{"a request for input", "ask reply idle", "input_replytrue <nil>"},
	} {
		if got := shown(f.do(c.code)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestOutputAfterTheEndOfACellIsKept(t *testing.T) {
	t.Parallel()
	f := newFakeKernel(t, "prompt")
	c := f.submit("print:a reply idle sleep print:late")
	f.finish(c)
	f.do("reply idle")
	if got := shown(c.result()); got != "alate" {
		t.Errorf("the first cell shows %q", got)
	}
}

func TestKernelWhoseFramingIsLostIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFakeKernel(t, "prompt")
	if got := shown(f.do("print:a sleep torn")); got != "a!KernelDied" {
		t.Errorf("got %q", got)
	}
	if got := shown(f.do("print:b reply idle")); got != "b" {
		t.Errorf("the next cell gave %q", got)
	}
}

func TestKernelIsReadyOnceItsOutputIsHeard(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"late", "welcome"} {
		f := newFakeKernel(t, how)
		if got := shown(f.do("print:a reply idle")); got != "a" {
			t.Errorf("%s: %q", how, got)
		}
	}
}

func TestKernelThatNeverAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"silent":  "did not start in time",
		"address": "taken by another program in 5 tries",
	} {
		f := newFakeKernel(t, how)
		err := f.start(t.Context(), f.site, "lab", kernelWish{})
		if !isKind(err, kindMissingTool) || !strings.Contains(sentence(err), want) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

func TestShutdownEndsAStart(t *testing.T) {
	t.Parallel()
	f := newFakeKernel(t, "silent")
	failed := make(chan error, 1)
	go func() { failed <- f.start(t.Context(), f.site, "lab", kernelWish{}) }()
	for {
		if s, err := f.status(f.site, "lab"); err == nil && s.state == "starting" {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := f.shutdown(t.Context(), f.site, "lab"); err != nil {
		t.Errorf("shutdown = %v", err)
	}
	if err := <-failed; !isKind(err, kindConflict) {
		t.Errorf("start = %v", err)
	}
}
