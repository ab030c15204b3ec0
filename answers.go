package main

// How bodies are read and answers written: JSON both ways, and every error as
// {"detail": "<one sentence>"}.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// handlerFunc answers a request, or returns the error to be told.
type handlerFunc func(w http.ResponseWriter, r *http.Request) error

// answer runs a handler and writes the error that it returns. A panic is
// logged and answered; the program lives on.
func (s *server) answer(w http.ResponseWriter, r *http.Request, h handlerFunc) {
	tracked, ok := w.(*trackedWriter)
	if !ok {
		tracked = &trackedWriter{ResponseWriter: w}
	}
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.log.Error("panic", "route", r.Pattern, "panic", v, "stack", string(debug.Stack()))
			s.writeError(tracked, r, ourFault())
		}
	}()
	if err := h(tracked, r); err != nil {
		s.writeError(tracked, r, err)
	}
}

// trackedWriter knows whether an answer has begun, and gives up on a client
// that does not take what is written.
type trackedWriter struct {
	http.ResponseWriter
	began bool
}

func (w *trackedWriter) WriteHeader(status int) {
	w.began = true
	w.limitWrite()
	w.ResponseWriter.WriteHeader(status)
}

func (w *trackedWriter) Write(p []byte) (int, error) {
	w.began = true
	w.limitWrite()
	return w.ResponseWriter.Write(p)
}

// limitWrite bounds what is written next, and what is still buffered when the
// handler returns. How long a handler takes until it writes is not limited.
func (w *trackedWriter) limitWrite() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// Unwrap is for http.ResponseController.
func (w *trackedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// writeError tells err to the client: a problem as it says, anything else as
// one fixed sentence. After the first byte of an answer nothing is written.
// For a client that has left the connection is cut: one that had only closed
// its own direction would take an empty answer for a good one.
func (s *server) writeError(w *trackedWriter, r *http.Request, err error) {
	p, ok := errors.AsType[*problem](err)
	switch {
	case r.Context().Err() != nil && !ok && s.shutdown.Err() == nil:
		s.log.Debug("client left", "route", r.Pattern)
		panic(http.ErrAbortHandler)
	case r.Context().Err() != nil && !ok:
		p = problemf(kindNoCapacity, "The runtime is shutting down; start it again and retry.")
	case !ok:
		s.log.Error("request failed", "route", r.Pattern, "err", err)
		p = ourFault()
	case p.err != nil:
		s.log.Warn("request refused", "route", r.Pattern, "detail", p.detail, "err", p.err)
	default:
		s.log.Debug("request refused", "route", r.Pattern, "detail", p.detail)
	}
	if w.began {
		return
	}
	body := map[string]string{"detail": p.detail}
	maps.Copy(body, p.members)
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	_ = writeJSON(w, p.kind.status(), body)
}

func ourFault() *problem {
	return problemf(kindInternal, "Something went wrong inside the runtime; its terminal or log says more.")
}

// status is the HTTP status of a kind of problem.
func (k kind) status() int {
	switch k {
	case kindUnacceptable:
		return http.StatusBadRequest
	case kindUnauthenticated:
		return http.StatusUnauthorized
	case kindForbidden:
		return http.StatusForbidden
	case kindNotFound:
		return http.StatusNotFound
	case kindMethod:
		return http.StatusMethodNotAllowed
	case kindConflict:
		return http.StatusConflict
	case kindExpired:
		return http.StatusGone
	case kindTooLarge:
		return http.StatusRequestEntityTooLarge
	case kindNotJSON:
		return http.StatusUnsupportedMediaType
	case kindMisdirected:
		return http.StatusMisdirectedRequest
	case kindInvalid:
		return http.StatusUnprocessableEntity
	case kindTooMany:
		return http.StatusTooManyRequests
	case kindUnreachable:
		return http.StatusBadGateway
	case kindNoCapacity, kindFull:
		return http.StatusServiceUnavailable
	case kindTooSlow:
		return http.StatusGatewayTimeout
	case kindSlowBody:
		return http.StatusRequestTimeout
	}
	return http.StatusInternalServerError
}

// writeJSON encodes v before the first byte is sent.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
	return nil
}

// validator is a body that knows its schema's rules.
type validator interface{ validate() error }

// decode reads a JSON body of at most limit bytes into a T and checks it.
// Members that T does not have are ignored.
func decode[T validator](w http.ResponseWriter, r *http.Request, limit int64) (T, error) {
	v, given, err := decodeOptional[T](w, r, limit)
	if err == nil && !given {
		err = problemf(kindInvalid, "The request needs a body: a JSON object.")
	}
	return v, err
}

// decodeOptional is decode for a body that may be absent.
func decodeOptional[T validator](w http.ResponseWriter, r *http.Request, limit int64) (v T, given bool, err error) {
	data, err := readRequestBody(w, r, limit)
	if err != nil || len(data) == 0 {
		return v, false, err
	}
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(mediaType), "application/json") {
		return v, true, problemf(kindNotJSON, "The body must be JSON, with the header Content-Type: application/json.")
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, true, jsonProblem(err)
	}
	return v, true, v.validate()
}

func jsonProblem(err error) error {
	mistake, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return problemf(kindNotJSON, "The body is not JSON: %v.", err)
	case mistake.Field == "":
		return problemf(kindInvalid, "The body must be a JSON object, not %s.", mistake.Value)
	}
	return problemf(kindInvalid, "The member %q must be %s, not %s.", mistake.Field, jsonTypeName(mistake.Type.String()), mistake.Value)
}

func jsonTypeName(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.Contains(goType, "string"), strings.Contains(goType, "scope"):
		return "a string"
	case strings.Contains(goType, "bool"):
		return "true or false"
	case strings.Contains(goType, "int"):
		return "a whole number"
	case strings.Contains(goType, "float"):
		return "a number"
	}
	return "an object"
}

// limitBody bounds how long the body of r may take. It is for every request:
// a body that no handler reads is read by the HTTP server before the answer
// goes out, for as long as the connection lets it.
func limitBody(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // of the connection's last answer
	if r.ContentLength != 0 {
		_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	}
}

// readRequestBody reads at most limit bytes. Once it has, nothing limits how
// long the answer takes.
func readRequestBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), bodyAhead)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, problemf(kindSlowBody, "The body did not arrive within %v.", bodyTimeout)
	}
	if err != nil {
		return nil, problemf(kindInvalid, "The body could not be read to its end.") // the client's doing, and none of the log's
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return body.Bytes(), nil
}

func tooLarge(limit int64) error {
	return problemf(kindTooLarge, "The body is larger than the %d bytes that are accepted here.", limit)
}

// queryInt reads a whole number of at least low and at most high from the
// query; when it is not given, it is missing.
func queryInt(r *http.Request, name string, low, high, missing int) (int, error) {
	values := r.URL.Query()[name]
	if len(values) == 0 {
		return missing, nil
	}
	n, err := strconv.Atoi(values[0])
	if err != nil || n < low || n > high {
		return 0, problemf(kindInvalid, "The query parameter %q must be a whole number from %d to %d.", name, low, high)
	}
	return n, nil
}
