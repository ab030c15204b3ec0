package main

// Runs: actions that pages started. Each belongs to the principal that
// started it, writes into a window that pages read, and is on disk so that a
// page finds it again after a restart.

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// runsKept is how many runs of each principal are remembered.
	runsKept = 50

	// windowsKept bounds the memory, in bytes, of ended runs' output; what is
	// not in memory is read from disk.
	windowsKept = 4 << 20

	// saveAfter is how long output of a running action may be in memory only,
	// and saveAfterPerByte what is added for what is saved each time.
	saveAfter        = 300 * time.Millisecond
	saveAfterPerByte = time.Second / (1 << 20)
)

// runSpec is an action to be run, ready to start.
type runSpec struct {
	principal principal
	labID     string
	commit    string
	action    action
	dir       string   // the checkout
	env       []string // the whole environment of the steps
	notes     []string // lines that come before the first step's
}

// run is one started action. Its record is read through runs.view.
type run struct {
	record  runRecord          // guarded by runs.mu
	window  *window            // nil when the output is on disk only; guarded by runs.mu
	cancel  context.CancelFunc // asks the run to end as stopped; nil once it has
	unsaved bool               // it has ended and is in memory only; guarded by runs.mu
	ended   chan struct{}      // closed when it has ended and is on disk, if the disk takes it

	saving sync.Mutex // guards final, and the order in which the file is written
	final  bool       // the file has the final state, or was to have it
}

// runs starts and remembers runs.
type runs struct {
	ps     *processes
	store  runStore
	log    *slog.Logger
	prefix string // of the marks of this data folder's families
	limit  int    // characters of output kept per run
	grace  time.Duration
	force  <-chan struct{} // closed when the program is to end without grace
	group  sync.WaitGroup  // the goroutines of running actions

	mu       sync.Mutex // guards the rest
	byID     map[string]*run
	order    []*run          // oldest first
	running  map[string]*run // by lab id
	cached   []*run          // ended runs whose window is in memory, latest use first
	leftover []leftover      // of finished actions, with processes still running
	closed   bool
}

// leftover is what a finished action left running.
type leftover struct {
	*family
	record runRecord
}

// openRuns reads the runs of dir. What an earlier runtime of this data folder
// left running is ended first, and its runs are stopped.
func openRuns(dir string, cfg config, force <-chan struct{}, ps *processes, log *slog.Logger) (*runs, error) {
	store, err := openRunStore(dir)
	if err != nil {
		return nil, err
	}
	rs := &runs{
		ps: ps, store: store, log: log, prefix: familyPrefix(cfg.dir),
		limit: cfg.outputLimit, grace: cfg.stopGrace, force: force,
		byID: make(map[string]*run), running: make(map[string]*run),
	}
	if n := endMarked(rs.prefix); n > 0 {
		log.Warn("ended processes that an earlier runtime left running", "processes", n)
	}
	records, err := store.list()
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		rs.restore(record)
	}
	principals := make(map[principal]bool)
	for _, record := range records {
		principals[record.Principal] = true
	}
	for p := range principals {
		rs.pruneLocked(p)
	}
	return rs, nil
}

func (rs *runs) restore(record runRecord) {
	r := &run{record: record, ended: make(chan struct{}), final: true}
	close(r.ended)
	if record.Status == statusRunning {
		rs.stopCrashed(r)
	}
	rs.byID[record.ID] = r
	rs.order = append(rs.order, r)
}

