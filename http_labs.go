package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	// waitMost is how many seconds an answer about a run may be held.
	waitMost = 30

	// maxOffset is the largest whole number that every JSON reader keeps exact.
	maxOffset = 1 << 53

	// smallAnswer is up to how many bytes an answer is sent in one piece.
	smallAnswer = 64 << 10
)

type prepareBody struct {
	Repo   *string `json:"repo" schema:"required"`
	Commit *string `json:"commit" schema:"required"`
}

func (b prepareBody) validate() error {
	return required(member{"repo", b.Repo}, member{"commit", b.Commit})
}

type startBody struct {
	LabID  *string `json:"lab_id" schema:"required"`
	Commit *string `json:"commit" schema:"required"`
	Action *string `json:"action" schema:"required"`
}

func (b startBody) validate() error {
	return required(member{"lab_id", b.LabID}, member{"commit", b.Commit}, member{"action", b.Action})
}

// member is a member of a body that must be there.
type member struct {
	name  string
	value *string
}

func required(members ...member) error {
	for _, m := range members {
		if m.value == nil {
			return problemf(kindInvalid, "The body lacks the member %q, which must be a string.", m.name)
		}
	}
	return nil
}

type labAnswer struct {
	LabID    string         `json:"lab_id"`
	Title    string         `json:"title"`
	Repo     string         `json:"repo"`
	Commit   string         `json:"commit"`
	Path     string         `json:"path"`
	Actions  []actionAnswer `json:"actions"`
	Modified []string       `json:"modified"`
	Notices  []string       `json:"notices"`
}

type actionAnswer struct {
	Name        string   `json:"name"`
	Label       string   `json:"label"`
	Description string   `json:"description"`
	Steps       []string `json:"steps"` // in shell quoting, for reading
	Timeout     int      `json:"timeout"`
}

func (s *server) handleLabsPrepare(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[prepareBody](w, r, bodyLimit)
	if err != nil {
		return err
	}
	lab, err := s.labs.prepare(r.Context(), callerOf(r).principal, *body.Repo, *body.Commit)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, labAnswerOf(lab))
}

func labAnswerOf(lab *preparedLab) labAnswer {
	answer := labAnswer{
		LabID: lab.manifest.id, Title: lab.manifest.title, Repo: lab.source.repo, Commit: lab.source.commit,
		Path: lab.dir, Modified: append([]string{}, lab.modified...), Notices: append([]string{}, lab.notices...),
	}
	for _, a := range lab.manifest.actions {
		answer.Actions = append(answer.Actions, actionAnswerOf(a))
	}
	return answer
}

type labsAnswer struct {
	Labs       []labAnswer    `json:"labs"`
	Unprepared []sourceAnswer `json:"unprepared"` // approved, and to be prepared again before use
}

type sourceAnswer struct {
	Repo   string `json:"repo"`
	Commit string `json:"commit"`
}

func (s *server) handleLabsList(w http.ResponseWriter, r *http.Request) error {
	ready, unprepared, err := s.labs.startableLabs(callerOf(r).principal)
	if err != nil {
		return err
	}
	answer := labsAnswer{[]labAnswer{}, []sourceAnswer{}}
	for _, lab := range ready {
		answer.Labs = append(answer.Labs, labAnswerOf(lab))
	}
	for _, src := range unprepared {
		answer.Unprepared = append(answer.Unprepared, sourceAnswer{src.repo, src.commit})
	}
	return writeJSON(w, http.StatusOK, answer)
}

func actionAnswerOf(a action) actionAnswer {
	steps := make([]string, len(a.Steps))
	for i, argv := range a.Steps {
		steps[i] = shellQuote(argv)
	}
	return actionAnswer{a.Name, a.Label, a.Description, steps, a.Timeout}
}

// runAnswer is a run as pages see it. The output is written apart: it is kept
// in the form in which it stands in JSON.
type runAnswer struct {
	RunID     string    `json:"run_id"`
	LabID     string    `json:"lab_id"`
	Commit    string    `json:"commit"`
	Action    string    `json:"action"`
	Status    runStatus `json:"status"`
	ExitCode  *int      `json:"exit_code"`
	StartedAt string    `json:"started_at"`
	EndedAt   *string   `json:"ended_at"`
}

func answerOf(r runRecord) runAnswer {
	a := runAnswer{
		RunID: r.ID, LabID: r.LabID, Commit: r.Commit, Action: r.Action,
		Status: r.Status, ExitCode: r.ExitCode, StartedAt: timestamp(r.StartedAt),
	}
	if !r.EndedAt.IsZero() {
		a.EndedAt = new(timestamp(r.EndedAt))
	}
	return a
}

