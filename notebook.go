package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// waitingCells is how many cells of a notebook may wait for their turn.
	waitingCells = 200
	// lostAfter is how long nothing may be heard of a cell of whose end only
	// the reply or only the idle state has come, before the other counts as lost.
	lostAfter = 5 * time.Second
	// interruptDelay is how long an interrupt waits for the kernel to begin
	// with the cell that it is meant for: one that comes before is ignored.
	interruptDelay = time.Second
	// interruptSettle is how old a cell must be. In its first moments the
	// kernel runs code of its own, and an interrupt there is lost or harmful.
	interruptSettle = 100 * time.Millisecond
	// interruptHeard is how long an interrupted cell may take to end before
	// the answer says that it goes on.
	interruptHeard = time.Second
	// exitPatience is how long a kernel may take to end after exit().
	exitPatience = 3 * time.Second
)

// kernelWorld is what all notebooks share.
type kernelWorld struct {
	starter  *kernelStarter
	base     context.Context // of what outlives its request; the owner ends it
	goes     sync.WaitGroup  // goroutines that end with base or with their kernel
	patience time.Duration   // see lostAfter
}

// notebook is a lab's kernel, of one principal, and the cells that it was
// given. The kernel comes and goes; the cells stay.
//
// Cells run one at a time in the order they came. Those that wait when the
// kernel dies by itself run on the next one; those that wait when somebody
// restarts it or shuts it down do not run.
type notebook struct {
	labKey
	*kernelWorld
	log *slog.Logger

	// turn holds a value while the kernel is started or ended.
	turn chan struct{}

	mu       sync.Mutex // guards the rest
	cells    cellStore
	queue    []*cell
	working  bool           // a goroutine runs the cells of the queue
	current  *cell          // whose turn it is
	kernel   *kernelProcess // nil when there is none
	starting context.CancelCauseFunc
	lost     string    // how the last kernel ended if nobody shut it down; "" otherwise
	used     time.Time // when it was last of use
}

func newNotebook(key labKey, world *kernelWorld, log *slog.Logger) *notebook {
	return &notebook{
		labKey: key, kernelWorld: world, log: log.With("lab", key.lab, "principal", key.who),
		turn: make(chan struct{}, 1), used: time.Now(),
	}
}

// take waits for the right to start or end the kernel. The caller calls give.
func (n *notebook) take(ctx context.Context) error {
	select {
	case n.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *notebook) give() { <-n.turn }

// start returns the kernel, started if there is none.
func (n *notebook) start(ctx context.Context, wish kernelWish) (*kernelProcess, error) {
	if err := n.take(ctx); err != nil {
		return nil, err
	}
	defer n.give()
	n.mu.Lock()
	k := n.kernel
	n.used = time.Now()
	n.mu.Unlock()
	if k != nil && !k.dying() {
		return k, nil
	}
	if k != nil {
		<-k.ended
	}
	return n.startTaken(wish)
}

// startTaken starts a kernel for whoever holds the turn. It does not end with
// the request that asked, since others may wait for the same kernel.
func (n *notebook) startTaken(wish kernelWish) (*kernelProcess, error) {
	ctx, cancel := context.WithCancelCause(n.base)
	defer cancel(nil)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	n.setStarting(cancel)
	defer n.setStarting(nil)
	k, err := n.starter.start(ctx, n.labKey, wish, kernelListener{published: n.published, answered: n.answered}, n.log)
	if err != nil {
		n.setKernel(nil, "")
		n.log.Warn("kernel did not start", "err", err)
		return nil, err
	}
	n.setKernel(k, "")
	n.log.Info("kernel started")
	n.goes.Go(func() { // ends with the kernel
		<-k.ended
		n.forget(k)
	})
	return k, nil
}

func (n *notebook) setStarting(cancel context.CancelCauseFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.starting = cancel
}

func (n *notebook) setKernel(k *kernelProcess, lost string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kernel, n.lost, n.used = k, lost, time.Now()
}

func (n *notebook) forget(k *kernelProcess) {
	n.starter.release()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kernel == k {
		n.kernel, n.lost = nil, k.said()
	}
}

// add puts c at the end of the queue. The caller sees to it that work runs
// when it is true.
func (n *notebook) add(c *cell) (work bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) >= waitingCells {
		return false, problemf(kindTooMany, "%d cells of this lab wait for their turn already.", waitingCells)
	}
	n.cells.add(c)
	n.queue = append(n.queue, c)
	work = !n.working
	n.working = true
	return work, nil
}

