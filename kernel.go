package main

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// notebookCount is how many notebooks are kept, those without a kernel
	// for the outputs of their cells.
	notebookCount = 64
	// reapSeldom is the longest time between looks for idle kernels.
	reapSeldom = time.Minute
)

// kernels are the running kernels and the cells that were run, for each
// principal and lab. A principal sees its own alone.
type kernels struct {
	kernelWorld
	packages *packages
	log      *slog.Logger
	cancel   context.CancelCauseFunc // ends base

	mu        sync.Mutex // guards the rest
	closed    bool
	notebooks map[labKey]*notebook
}

// newKernels returns kernels, of which none runs. The caller calls close.
func newKernels(settings kernelSettings, ps *processes, envs *environments, log *slog.Logger) *kernels {
	packages := newPackages(settings.dir, settings.environ, ps, envs, log)
	ks := &kernels{packages: packages, log: log, notebooks: make(map[labKey]*notebook)}
	ks.starter = newKernelStarter(settings, ps, envs, packages)
	ks.patience = lostAfter
	ks.base, ks.cancel = context.WithCancelCause(context.Background())
	if settings.idle > 0 {
		ks.goes.Go(func() { ks.reap(settings.idle) }) // ends with base
	}
	return ks
}

// close ends all kernels and returns when nothing of them is left.
func (ks *kernels) close() {
	ks.mu.Lock()
	ks.closed = true
	ks.mu.Unlock()
	ks.cancel(problemf(kindNoCapacity, "The runtime is shutting down."))
	var ending sync.WaitGroup
	for _, n := range ks.snapshot(func(labKey) bool { return true }) {
		ending.Go(func() { _ = n.shutdown(context.Background(), "The runtime is shutting down.") })
	}
	ending.Wait()
	ks.goes.Wait()
}

// endAll begins to end the kernels of the principals for which is holds,
// because they may no longer use them.
func (ks *kernels) endAll(is func(principal) bool) {
	for _, n := range ks.snapshot(func(k labKey) bool { return is(k.who) }) {
		ks.begin(func() { _ = n.shutdown(context.Background(), "The site's access was revoked.") })
	}
}

func (ks *kernels) snapshot(of func(labKey) bool) []*notebook {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	var found []*notebook
	for key, n := range ks.notebooks {
		if of(key) {
			found = append(found, n)
		}
	}
	return found
}

// begin runs f in a goroutine that close waits for, unless it is too late.
func (ks *kernels) begin(f func()) bool {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if !ks.closed {
		ks.goes.Go(f)
	}
	return !ks.closed
}

func checkLabID(lab string) error {
	if !labIDPattern.MatchString(lab) {
		return problemf(kindInvalid, "lab_id must be 1 to 64 letters, digits, dots, underscores or dashes, and begin with a letter or digit.")
	}
	return nil
}

// notebook returns what there is of a principal's lab.
func (ks *kernels) notebook(who principal, lab string) (*notebook, error) {
	if err := checkLabID(lab); err != nil {
		return nil, err
	}
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if n := ks.notebooks[labKey{who, lab}]; n != nil {
		return n, nil
	}
	return nil, noKernel(lab)
}

// open returns the notebook of a principal's lab, made if there is none. Where
// that makes too many, those longest without a kernel are forgotten.
func (ks *kernels) open(who principal, lab string) (*notebook, error) {
	if err := checkLabID(lab); err != nil {
		return nil, err
	}
	ks.forgetOldest()
	ks.mu.Lock()
	defer ks.mu.Unlock()
	key := labKey{who, lab}
	if ks.closed {
		return nil, context.Cause(ks.base)
	}
	if ks.notebooks[key] == nil {
		ks.notebooks[key] = newNotebook(key, &ks.kernelWorld, ks.log)
	}
	return ks.notebooks[key], nil
}

func (ks *kernels) forgetOldest() {
	all := ks.snapshot(func(labKey) bool { return true })
	if len(all) < notebookCount {
		return
	}
	var oldest *notebook
	var since time.Time
	for _, n := range all {
		if used, unused := n.unused(); unused && (oldest == nil || used.Before(since)) {
			oldest, since = n, used
		}
	}
	ks.mu.Lock()
	defer ks.mu.Unlock()
	for key, n := range ks.notebooks {
		if n == oldest {
			delete(ks.notebooks, key)
		}
	}
}