// timestamp writes a time as the protocol does: UTC, with its offset in digits.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05+00:00") }

// appendRun appends a run's JSON object up to the beginning of its output's
// text; appendRunEnd appends what comes after it.
func appendRun(dst []byte, r runRecord) ([]byte, error) {
	head, err := json.Marshal(answerOf(r))
	if err != nil {
		return nil, fmt.Errorf("encode a run: %w", err)
	}
	return append(append(dst, head[:len(head)-1]...), `,"output":"`...), nil
}

func appendRunEnd(dst []byte, next int, truncated bool) []byte {
	dst = append(dst, `","next_offset":`...)
	dst = strconv.AppendInt(dst, int64(next), 10)
	dst = append(dst, `,"truncated":`...)
	dst = strconv.AppendBool(dst, truncated)
	return append(dst, '}')
}

func (s *server) handleRunsStart(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[startBody](w, r, bodyLimit)
	if err != nil {
		return err
	}
	record, err := s.labs.start(callerOf(r).principal, *body.LabID, *body.Commit, *body.Action)
	if err != nil {
		return err
	}
	// Access may have been taken away since the caller was let in; then what
	// runs was stopped before this run was among it.
	if data, err := s.state.current(); err == nil {
		s.stopRevoked(data)
	}
	return s.writeRun(w, record.Principal, record.ID, 0)
}

func (s *server) handleRunsGet(w http.ResponseWriter, r *http.Request) error {
	return s.answerRun(w, r, callerOf(r).principal)
}

// answerRun answers with a run of p and its output, as the query asks.
func (s *server) answerRun(w http.ResponseWriter, r *http.Request, p principal) error {
	offset, err := queryInt(r, "offset", 0, maxOffset, 0)
	if err != nil {
		return err
	}
	wait, err := queryWait(r)
	if err != nil {
		return err
	}
	id := r.PathValue("run_id")
	if wait > 0 {
		_, output, err := s.runs.view(p, id)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		output.wait(ctx, offset)
		if lost := accessLost(r.Context()); lost != nil {
			return lost
		}
	}
	return s.writeRun(w, p, id, offset)
}

// queryWait reads how long the answer may be held.
func queryWait(r *http.Request) (time.Duration, error) {
	values := r.URL.Query()["wait"]
	if len(values) == 0 {
		return 0, nil
	}
	seconds, err := strconv.ParseFloat(values[0], 64)
	if err != nil || !(seconds >= 0 && seconds <= waitMost) {
		return 0, problemf(kindInvalid, "The query parameter \"wait\" must be a number of seconds from 0 to %d.", waitMost)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

func (s *server) handleRunsStop(w http.ResponseWriter, r *http.Request) error {
	return s.stopRun(w, r, callerOf(r).principal)
}

// stopRun stops a run of p and answers with it once it has ended.
func (s *server) stopRun(w http.ResponseWriter, r *http.Request, p principal) error {
	offset, err := queryInt(r, "offset", 0, maxOffset, 0)
	if err != nil {
		return err
	}
	id := r.PathValue("run_id")
	if err := s.runs.stop(r.Context(), p, id); err != nil {
		return err
	}
	return s.writeRun(w, p, id, offset)
}

// writeRun answers with a run and its output from offset on.
func (s *server) writeRun(w http.ResponseWriter, p principal, id string, offset int) error {
	record, output, err := s.runs.view(p, id)
	if err != nil {
		return err
	}
	parts, next, truncated := output.quoted(offset)
	head, err := appendRun(make([]byte, 0, 512), record)
	if err != nil {
		return err
	}
	tail := appendRunEnd(make([]byte, 0, 64), next, truncated)
	length := len(head) + len(tail)
	for _, part := range parts {
		length += len(part)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(length))
	parts = slices.Insert(append(parts, tail), 0, head)
	if length <= smallAnswer {
		parts = [][]byte{bytes.Join(parts, nil)}
	}
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return nil // the client has left
		}
	}
	return nil
}

func (s *server) handleRunsList(w http.ResponseWriter, r *http.Request) error {
	records := s.runs.list(callerOf(r).principal, r.URL.Query().Get("lab_id"))
	body := []byte(`{"runs":[`)
	for i, record := range records {
		if i > 0 {
			body = append(body, ',')
		}
		var err error
		if body, err = appendRun(body, record); err != nil {
			return err
		}
		body = appendRunEnd(body, 0, false)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, `]}`...))
	return nil
}
