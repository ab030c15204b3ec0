package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"
)

const (
	// writeBodyLimit is the size of a body that writes a file, in bytes. JSON
	// takes up to twice the size of usual text; other bytes go as base64.
	writeBodyLimit = 2*workspaceFileLimit + 64<<10

	// encodingBase64 asks for, or says, content as bytes in base64.
	encodingBase64 = "base64"
)

type sandboxBody struct {
	LearnerID *string `json:"learner_id" schema:"required"`
	TaskID    *string `json:"task_id"`
	Restore   *string `json:"restore"`
}

func (b sandboxBody) validate() error {
	if err := required(member{"learner_id", b.LearnerID}); err != nil {
		return err
	}
	for _, m := range []member{{"task_id", b.TaskID}, {"restore", b.Restore}} {
		if m.value != nil && *m.value == "" {
			return problemf(kindInvalid, "The member %q must not be empty: leave it out.", m.name)
		}
	}
	return nil
}

func (b sandboxBody) order() sandboxOrder {
	order := sandboxOrder{learnerID: *b.LearnerID}
	if b.TaskID != nil {
		order.taskID = *b.TaskID
	}
	if b.Restore != nil {
		order.restore = *b.Restore
	}
	return order
}

type sandboxAnswer struct {
	ID        string `json:"id"`
	LearnerID string `json:"learner_id"`
	Workdir   string `json:"workdir"`
	CreatedAt string `json:"created_at"`
}

func sandboxAnswerOf(i sandboxInfo) sandboxAnswer {
	return sandboxAnswer{i.id, i.learnerID, i.workdir, timestamp(i.createdAt)}
}

type sandboxesAnswer struct {
	Sandboxes []sandboxAnswer `json:"sandboxes"`
}

func (s *server) handleSandboxesCreate(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[sandboxBody](w, r, bodyLimit)
	if err != nil {
		return err
	}
	info, err := s.sandboxes.create(r.Context(), callerOf(r).principal, body.order())
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, sandboxAnswerOf(info))
}

func (s *server) handleSandboxesList(w http.ResponseWriter, r *http.Request) error {
	answer := sandboxesAnswer{Sandboxes: []sandboxAnswer{}}
	for _, info := range s.sandboxes.list(callerOf(r).principal) {
		answer.Sandboxes = append(answer.Sandboxes, sandboxAnswerOf(info))
	}
	return writeJSON(w, http.StatusOK, answer)
}

func (s *server) handleSandboxesGet(w http.ResponseWriter, r *http.Request) error {
	info, err := s.sandboxes.get(callerOf(r).principal, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, sandboxAnswerOf(info))
}

func (s *server) handleSandboxesDelete(w http.ResponseWriter, r *http.Request) error {
	if err := s.sandboxes.delete(callerOf(r).principal, r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type snapshotAnswer struct {
	SandboxID    string        `json:"sandbox_id"`
	SnapshotID   string        `json:"snapshot_id"`
	SnapshotPath string        `json:"snapshot_path"`
	Files        []string      `json:"files"`
	Encoded      []encodedName `json:"encoded,omitempty"` // names in files that are not text
	Skipped      []string      `json:"skipped,omitempty"` // paths of what is neither file, folder nor link
}

func (s *server) handleSandboxesSnapshot(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	shot, err := s.sandboxes.snapshot(r.Context(), callerOf(r).principal, id)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, snapshotAnswer{
		SandboxID: id, SnapshotID: shot.id, SnapshotPath: shot.path, Files: shownNames(shot.files),
		Encoded: encodedNames(shot.files), Skipped: shownNames(shot.skipped),
	})
}

type filesAnswer struct {
	Files   []string      `json:"files"`
	Encoded []encodedName `json:"encoded,omitempty"` // names in files that are not text
}

func (s *server) handleSandboxesFiles(w http.ResponseWriter, r *http.Request) error {
	recursive, err := queryBool(r, "recursive")
	if err != nil {
		return err
	}
	names, err := s.sandboxes.files(callerOf(r).principal, r.PathValue("id"), recursive)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, filesAnswer{Files: shownNames(names), Encoded: encodedNames(names)})
}