// work runs the cells of the queue until it is empty.
func (n *notebook) work() {
	for {
		n.mu.Lock()
		n.current, n.used = nil, time.Now()
		n.cells.trim()
		if len(n.queue) == 0 {
			n.working = false
			n.mu.Unlock()
			return
		}
		c := n.queue[0]
		n.queue = slices.Delete(n.queue, 0, 1)
		n.current = c
		n.mu.Unlock()
		n.run(c)
	}
}

func (n *notebook) run(c *cell) {
	if c.isDone() {
		return
	}
	k, err := n.start(n.base, kernelWish{create: true})
	if err != nil {
		c.abandon(err, cellError{Name: "KernelNotStarted", Value: sentence(err)})
		return
	}
	code, ok := c.take()
	if !ok {
		return
	}
	if err := k.client.execute(c.request, code); err != nil {
		n.log.Warn("cell not sent", "err", err)
		k.stop("The kernel did not take the cell.")
	}
	n.await(c, k)
	if c.ends() && !waitFor(k.ended, exitPatience) {
		k.stop("The kernel was ended by its cell.")
	}
}

// await returns when c is over. It is over when the reply and the idle state
// have come, when the kernel has ended, and when one half of the end has come
// and the other is lost.
func (n *notebook) await(c *cell, k *kernelProcess) {
	select {
	case <-c.ended:
		return
	case <-k.ended:
		c.orphaned(k.death())
		return
	case <-c.half:
	}
	tick := time.NewTicker(n.patience / 10)
	defer tick.Stop()
	for {
		select {
		case <-c.ended:
			return
		case <-k.ended:
			c.orphaned(k.death())
			return
		case <-tick.C:
			if c.giveUp(n.patience) {
				return
			}
		}
	}
}

// leave gives c up if the kernel has not got it, since nobody waits for it.
func (n *notebook) leave(c *cell) {
	if !c.abandon(context.Canceled, cellError{Name: "CellNotRun", Value: "Nobody waited for this cell."}) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cells.remove(c)
	n.queue = slices.DeleteFunc(n.queue, func(waiting *cell) bool { return waiting == c })
}

// dismiss ends the cells that wait, because of what happens to the kernel.
func (n *notebook) dismiss(why string) {
	n.mu.Lock()
	waiting := n.queue
	if n.current != nil {
		waiting = append(waiting, n.current)
	}
	n.queue = nil
	n.mu.Unlock()
	for _, c := range waiting {
		c.abandon(nil, cellError{Name: "CellNotRun", Value: why})
	}
}

// published takes a message about one of the cells from the kernel.
func (n *notebook) published(m jupyterMessage) {
	isParent := func(c *cell) bool { return c.request == m.parent }
	update, isUpdate := (*cellEvent)(nil), m.header.Type == "update_display_data"
	if isUpdate {
		update, isUpdate = cellEventOf(m)
	}
	n.mu.Lock()
	c := n.cells.find(isParent)
	var others []*cell
	if isUpdate {
		others = slices.Clone(n.cells.cells)
	}
	n.mu.Unlock()
	for _, other := range others {
		other.updated(update)
	}
	if c != nil {
		c.published(m)
	}
}

// answered takes the reply to one of the cells.
func (n *notebook) answered(m jupyterMessage) {
	n.mu.Lock()
	c := n.cells.find(func(c *cell) bool { return c.request == m.parent })
	n.mu.Unlock()
	if c != nil {
		c.answered(m)
	}
}

