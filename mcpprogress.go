package main

// What is written to an agent: whole messages, and while a call goes on its
// progress.

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// mcpProgress is how often an agent that asked for it is told that a call goes
// on. Agents give up on calls of which nothing is heard.
const mcpProgress = 2 * time.Second

// mcpWriter writes messages to an agent.
type mcpWriter struct {
	gone chan struct{} // closed once the agent does not read any more

	mu  sync.Mutex // guards out, so that every message is whole
	out io.Writer
}

// write writes a message, if the agent reads.
func (w *mcpWriter) write(message any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if writeJSONLine(w.out, message) != nil {
		closeOnce(w.gone)
	}
}

// mcpProgressReport tells an agent now and then that a call goes on.
type mcpProgressReport struct {
	out   *mcpWriter
	token rpcID // as the agent named the call; rpcNoID when it did not ask
	began time.Time
	news  chan string
	stop  chan struct{}
	ended sync.WaitGroup
}

// beginProgress reads whether the agent wants to be told. The caller calls end.
func beginProgress(out *mcpWriter, m rpcMessage) *mcpProgressReport {
	var meta struct {
		Token json.RawMessage `json:"progressToken"`
	}
	_ = json.Unmarshal(m.params["_meta"], &meta) // what is not understood asks for nothing
	p := &mcpProgressReport{
		out: out, token: parseRPCID(meta.Token), began: time.Now(),
		news: make(chan string), stop: make(chan struct{}),
	}
	if p.token != rpcNoID {
		p.ended.Go(p.tell) // ends with end
	}
	return p
}

// say tells a sentence, which is repeated until there is another.
func (p *mcpProgressReport) say(sentence string) {
	if p.token != rpcNoID {
		p.news <- sentence
	}
}

// end returns when nothing more will be told.
func (p *mcpProgressReport) end() {
	close(p.stop)
	p.ended.Wait()
}

// tell tells the seconds that have passed, which rise with each notification.
func (p *mcpProgressReport) tell() {
	tick := time.NewTicker(mcpProgress)
	defer tick.Stop()
	message := "The call goes on."
	for {
		select {
		case message = <-p.news:
		case <-tick.C:
		case <-p.stop:
			return
		}
		p.out.write(rpcNotice{"2.0", "notifications/progress", map[string]any{
			"progressToken": p.token, "progress": time.Since(p.began).Seconds(), "message": message}})
	}
}