// queryBool reads a switch from the query, which is off when it is not given.
func queryBool(r *http.Request, name string) (bool, error) {
	switch value := r.URL.Query().Get(name); value {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, problemf(kindInvalid, "The query parameter %q must be true or false.", name)
}

// fileAnswer is a file as pages see it; its content is written apart.
type fileAnswer struct {
	fileHead
	Content string `json:"content"`
}

type fileHead struct {
	Path     string `json:"path"`
	Encoding string `json:"encoding,omitempty"` // base64, or none for text
}

func (s *server) handleSandboxesRead(w http.ResponseWriter, r *http.Request) error {
	name, encoding := r.PathValue("path"), r.URL.Query().Get("encoding")
	if encoding != "" && encoding != encodingBase64 {
		return problemf(kindInvalid, "The query parameter \"encoding\" must be %q or left out.", encodingBase64)
	}
	data, err := s.sandboxes.read(callerOf(r).principal, r.PathValue("id"), name)
	if err != nil {
		return err
	}
	switch {
	case encoding == encodingBase64:
		data = base64.StdEncoding.AppendEncode(nil, data)
	case !utf8.Valid(data):
		data = []byte(jsonText(string(data)))
	}
	return writeFileAnswer(w, fileHead{Path: jsonText(name), Encoding: encoding}, data)
}

// writeFileAnswer answers with a file. Its content, which is valid text, is quoted
// here: package json would take several times as long.
func writeFileAnswer(w http.ResponseWriter, head fileHead, content []byte) error {
	start, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encode a file's head: %w", err)
	}
	body := make([]byte, 0, len(start)+len(content)+len(content)/8+64)
	body = append(append(body, start[:len(start)-1]...), `,"content":"`...)
	body = append(appendQuoted(body, content), `"}`...)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
	return nil
}

type writeBody struct {
	Content  *string `json:"content" schema:"required"`
	Path     *string `json:"path"` // the URL's counts; another one is a mistake
	Encoding *string `json:"encoding"`
}

func (b writeBody) validate() error {
	if err := required(member{"content", b.Content}); err != nil {
		return err
	}
	if b.Encoding != nil && *b.Encoding != encodingBase64 {
		return problemf(kindInvalid, "The member \"encoding\" must be %q or left out.", encodingBase64)
	}
	return nil
}

func (b writeBody) data() ([]byte, error) {
	if b.Encoding == nil {
		return []byte(*b.Content), nil
	}
	data, err := base64.StdEncoding.DecodeString(*b.Content)
	if err != nil {
		return nil, problemf(kindInvalid, "The member \"content\" is not base64.")
	}
	return data, nil
}

type writtenAnswer struct {
	Path    string `json:"path"`
	Written bool   `json:"written"`
}

func (s *server) handleSandboxesWrite(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("path")
	body, err := decode[writeBody](w, r, writeBodyLimit)
	if err != nil {
		return err
	}
	if body.Path != nil && *body.Path != name {
		return problemf(kindInvalid, "The member \"path\" is not the path of the URL: leave it out.")
	}
	data, err := body.data()
	if err != nil {
		return err
	}
	if err := s.sandboxes.write(callerOf(r).principal, r.PathValue("id"), name, data); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, writtenAnswer{Path: jsonText(name), Written: true})
}

type execBody struct {
	Cmd     []string `json:"cmd" schema:"required"`
	Timeout *float64 `json:"timeout"` // seconds
}

func (b execBody) validate() error { return checkCommand(b.Cmd) }

type execAnswer struct {
	Cmd        []string `json:"cmd"`
	Returncode int      `json:"returncode"`
	Stdout     string   `json:"stdout"`
	Stderr     string   `json:"stderr"`
	DurationS  float64  `json:"duration_s"`
	TimedOut   bool     `json:"timed_out"`
	Truncated  bool     `json:"truncated"`
	Limit      *string  `json:"limit"` // what ended the command: time, memory, disk or processes
}

func (s *server) handleSandboxesExec(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[execBody](w, r, bodyLimit)
	if err != nil {
		return err
	}
	result, err := s.sandboxes.exec(r.Context(), callerOf(r).principal, r.PathValue("id"), body.Cmd, body.Timeout)
	if err != nil {
		return err
	}
	answer := execAnswer{
		Cmd: body.Cmd, Returncode: result.status, Stdout: result.stdout, Stderr: result.stderr,
		DurationS: result.duration.Seconds(), TimedOut: result.limit == endedByTime, Truncated: result.truncated,
	}
	if result.limit != "" {
		answer.Limit = &result.limit
	}
	return writeJSON(w, http.StatusOK, answer)
}

type sandboxEventsAnswer struct {
	Events []sandboxEvent `json:"events"`
}

func (s *server) handleSandboxesEvents(w http.ResponseWriter, r *http.Request) error {
	after, err := queryInt(r, "after", 0, maxOffset, 0)
	if err != nil {
		return err
	}
	events, err := s.sandboxes.eventsAfter(callerOf(r).principal, r.PathValue("id"), int64(after))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, sandboxEventsAnswer{Events: events})
}