func noKernel(lab string) error {
	return problemf(kindNotFound, "There is no kernel of the lab %s: start one, or run a cell.", lab)
}

func (n *notebook) noKernel() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost != "" {
		return problemf(kindNotFound, "There is no kernel of the lab %s any more. %s", n.lab, n.lost)
	}
	return noKernel(n.lab)
}

// interrupt tells the kernel to leave its cell, and reports whether the cell
// goes on all the same.
func (n *notebook) interrupt() (busy bool, err error) {
	n.mu.Lock()
	k, c, starting := n.kernel, n.current, n.starting != nil
	n.mu.Unlock()
	if c != nil && c.abandon(nil, cellError{Name: "KeyboardInterrupt", Value: "The cell was interrupted before it began."}) {
		return false, nil
	}
	if k == nil && starting {
		return false, nil
	}
	if k == nil || k.dying() {
		return false, n.noKernel()
	}
	if c == nil {
		k.interruptNow()
		return false, nil
	}
	c.interrupted()
	if waitFor(c.begun, interruptDelay) && waitFor(c.ended, interruptSettle-c.age()) {
		return false, nil
	}
	k.interruptNow()
	return !waitFor(c.ended, interruptHeard), nil
}

// restart ends the kernel and starts a new one, also where the last one has
// ended by itself.
func (n *notebook) restart(ctx context.Context) error {
	if err := n.take(ctx); err != nil {
		return err
	}
	defer n.give()
	n.mu.Lock()
	k, lost := n.kernel, n.lost
	n.mu.Unlock()
	if k == nil && lost == "" {
		return noKernel(n.lab)
	}
	n.dismiss("The kernel was restarted before this cell began.")
	if k != nil {
		k.stop("The kernel was restarted.")
	}
	_, err := n.startTaken(kernelWish{create: true})
	return err
}

// shutdown ends the kernel, one that starts too, and drops the cells that wait.
func (n *notebook) shutdown(ctx context.Context, why string) error {
	n.mu.Lock()
	starting := n.starting
	n.mu.Unlock()
	n.dismiss(why)
	if starting != nil {
		starting(problemf(kindConflict, "%s", why))
	}
	if err := n.take(ctx); err != nil {
		return err
	}
	defer n.give()
	n.mu.Lock()
	k := n.kernel
	n.mu.Unlock()
	if k == nil && starting == nil {
		return n.noKernel()
	}
	if k != nil {
		k.stop(why)
	}
	n.setKernel(nil, "")
	return nil
}

// endIdle ends the kernel if it has been of no use for longer than limit.
func (n *notebook) endIdle(limit time.Duration) {
	select {
	case n.turn <- struct{}{}:
	default:
		return // it is being started or ended
	}
	defer n.give()
	n.mu.Lock()
	k, idle := n.kernel, !n.working && time.Since(n.used) >= limit
	n.mu.Unlock()
	if k != nil && idle {
		k.stop("The kernel was ended because nothing used it for " + limit.String() + ".")
	}
}

// kernelStatus is what is told of a notebook's kernel.
type kernelStatus struct {
	labKey
	state  string // running, busy or starting
	ready  bool
	used   time.Time // when it was last of use
	leader int       // its process; 0 while it starts
}

// status is false when there is no kernel.
func (n *notebook) status() (kernelStatus, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := kernelStatus{labKey: n.labKey, state: "running", ready: true, used: n.used}
	switch {
	case n.starting != nil:
		s.state, s.ready = "starting", false
	case n.kernel == nil || n.kernel.dying():
		return s, false
	case n.working:
		s.state, s.used = "busy", time.Now()
	}
	if n.kernel != nil && s.ready {
		s.leader = n.kernel.proc.cmd.Process.Pid
	}
	return s, true
}

// unused reports since when the notebook has been without kernel and work.
func (n *notebook) unused() (since time.Time, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.used, n.kernel == nil && n.starting == nil && !n.working
}

// cell returns the newest cell of that id, or nil.
func (n *notebook) cell(id string) *cell {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cells.find(func(c *cell) bool { return c.id == id })
}
