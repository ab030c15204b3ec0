package main

import (
	"context"
	"sync"
)

// labSpares are environments that are made while it is not known, or not
// approved, which lab they are for. Nobody sees one before it is adopted.
type labSpares struct {
	envs *environments

	mu   sync.Mutex // guards held and the holders of each
	held map[source]*labSpare
}

// labSpare is an environment in the making, shared by all who prepare the
// same commit.
type labSpare struct {
	holders int           // the last one to drop it discards it
	done    chan struct{} // closed when env and err are set
	env     *spareEnv
	err     error
	stop    context.CancelFunc

	adopting sync.Mutex // guards the use of env
}

func newLabSpares(envs *environments) *labSpares {
	return &labSpares{envs: envs, held: make(map[source]*labSpare)}
}

// hold begins to make an environment for src, or joins others for whom one is
// made. The caller calls drop at the end.
func (ss *labSpares) hold(src source) *labSpare {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.held[src]
	if s == nil {
		ctx, cancel := context.WithCancel(context.Background())
		s = &labSpare{done: make(chan struct{}), stop: cancel}
		ss.held[src] = s
		go func() { // ends with the environment, or in drop, which waits for it
			defer close(s.done)
			s.env, s.err = ss.envs.spare(ctx)
		}()
	}
	s.holders++
	return s
}

// drop gives s up, if it is not nil. The last holder removes it unless it was
// adopted.
func (ss *labSpares) drop(src source, s *labSpare) {
	if s == nil || !ss.release(src, s) {
		return
	}
	s.stop()
	<-s.done
	if s.env != nil {
		s.env.discard()
	}
}

// release reports whether nobody holds s any more.
func (ss *labSpares) release(src source, s *labSpare) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.holders--
	if s.holders == 0 {
		delete(ss.held, src)
	}
	return s.holders == 0
}

// adopt makes the spare the environment id, unless that is ready.
func (s *labSpare) adopt(ctx context.Context, envs *environments, id string) error {
	select {
	case <-s.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.err != nil {
		return s.err
	}
	s.adopting.Lock()
	defer s.adopting.Unlock()
	return envs.adopt(ctx, s.env, id)
}