// stopCrashed closes the run of a runtime that did not end in order. When it
// ended is taken from its file, which was written while there was output.
func (rs *runs) stopCrashed(r *run) {
	r.record.Status = statusStopped
	r.record.EndedAt = r.record.StartedAt
	if info, err := os.Stat(rs.store.path(r.record.ID)); err == nil {
		r.record.EndedAt = later(info.ModTime(), r.record.StartedAt)
	}
	_, text, err := rs.store.load(r.record.ID)
	if err != nil {
		rs.log.Warn("a run's output is lost", "run", r.record.ID, "err", err)
	}
	w := newWindow(rs.limit)
	w.end = r.record.First
	t := &transcript{out: w, lineStart: true}
	_, _ = t.Write(text)
	t.line("[stopped · %.1f s]", r.record.EndedAt.Sub(r.record.StartedAt).Seconds())
	var output [][]byte
	output, r.record.First = w.contents()
	if err := rs.store.save(r.record, output); err != nil {
		rs.log.Warn("a stopped run could not be saved", "err", err)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// start starts an action and returns its record at once.
func (rs *runs) start(spec runSpec) (runRecord, error) {
	r := &run{
		record: runRecord{
			ID: rand.Text(), Principal: spec.principal, LabID: spec.labID, Commit: spec.commit,
			Action: spec.action.Name, Status: statusRunning, StartedAt: time.Now().UTC(),
		},
		window: newWindow(rs.limit),
		ended:  make(chan struct{}),
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	r.cancel = func() { cancel(errStopped) }
	fam, err := rs.ps.newFamily(rs.prefix + r.record.ID)
	if err != nil {
		return runRecord{}, fmt.Errorf("prepare the run's processes: %w", err)
	}
	record := r.record
	e := &execution{
		family: fam, dir: spec.dir, env: spec.env, steps: spec.action.Steps,
		timeout: time.Duration(spec.action.Timeout) * time.Second, grace: rs.grace, force: rs.force,
	}
	err = rs.admit(r, func(w *window) { // ends with the action, which close and stop cancel
		defer cancel(nil)
		rs.log.Info("run started", "run", record.ID, "principal", record.Principal, "lab", record.LabID, "action", record.Action)
		_, _ = rs.save(r, w, record, false) // so that a crash leaves a trace
		for _, note := range spec.notes {
			_, _ = w.Write([]byte(note + "\n"))
		}
		rs.finish(r, w, fam, e.run(ctx, w))
	})
	if err != nil {
		cancel(nil)
		fam.close()
		return runRecord{}, err
	}
	return record, nil
}

// admit makes r the lab's running action, unless there is one, and starts
// work for it. close, which may come at any time, refuses it or waits for it.
func (rs *runs) admit(r *run, work func(*window)) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closed {
		return problemf(kindNoCapacity, "The runtime is shutting down; start it again to run actions.")
	}
	if other := rs.running[r.record.LabID]; other != nil {
		what := "An action of this lab, which another site started,"
		if other.record.Principal == r.record.Principal {
			what = fmt.Sprintf("The action %q of this lab", other.record.Action)
		}
		return problemf(kindConflict, "%s is still running: stop it or wait for its end, since a lab runs one action at a time.", what)
	}
	rs.running[r.record.LabID] = r
	rs.byID[r.record.ID] = r
	rs.order = append(rs.order, r)
	rs.pruneLocked(r.record.Principal)
	w := r.window
	rs.group.Go(func() { work(w) })
	rs.group.Go(func() { rs.follow(r, w) }) // ends when the run has
	return nil
}

// pruneLocked forgets the oldest ended runs of a principal above the number kept.
func (rs *runs) pruneLocked(p principal) {
	count := 0
	for _, r := range rs.order {
		if r.record.Principal == p {
			count++
		}
	}
	rs.order = slices.DeleteFunc(rs.order, func(r *run) bool {
		if count <= runsKept || r.record.Principal != p || r.record.Status == statusRunning {
			return false
		}
		count--
		delete(rs.byID, r.record.ID)
		rs.cached = slices.DeleteFunc(rs.cached, func(c *run) bool { return c == r })
		rs.store.remove(r.record.ID)
		return true
	})
}

// finish records how a run ended. It is on disk before anybody sees it, if
// the disk takes it.
func (rs *runs) finish(r *run, w *window, fam *family, o outcome) {
	rs.mu.Lock()
	record := r.record
	rs.mu.Unlock()
	record.Status, record.ExitCode, record.EndedAt = o.status, o.exitCode, time.Now().UTC()
	_, err := rs.save(r, w, record, true)
	if err != nil {
		rs.log.Warn("a run is in memory only", "err", err)
	}
	if o.left > 0 {
		rs.keepLeftover(leftover{fam, record})
	} else {
		fam.close()
	}
	rs.mu.Lock()
	r.record.Status, r.record.ExitCode, r.record.EndedAt = record.Status, record.ExitCode, record.EndedAt
	r.cancel, r.unsaved = nil, err != nil
	delete(rs.running, record.LabID)
	rs.rememberLocked(r)
	rs.mu.Unlock()
	w.close()
	close(r.ended)
	rs.log.Info("run ended", "run", record.ID, "status", record.Status)
}

// keepLeftover keeps the family of a finished action to be ended with the
// runtime, and lets go of those that have ended by themselves.
func (rs *runs) keepLeftover(left leftover) {
	rs.mu.Lock()
	kept := rs.leftover
	rs.leftover = nil
	rs.mu.Unlock()
	kept = slices.DeleteFunc(kept, func(f leftover) bool {
		if f.alive() > 0 {
			return false
		}
		f.close()
		return true
	})
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.leftover = append(append(rs.leftover, kept...), left)
}

// save writes a run's file, of about so many bytes. Once it was written as
// final it is left alone.
func (rs *runs) save(r *run, w *window, record runRecord, final bool) (bytes int, err error) {
	r.saving.Lock()
	defer r.saving.Unlock()
	if r.final {
		return 0, nil
	}
	output, first := w.contents()
	record.First = first
	r.final = final
	return len(output) * chunkSize, rs.store.save(record, output)
}

// saveAgain tries to save the ended runs that the disk did not take. It is
// for the end, when nothing runs any more.
func (rs *runs) saveAgain() {
	rs.mu.Lock()
	unsaved := slices.DeleteFunc(slices.Clone(rs.order), func(r *run) bool { return !r.unsaved })
	rs.mu.Unlock()
	for _, r := range unsaved {
		record := r.record // nobody changes it any more
		output, first := r.window.contents()
		record.First = first
		if err := rs.store.save(record, output); err != nil {
			rs.log.Warn("a run is lost", "err", err)
		}
	}
}

// follow saves a running action's output from time to time, so that a crash
// loses little of it.
func (rs *runs) follow(r *run, w *window) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pause := saveAfter
	for end := 0; ; {
		w.wait(ctx, end)
		select {
		case <-r.ended:
			return
		case <-time.After(pause):
		}
		_, end, _ = w.pieces(end)
		rs.mu.Lock()
		record := r.record
		rs.mu.Unlock()
		saved, _ := rs.save(r, w, record, false)
		pause = saveAfter + time.Duration(saved)*saveAfterPerByte
	}
}

// rememberLocked keeps the window of an ended run in memory, and lets go of
// those used longest ago when all take too much.
func (rs *runs) rememberLocked(r *run) {
	rs.cached = slices.DeleteFunc(rs.cached, func(c *run) bool { return c == r })
	rs.cached = slices.Insert(rs.cached, 0, r)
	total := 0
	rs.cached = slices.DeleteFunc(rs.cached, func(c *run) bool {
		total += c.window.size()
		if c == r || c.unsaved || total <= windowsKept {
			return false
		}
		c.window = nil
		return true
	})
}

// view returns a run of this principal: its record and its output. To others
// it does not exist.
func (rs *runs) view(p principal, id string) (runRecord, *window, error) {
	rs.mu.Lock()
	r := rs.byID[id]
	if r == nil || r.record.Principal != p {
		rs.mu.Unlock()
		return runRecord{}, nil, problemf(kindNotFound, "There is no run %q of this site; GET /labs/runs lists those there are.", id)
	}
	record, w := r.record, r.window
	rs.mu.Unlock()
	if w == nil {
		return rs.reload(r, record)
	}
	return record, w, nil
}

func (rs *runs) reload(r *run, record runRecord) (runRecord, *window, error) {
	saved, text, err := rs.store.load(record.ID)
	if err != nil {
		return record, nil, problemf(kindNotFound, "What run %q wrote cannot be read from the disk any more.", record.ID).because(err)
	}
	w := restoredWindow(rs.limit, saved.First, text)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.window = w
	rs.rememberLocked(r)
	return record, w, nil
}

// list returns this principal's runs, oldest first; those of one lab when
// labID is not empty.
func (rs *runs) list(p principal, labID string) []runRecord {
	return rs.where(func(r runRecord) bool { return r.Principal == p && cmp.Or(labID, r.LabID) == r.LabID })
}

// where returns the runs for which is holds, oldest first.
func (rs *runs) where(is func(runRecord) bool) []runRecord {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	records := []runRecord{}
	for _, r := range rs.order {
		if is(r.record) {
			records = append(records, r.record)
		}
	}
	return records
}

// owner is whose run the id names; "" when there is none.
func (rs *runs) owner(id string) principal {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.byID[id]; r != nil {
		return r.record.Principal
	}
	return ""
}

// using returns the run of a lab that goes on, or that left processes behind
// which still run; false when there is neither.
func (rs *runs) using(labID string) (runRecord, bool) {
	rs.mu.Lock()
	r, left := rs.running[labID], slices.Clone(rs.leftover)
	var record runRecord
	if r != nil {
		record = r.record
	}
	rs.mu.Unlock()
	if r != nil {
		return record, true
	}
	for _, f := range left {
		if f.record.LabID == labID && f.alive() > 0 {
			return f.record, true
		}
	}
	return runRecord{}, false
}

// stop ends a run and returns once it has ended, or ctx does. A run that has
// ended stays as it is.
func (rs *runs) stop(ctx context.Context, p principal, id string) error {
	if _, _, err := rs.view(p, id); err != nil {
		return err
	}
	rs.mu.Lock()
	r := rs.byID[id]
	if r != nil && r.cancel != nil {
		r.cancel()
	}
	rs.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopAll asks the running actions for which is holds to end, and does not
// wait for them.
func (rs *runs) stopAll(is func(runRecord) bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.running {
		if is(r.record) && r.cancel != nil {
			r.cancel()
		}
	}
}

// close stops all running actions, ends what finished ones left running, and
// returns when all is gone and saved.
func (rs *runs) close() {
	rs.mu.Lock()
	rs.closed = true
	rs.mu.Unlock()
	rs.stopAll(func(runRecord) bool { return true })
	rs.group.Wait()
	rs.mu.Lock()
	leftover := rs.leftover
	rs.leftover = nil
	rs.mu.Unlock()
	for _, f := range leftover {
		f.kill()
		f.close()
	}
	rs.saveAgain()
}
