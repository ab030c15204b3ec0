package main

// Kernels and cells. A page of scope code may do anything with them.

import (
	"net/http"
	"strconv"
	"time"
)

const (
	// cellBodyLimit is how large a request with a cell's code may be.
	cellBodyLimit = 8 << 20
	// cellIDLength is how many bytes a cell's id may have.
	cellIDLength = 200
	// cellEventBatch is how many events of a cell are taken at once. It bounds
	// what a client that reads slowly keeps from being forgotten.
	cellEventBatch = 256
	// streamComment is how often an idle stream gives a sign of life.
	streamComment = 15 * time.Second
)

type kernelAnswer struct {
	LabID      string `json:"lab_id"`
	Status     string `json:"status"`
	KernelName string `json:"kernel_name"`
	Ready      bool   `json:"ready"`
}

func kernelName(lab string) string { return "agent-runtime-" + lab }

type kernelStartBody struct {
	LabID         *string `json:"lab_id" schema:"required"`
	CreateEnv     *bool   `json:"create_env"`
	PythonVersion string  `json:"python_version"`
}

func (b kernelStartBody) validate() error { return required(member{"lab_id", b.LabID}) }

func (s *server) handleKernelStart(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[kernelStartBody](w, r, bodyLimit)
	if err != nil {
		return err
	}
	wish := kernelWish{create: body.CreateEnv == nil || *body.CreateEnv, python: body.PythonVersion}
	if err := s.kernels.start(r.Context(), callerOf(r).principal, *body.LabID, wish); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, kernelAnswer{*body.LabID, "started", kernelName(*body.LabID), true})
}

func (s *server) handleKernelStatus(w http.ResponseWriter, r *http.Request) error {
	lab := r.URL.Query().Get("lab_id")
	status, err := s.kernels.status(callerOf(r).principal, lab)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, kernelAnswer{lab, status.state, kernelName(lab), status.ready})
}

type kernelListAnswer struct {
	Kernels []kernelListed `json:"kernels"`
}

type kernelListed struct {
	LabID      string `json:"lab_id"`
	KernelName string `json:"kernel_name"`
	Ready      bool   `json:"ready"`
}

func (s *server) handleKernelList(w http.ResponseWriter, r *http.Request) error {
	answer := kernelListAnswer{[]kernelListed{}}
	for _, k := range s.kernels.list(callerOf(r).principal) {
		answer.Kernels = append(answer.Kernels, kernelListed{k.lab, kernelName(k.lab), k.ready})
	}
	return writeJSON(w, http.StatusOK, answer)
}

type kernelInterruptAnswer struct {
	Status string `json:"status"`
	LabID  string `json:"lab_id"`
	Busy   bool   `json:"busy"` // the cell goes on all the same; a restart would end it
}

func (s *server) handleKernelInterrupt(w http.ResponseWriter, r *http.Request) error {
	lab := r.URL.Query().Get("lab_id")
	busy, err := s.kernels.interrupt(callerOf(r).principal, lab)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, kernelInterruptAnswer{"interrupted", lab, busy})
}

func (s *server) handleKernelRestart(w http.ResponseWriter, r *http.Request) error {
	lab := r.URL.Query().Get("lab_id")
	if err := s.kernels.restart(r.Context(), callerOf(r).principal, lab); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, kernelAnswer{lab, "restarted", kernelName(lab), true})
}

type kernelShutdownAnswer struct {
	Status string `json:"status"`
	LabID  string `json:"lab_id"`
}

func (s *server) handleKernelShutdown(w http.ResponseWriter, r *http.Request) error {
	lab := r.URL.Query().Get("lab_id")
	if err := s.kernels.shutdown(r.Context(), callerOf(r).principal, lab); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, kernelShutdownAnswer{"shutdown", lab})
}

type packagesBody struct {
	LabID    *string  `json:"lab_id" schema:"required"`
	Packages []string `json:"packages" schema:"required"`
}

func (b packagesBody) validate() error { return required(member{"lab_id", b.LabID}) }

type packagesAnswer struct {
	Status   string   `json:"status"`
	LabID    string   `json:"lab_id"`
	Packages []string `json:"packages"`
	Output   string   `json:"output"`
}

func (s *server) handlePackagesInstall(w http.ResponseWriter, r *http.Request) error {
	body, err := decode[packagesBody](w, r, bodyLimit)
	if err != nil {
		return err
	}
	output, err := s.kernels.install(r.Context(), *body.LabID, body.Packages)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, packagesAnswer{"installed", *body.LabID, body.Packages, output})
}

type cellBody struct {
	LabID  *string `json:"lab_id" schema:"required"`
	Code   *string `json:"code" schema:"required"`
	CellID string  `json:"cell_id"`
	Stream bool    `json:"stream"` // of no effect: the path decides
}