// reap ends kernels that have been idle for too long.
func (ks *kernels) reap(idle time.Duration) {
	tick := time.NewTicker(min(reapSeldom, max(idle/10, time.Millisecond)))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ks.base.Done():
			return
		}
		for _, n := range ks.snapshot(func(labKey) bool { return true }) {
			n.endIdle(idle)
		}
	}
}

// start starts a kernel unless there is one, and returns when it answers.
func (ks *kernels) start(ctx context.Context, who principal, lab string, wish kernelWish) error {
	n, err := ks.open(who, lab)
	if err == nil {
		err = ks.starter.checkVersion(lab, wish.python)
	}
	if err != nil {
		return err
	}
	_, err = n.start(ctx, wish)
	return err
}

func (ks *kernels) status(who principal, lab string) (kernelStatus, error) {
	n, err := ks.notebook(who, lab)
	if err != nil {
		return kernelStatus{}, err
	}
	s, ok := n.status()
	if !ok {
		return kernelStatus{}, n.noKernel()
	}
	return s, nil
}

// list returns the principal's kernels, sorted by lab.
func (ks *kernels) list(who principal) []kernelStatus {
	return ks.where(func(k labKey) bool { return k.who == who })
}

// all returns the kernels of all principals, sorted by lab.
func (ks *kernels) all() []kernelStatus { return ks.where(func(labKey) bool { return true }) }

func (ks *kernels) where(is func(labKey) bool) []kernelStatus {
	var found []kernelStatus
	for _, n := range ks.snapshot(is) {
		if s, ok := n.status(); ok {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b kernelStatus) int {
		return cmp.Or(cmp.Compare(a.lab, b.lab), cmp.Compare(a.who, b.who))
	})
	return found
}

// interrupt tells the kernel to leave its cell. busy is true when the cell
// goes on all the same; a restart then helps.
func (ks *kernels) interrupt(who principal, lab string) (busy bool, err error) {
	n, err := ks.notebook(who, lab)
	if err != nil {
		return false, err
	}
	return n.interrupt()
}

func (ks *kernels) restart(ctx context.Context, who principal, lab string) error {
	n, err := ks.notebook(who, lab)
	if err != nil {
		return err
	}
	return n.restart(ctx)
}

func (ks *kernels) shutdown(ctx context.Context, who principal, lab string) error {
	n, err := ks.notebook(who, lab)
	if err != nil {
		return err
	}
	return n.shutdown(ctx, "The kernel was shut down.")
}

// install puts packages into the environment of a lab, in pip's own notation,
// and returns the end of what pip wrote.
func (ks *kernels) install(ctx context.Context, lab string, names []string) (output string, err error) {
	if err := checkLabID(lab); err != nil {
		return "", err
	}
	return ks.packages.install(ctx, lab, names)
}

// run gives a cell to the lab's kernel, which is started when there is none,
// and returns at once. The cell is given up if ctx ends before the kernel has
// got it. id "" makes one up.
func (ks *kernels) run(ctx context.Context, who principal, lab, id, code string) (*cell, error) {
	n, err := ks.open(who, lab)
	if err != nil {
		return nil, err
	}
	c := newCell(id, code)
	work, err := n.add(c)
	if err != nil {
		return nil, err
	}
	if work && !ks.begin(n.work) {
		n.leave(c)
		return nil, context.Cause(ks.base)
	}
	context.AfterFunc(ctx, func() { n.leave(c) })
	return c, nil
}

// cell returns one of the last cells of a lab.
func (ks *kernels) cell(who principal, lab, id string) (*cell, error) {
	if err := checkLabID(lab); err != nil {
		return nil, err
	}
	ks.mu.Lock()
	n := ks.notebooks[labKey{who, lab}]
	ks.mu.Unlock()
	if n != nil {
		if c := n.cell(id); c != nil {
			return c, nil
		}
	}
	return nil, problemf(kindNotFound, "This cell is not kept: the last %d of a lab are.", storedCells)
}
