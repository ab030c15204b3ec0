package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// reapEvery is how often sandboxes are looked at.
const reapEvery = time.Minute

// reap ends idle sandboxes and removes old folders, every minute until ctx ends.
func (s *sandboxes) reap(ctx context.Context) {
	tick := time.NewTicker(reapEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.reapOnce()
		case <-ctx.Done():
			return
		}
	}
}

func (s *sandboxes) reapOnce() {
	s.endIdle()
	s.removeWhere(func(sb *sandbox) bool { return s.now().Sub(sb.record.EndedAt) > s.cfg.keep })
	s.shrink()
}

// endIdle ends the active sandboxes that nobody has used for long. Whether one
// is idle is asked again under the lock that ends it.
func (s *sandboxes) endIdle() {
	idle := func(sb *sandbox) bool {
		return sb.record.active() && sb.uses == 0 && s.now().Sub(sb.lastUse) > s.cfg.idleTTL
	}
	for _, sb := range s.where(idle) {
		if err := s.end(sb, func() bool { return idle(sb) }); err != nil {
			s.log.Error("idle sandbox does not end", "sandbox", sb.record.ID, "error", err)
		}
	}
}

// where returns the sandboxes for which is holds, those that ended first first.
func (s *sandboxes) where(is func(*sandbox) bool) []*sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*sandbox
	for _, sb := range s.byID {
		if is(sb) {
			found = append(found, sb)
		}
	}
	slices.SortFunc(found, func(a, b *sandbox) int {
		return cmp.Or(a.record.EndedAt.Compare(b.record.EndedAt), cmp.Compare(a.record.ID, b.record.ID))
	})
	return found
}

// shrink removes ended sandboxes, the oldest first, while all folders together
// exceed the disk quota.
func (s *sandboxes) shrink() {
	total := int64(0)
	for _, sb := range s.where(func(*sandbox) bool { return true }) {
		total += s.folderSize(sb).total()
	}
	for _, sb := range s.where(func(sb *sandbox) bool { return !sb.record.active() }) {
		if total <= s.cfg.diskQuota {
			return
		}
		if size := s.folderSize(sb).total(); s.remove(sb) {
			total -= size
		}
	}
}

// folderSize is what a sandbox's folder holds. An ended one does not change, so
// it is counted once.
func (s *sandboxes) folderSize(sb *sandbox) treeSize {
	s.mu.Lock()
	known, active := sb.size, sb.record.active()
	s.mu.Unlock()
	if known != nil {
		return *known
	}
	size, err := measureTree(s.keys, sb.dir, 2*treeDepth, nil)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("sandbox cannot be measured whole", "sandbox", sb.record.ID, "error", err)
	}
	if err == nil && !active {
		s.mu.Lock()
		sb.size = &size
		s.mu.Unlock()
	}
	return size
}

func (s *sandboxes) removeWhere(is func(*sandbox) bool) {
	for _, sb := range s.where(func(sb *sandbox) bool { return !sb.record.active() && is(sb) }) {
		s.remove(sb)
	}
}

// remove removes an ended sandbox with its snapshots, unless it is in use, and
// reports whether it did. A crash in between leaves it for the next start.
func (s *sandboxes) remove(sb *sandbox) bool {
	s.mu.Lock()
	busy := sb.record.active() || sb.uses > 0
	if !busy {
		delete(s.byID, sb.record.ID)
	}
	s.mu.Unlock()
	if busy {
		return false
	}
	old := filepath.Join(s.dir, oldPrefix+sb.record.ID)
	err := os.Rename(sb.dir, old)
	if err == nil {
		err = removeTree(old)
	}
	if err != nil {
		s.log.Error("sandbox is not removed", "sandbox", sb.record.ID, "error", err)
		return false
	}
	s.log.Info("sandbox removed", "sandbox", sb.record.ID)
	return true
}