func (b cellBody) validate() error {
	if len(b.CellID) > cellIDLength {
		return problemf(kindInvalid, "The member \"cell_id\" must have at most %d bytes.", cellIDLength)
	}
	return required(member{"lab_id", b.LabID}, member{"code", b.Code})
}

// cellAnswer is what is told of a cell; see cellWriter, which writes it.
type cellAnswer struct {
	CellID  string           `json:"cell_id"`
	Success bool             `json:"success"`
	Outputs []map[string]any `json:"outputs"`
	Error   *cellError       `json:"error"`
	Count   *int             `json:"execution_count"`
}

// storedCellAnswer is a cell that is or was run, with how far it is.
type storedCellAnswer struct {
	cellAnswer
	Status string `json:"status"`
}

// submitCell reads a cell and puts it into its lab's queue.
func (s *server) submitCell(w http.ResponseWriter, r *http.Request) (*cell, error) {
	body, err := decode[cellBody](w, r, cellBodyLimit)
	if err != nil {
		return nil, err
	}
	return s.kernels.run(r.Context(), callerOf(r).principal, *body.LabID, body.CellID, *body.Code)
}

func (s *server) handleCellRun(w http.ResponseWriter, r *http.Request) error {
	c, err := s.submitCell(w, r)
	if err != nil {
		return err
	}
	if err := c.wait(r.Context()); err != nil {
		return err
	}
	return s.writeCell(w, c, false)
}

func (s *server) handleCell(w http.ResponseWriter, r *http.Request) error {
	c, err := s.kernels.cell(callerOf(r).principal, r.URL.Query().Get("lab_id"), r.PathValue("cell_id"))
	if err != nil {
		return err
	}
	return s.writeCell(w, c, true)
}

func (s *server) writeCell(w http.ResponseWriter, c *cell, status bool) error {
	reader := s.cellReaders.begin(w, c)
	defer s.cellReaders.end(reader)
	result := c.result()
	var size byteCount
	out := newCellWriter(&size)
	out.result(result, status)
	_ = out.Flush() // counting does not fail
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.FormatInt(int64(size), 10))
	out = newCellWriter(reader)
	out.result(result, status)
	_ = out.Flush() // an error means that the client left
	return nil
}

// byteCount counts what is written to it, so that the length of an answer is
// known before it is sent.
type byteCount int64

func (n *byteCount) Write(p []byte) (int, error) {
	*n += byteCount(len(p))
	return len(p), nil
}

func (s *server) handleCellStream(w http.ResponseWriter, r *http.Request) error {
	c, err := s.submitCell(w, r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	reader := s.cellReaders.begin(w, c)
	defer s.cellReaders.end(reader)
	out := cellStream{cell: c, readers: &s.cellReaders, out: newCellWriter(reader), control: reader.control}
	quiet := time.NewTicker(streamComment)
	defer quiet.Stop()
	for {
		changed, over, err := out.more()
		if over || err != nil {
			return err
		}
		select {
		case <-changed:
			quiet.Reset(streamComment)
		case <-quiet.C:
			err = out.comment()
		case <-r.Context().Done():
			return r.Context().Err()
		}
		if err != nil {
			return err
		}
	}
}

// cellStream is where a client has got to in a cell's events.
type cellStream struct {
	cell    *cell
	readers *cellReaders
	out     cellWriter
	control *http.ResponseController
	began   bool // something was sent
	next    int  // number of the next event
}

// more sends what there is. over is true when that was all; otherwise there
// may be more once changed is closed.
func (s *cellStream) more() (changed <-chan struct{}, over bool, err error) {
	for {
		var events []*cellEvent
		events, s.next, changed, over = s.cell.follow(s.next, cellEventBatch)
		if !s.began && len(events) > 0 {
			if _, _, notBegun := s.cell.outcome(); notBegun != nil {
				return nil, true, notBegun // the answer can still be an error
			}
		}
		for _, e := range events {
			s.out.event(s.cell.id, e)
		}
		if over {
			s.finish()
		}
		if len(events) == 0 && !over {
			return changed, false, nil
		}
		s.readers.bound() // the cell has grown
		if err := s.flush(); err != nil || over {
			return nil, true, err
		}
	}
}

func (s *cellStream) finish() {
	success, marker, _ := s.cell.outcome()
	if marker != nil {
		s.out.event(s.cell.id, marker)
	}
	s.out.complete(s.cell.id, success)
}

func (s *cellStream) comment() error {
	s.out.raw(": the cell goes on\n\n")
	return s.flush()
}

func (s *cellStream) flush() error {
	s.began = true
	if err := s.out.Flush(); err != nil {
		return err
	}
	return s.control.Flush()
}
