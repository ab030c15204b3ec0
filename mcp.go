package main

// The Model Context Protocol server: a session with one agent over a pair of
// streams. What ends a call ends its request to the runtime; a run that goes
// on there goes on.

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// mcpCallsAtOnce is how many calls may go on in one session.
	mcpCallsAtOnce = 64
	// mcpEnd is how long calls may take to end with the session.
	mcpEnd = time.Second
)

// mcpVersions are the protocol's versions that are spoken, the newest first.
var mcpVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// mcpBatches is the one version in which messages may come as a list.
const mcpBatches = "2025-03-26"

const mcpInstructions = "Runs things on the user's own computer through agent-runtime, which asks the user in its terminal before a lab is used. " +
	"list_labs tells what can be started; prepare_lab makes a lab ready; run_action, read_run and stop_run are for its actions, " +
	"run_python is for Python in its environment, and the sandbox tools run commands without network or the user's files. " +
	"Long output is told with its beginning and end, and with the offset at which the same tool reads on."

// mcpSession is a session with one agent.
type mcpSession struct {
	client  *runtimeClient
	tools   []tool
	version string // of this program
	out     *mcpWriter

	mu         sync.Mutex // guards the rest
	negotiated string     // the protocol's version; "" before initialize
	calls      map[rpcID]context.CancelFunc
	over       bool // no more calls begin
	group      sync.WaitGroup
}

func newMCPSession(client *runtimeClient, version string, out io.Writer) *mcpSession {
	return &mcpSession{
		client: client, tools: slices.Concat(labToolbox(), pythonToolbox(), sandboxToolbox()), version: version,
		out: &mcpWriter{out: out, gone: make(chan struct{})}, calls: make(map[rpcID]context.CancelFunc),
	}
}

// serve answers what in says until it ends, or ctx does, or nobody reads the
// answers. A read that is going on then is left behind.
func (s *mcpSession) serve(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	read := make(chan error, 1)
	go func() { read <- s.read(ctx, newRPCReader(in)) }() // ends with the input, or with the program
	var err error
	select {
	case err = <-read:
	case <-s.out.gone:
		err = problemf(kindInternal, "The agent does not read the answers any more.")
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	cancel()
	ended := make(chan struct{})
	go func() { // ends with the calls; one that writes to an agent that does not read is left behind
		s.group.Wait()
		close(ended)
	}()
	waitFor(ended, mcpEnd)
	return err
}

func (s *mcpSession) read(ctx context.Context, in *rpcReader) error {
	for {
		messages, batch, err := in.next()
		switch {
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return nil
		case err != nil:
			return problemf(kindInternal, "The agent's messages cannot be read.").because(err)
		case batch:
			s.handleBatch(ctx, messages)
		default:
			s.handle(ctx, messages[0], func(reply *rpcReply) {
				if reply != nil {
					s.out.write(reply)
				}
			})
		}
	}
}

// handleBatch answers a list of messages with a list, once all are done.
func (s *mcpSession) handleBatch(ctx context.Context, messages []rpcMessage) {
	s.mu.Lock()
	allowed := s.negotiated == mcpBatches
	s.mu.Unlock()
	if !allowed {
		s.out.write(failure(rpcNoID, rpcErrorf(rpcInvalid, "Lists of messages are part of the protocol's version %s alone; send one message a line.", mcpBatches)))
		return
	}
	var mu sync.Mutex // guards the rest
	var replies []*rpcReply
	left := len(messages)
	for _, m := range messages {
		s.handle(ctx, m, func(reply *rpcReply) {
			mu.Lock()
			defer mu.Unlock()
			if reply != nil {
				replies = append(replies, reply)
			}
			if left--; left == 0 && len(replies) > 0 {
				s.out.write(replies)
			}
		})
	}
}

// handle answers a message: done is called once, now or later, with nil when
// there is no answer.
func (s *mcpSession) handle(ctx context.Context, m rpcMessage, done func(*rpcReply)) {
	switch {
	case m.id == "":
		s.notice(m)
		done(nil)
	case m.flaw != nil:
		done(failure(m.id, m.flaw))
	case m.method == "tools/call":
		s.call(ctx, m, done)
	case m.method == "":
		done(nil)
	default:
		result, err := s.answer(m)
		if err != nil {
			done(failure(m.id, err))
			return
		}
		done(success(m.id, result))
	}
}

func success(id rpcID, result any) *rpcReply {
	return &rpcReply{Version: "2.0", ID: id, Result: result}
}

func failure(id rpcID, err *rpcError) *rpcReply {
	return &rpcReply{Version: "2.0", ID: id, Error: err}
}

// notice takes a notification. Those that mean nothing here are passed over.
func (s *mcpSession) notice(m rpcMessage) {
	if m.flaw != nil || m.method != "notifications/cancelled" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.calls[parseRPCID(m.params["requestId"])]; cancel != nil {
		cancel()
	}
}

// answer answers a request that takes no time.
func (s *mcpSession) answer(m rpcMessage) (any, *rpcError) {
	switch m.method {
	case "initialize":
		return s.initialize(m)
	case "ping":
		return struct{}{}, nil
	case "tools/list":
		if err := s.begun(); err != nil {
			return nil, err
		}
		var cursor string
		if raw := m.params["cursor"]; raw != nil && (json.Unmarshal(raw, &cursor) != nil || cursor != "") {
			return nil, rpcErrorf(rpcInvalidParams, "There is no such cursor: all tools come at once.")
		}
		list := make([]map[string]any, len(s.tools))
		for i, t := range s.tools {
			list[i] = t.describe()
		}
		return map[string]any{"tools": list}, nil
	}
	return nil, rpcErrorf(rpcUnknownMethod, "The method %q is not known; there are initialize, ping, tools/list and tools/call.", shorten(m.method, 100))
}

// begun says that the session has not begun, when it has not.
func (s *mcpSession) begun() *rpcError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.negotiated == "" {
		return rpcErrorf(rpcInvalid, "The session has not begun: send initialize first.")
	}
	return nil
}

