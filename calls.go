package main

// The requests going on of callers whose access can be taken away. When it
// is, what they wait for ends too: questions, held answers, streams.

import (
	"context"
	"errors"
	"sync"
)

// calls knows those requests. The zero value knows none.
type calls struct {
	mu    sync.Mutex // guards going
	going map[*call]struct{}
}

// call is a request going on.
type call struct {
	principal principal
	need      scope // of its route
	cancel    context.CancelCauseFunc
}

// begin notes a request of p. Its context ends with ctx, at end, or when p's
// access does.
func (cs *calls) begin(ctx context.Context, p principal, need scope) (of context.Context, end func()) {
	of, cancel := context.WithCancelCause(ctx)
	c := &call{principal: p, need: need, cancel: cancel}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.going == nil {
		cs.going = make(map[*call]struct{})
	}
	cs.going[c] = struct{}{}
	return of, func() {
		cs.mu.Lock()
		delete(cs.going, c)
		cs.mu.Unlock()
		cancel(nil)
	}
}

// endAll ends the requests of those who may not make them any more.
func (cs *calls) endAll(may func(p principal, need scope) bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.going {
		if !may(c.principal, c.need) {
			c.cancel(accessTaken(c.principal))
		}
	}
}

func accessTaken(p principal) *problem {
	return problemf(kindForbidden, "The access of %s was taken away.", p)
}

// accessLost is the problem to tell when ctx, that of a request, has ended
// because the caller's access has; nil otherwise.
func accessLost(ctx context.Context) error {
	if p, ok := errors.AsType[*problem](context.Cause(ctx)); ok && p.kind == kindForbidden {
		return p
	}
	return nil
}
