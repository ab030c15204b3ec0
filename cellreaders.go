package main

// The clients that are sent what came of a cell. What one has not taken yet
// stays in memory, also of a cell that is not kept any more. Those that have
// stopped taking it are dropped when that becomes too much.

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// cellReadersBytes is how large all cells may be that clients are sent,
	// before those are dropped that have taken nothing for slowClient.
	cellReadersBytes = 256 << 20
	slowClient       = 10 * time.Second
	// stalledClient is how long a client may take nothing of an answer before
	// it is dropped in any case. The cell and its outputs stay.
	stalledClient = 2 * time.Minute
	// cellPiece is how much is sent at once; each piece has its own time.
	cellPiece = 64 << 10
)

var errDropped = errors.New("the client took nothing of its answer for too long")

// cellReaders knows those clients. The zero value knows none.
type cellReaders struct {
	mu      sync.Mutex // guards reading
	reading []*cellReader
}

// cellReader writes to one client.
type cellReader struct {
	http.ResponseWriter
	control *http.ResponseController
	cell    *cell
	took    atomic.Int64 // when the client last took something, in Unix nanoseconds
	dropped atomic.Bool
}

// begin notes a client that will be sent what came of c. The caller calls end
// before it returns from its handler.
func (rs *cellReaders) begin(w http.ResponseWriter, c *cell) *cellReader {
	r := &cellReader{ResponseWriter: w, control: http.NewResponseController(w), cell: c}
	r.took.Store(time.Now().UnixNano())
	rs.mu.Lock()
	rs.reading = append(rs.reading, r)
	rs.mu.Unlock()
	rs.bound()
	return r
}

func (rs *cellReaders) end(r *cellReader) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.reading = slices.DeleteFunc(rs.reading, func(other *cellReader) bool { return other == r })
}

// bound drops slow clients, the slowest first, while the cells are too large.
func (rs *cellReaders) bound() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for rs.sizeLocked() > cellReadersBytes {
		slowest := slices.MinFunc(rs.reading, func(a, b *cellReader) int { return int(a.took.Load() - b.took.Load()) })
		if time.Since(time.Unix(0, slowest.took.Load())) < slowClient {
			return
		}
		slowest.drop()
		rs.reading = slices.DeleteFunc(rs.reading, func(r *cellReader) bool { return r == slowest })
	}
}

func (rs *cellReaders) sizeLocked() int64 {
	size, counted := int64(0), make(map[*cell]bool)
	for _, r := range rs.reading {
		if !counted[r.cell] {
			counted[r.cell] = true
			size += r.cell.size.Load()
		}
	}
	return size
}

// drop makes what is being written to the client, and what would be, fail.
func (r *cellReader) drop() {
	r.dropped.Store(true)
	_ = r.control.SetWriteDeadline(time.Now())
}

func (r *cellReader) Write(p []byte) (int, error) {
	written := 0
	for piece := range slices.Chunk(p, cellPiece) {
		_ = r.control.SetWriteDeadline(time.Now().Add(stalledClient))
		if r.dropped.Load() { // looked at only now, so that drop's deadline is the last
			return written, errDropped
		}
		n, err := r.ResponseWriter.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		r.took.Store(time.Now().UnixNano())
	}
	return written, nil
}