func (s *mcpSession) initialize(m rpcMessage) (any, *rpcError) {
	var wanted string
	if json.Unmarshal(m.params["protocolVersion"], &wanted) != nil {
		return nil, rpcErrorf(rpcInvalidParams, "initialize needs the member \"protocolVersion\", a string such as %q.", mcpVersions[0])
	}
	if !slices.Contains(mcpVersions, wanted) {
		wanted = mcpVersions[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.negotiated != "" {
		return nil, rpcErrorf(rpcInvalid, "The session has begun already: initialize comes once.")
	}
	s.negotiated = wanted
	return map[string]any{
		"protocolVersion": wanted,
		"capabilities":    map[string]any{"tools": struct{}{}},
		"serverInfo":      map[string]any{"name": "agent-runtime", "title": "agent-runtime", "version": s.version},
		"instructions":    mcpInstructions,
	}, nil
}

// call begins a call of a tool; done is called when it has ended.
func (s *mcpSession) call(ctx context.Context, m rpcMessage, done func(*rpcReply)) {
	t, given, err := s.toolOf(m)
	if err == nil {
		err = s.begun()
	}
	if err != nil {
		done(failure(m.id, err))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	if answer, refused := s.enter(m.id, cancel, func() { s.runCall(ctx, m, t, given, done) }); refused {
		cancel()
		done(answer)
	}
}

// enter begins work for a call, which cancel ends, unless there can be none.
func (s *mcpSession) enter(id rpcID, cancel context.CancelFunc, work func()) (answer *rpcReply, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return nil, true
	case s.calls[id] != nil:
		return failure(id, rpcErrorf(rpcInvalid, "A call with the id %s is going on already.", shorten(string(id), 100))), true
	case len(s.calls) >= mcpCallsAtOnce:
		return success(id, toolFailure(problemf(kindTooMany, "%d calls are going on already: wait until one has ended.", mcpCallsAtOnce))), true
	}
	s.calls[id] = cancel
	s.group.Go(work) // ends with the call
	return nil, false
}

func (s *mcpSession) leave(id rpcID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[id]()
	delete(s.calls, id)
}

// toolOf reads which tool a call is for, and with what.
func (s *mcpSession) toolOf(m rpcMessage) (t tool, given map[string]json.RawMessage, err *rpcError) {
	var name string
	if json.Unmarshal(m.params["name"], &name) != nil {
		return t, nil, rpcErrorf(rpcInvalidParams, "tools/call needs the member \"name\", the name of a tool.")
	}
	if raw := m.params["arguments"]; raw != nil && json.Unmarshal(raw, &given) != nil {
		return t, nil, rpcErrorf(rpcInvalidParams, "The member \"arguments\" of tools/call must be an object.")
	}
	i := slices.IndexFunc(s.tools, func(t tool) bool { return t.name == name })
	if i < 0 {
		return t, nil, rpcErrorf(rpcInvalidParams, "There is no tool %q; tools/list lists those that there are.", shorten(name, 100))
	}
	return s.tools[i], given, nil
}

// runCall runs a tool and answers, unless the agent has cancelled the call or
// the session is over.
func (s *mcpSession) runCall(ctx context.Context, m rpcMessage, t tool, given map[string]json.RawMessage, done func(*rpcReply)) {
	progress := beginProgress(s.out, m)
	args, err := t.args(given)
	var result toolResult
	if err == nil {
		result, err = t.run(ctx, s.client, args, progress.say)
	}
	progress.end()
	unwanted := ctx.Err() != nil
	s.leave(m.id)
	switch {
	case unwanted:
		done(nil)
	case err != nil:
		done(success(m.id, toolFailure(err)))
	default:
		done(success(m.id, result.contents()))
	}
}
