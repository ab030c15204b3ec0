package main

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sandboxOrder is what a page asks for.
type sandboxOrder struct {
	learnerID string
	taskID    string // "" for none
	restore   string // a snapshot to start with; "" for an empty workspace
}

// create makes a sandbox, if all gates let it pass. Nothing is used up by one
// that does not come about.
func (s *sandboxes) create(ctx context.Context, p principal, order sandboxOrder) (sandboxInfo, error) {
	if err := s.checkOrder(order); err != nil {
		return sandboxInfo{}, err
	}
	if err := s.available(ctx); err != nil {
		return sandboxInfo{}, err
	}
	data, err := s.state.current()
	if err != nil {
		return sandboxInfo{}, err
	}
	if err := admitLearner(data, s.cfg, order.learnerID); err != nil {
		return sandboxInfo{}, err
	}
	sb, done, err := s.reserve(p, order)
	if err != nil {
		return sandboxInfo{}, err
	}
	defer done()
	if err := s.build(p, sb, order); err != nil {
		s.giveBack(sb)
		return sandboxInfo{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sb.ready = true
	s.log.Info("sandbox made", "sandbox", sb.record.ID, "learner", order.learnerID, "principal", string(p))
	return sb.info(), nil
}

func (s *sandboxes) checkOrder(order sandboxOrder) error {
	if err := checkLearnerID(order.learnerID); err != nil {
		return err
	}
	if _, ok := s.cfg.tasks[order.taskID]; !ok && order.taskID != "" {
		return problemf(kindInvalid, "task_id %q is not a task of this computer's config.toml.", order.taskID)
	}
	return nil
}

// reserve counts a sandbox that is about to be made as if it were there, so
// that no cap is passed by racing.
func (s *sandboxes) reserve(p principal, order sandboxOrder) (*sandbox, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if err := s.roomLocked(order.learnerID, now); err != nil {
		return nil, nil, err
	}
	record := sandboxRecord{
		ID:        strings.ToLower(rand.Text()),
		Principal: p,
		LearnerID: order.learnerID,
		TaskID:    order.taskID,
		CreatedAt: now.UTC().Truncate(time.Second),
	}
	sb := newSandbox(filepath.Join(s.dir, record.ID), record)
	sb.reserved = now
	s.byID[record.ID] = sb
	s.creates = append(s.creates, now)
	return sb, s.holdLocked(sb), nil
}

// roomLocked reports which cap is reached, in the order in which they count.
func (s *sandboxes) roomLocked(learnerID string, now time.Time) error {
	if s.closed {
		return problemf(kindNoCapacity, "The runtime is shutting down.")
	}
	active, own := 0, 0
	for _, sb := range s.byID {
		if !sb.record.active() {
			continue
		}
		active++
		if sb.record.LearnerID == learnerID {
			own++
		}
	}
	if own >= s.cfg.maxPerLearner {
		return problemf(kindTooMany, "The learner %q has %d active sandboxes, which is the most: delete one first.", learnerID, own)
	}
	s.creates = slices.DeleteFunc(s.creates, func(at time.Time) bool { return now.Sub(at) >= createWindow })
	if len(s.creates) >= s.cfg.createsPerMin {
		free := s.creates[len(s.creates)-s.cfg.createsPerMin].Add(createWindow).Sub(now)
		return problemf(kindTooMany, "%d sandboxes were made within a minute, which is the most: wait a little.", len(s.creates)).after(free)
	}
	if active >= s.cfg.poolSize {
		return problemf(kindNoCapacity, "All %d sandboxes of this computer are in use: delete one first.", active)
	}
	return nil
}

// giveBack undoes a reservation.
func (s *sandboxes) giveBack(sb *sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sb.record.ID)
	if at := slices.Index(s.creates, sb.reserved); at >= 0 {
		s.creates = slices.Delete(s.creates, at, at+1)
	}
}

// build makes a sandbox's folder, whole or not at all.
func (s *sandboxes) build(p principal, sb *sandbox, order sandboxOrder) error {
	folder := filepath.Join(s.dir, newPrefix+sb.record.ID)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	err := s.fill(p, folder, sb, order)
	if err == nil {
		err = os.Rename(folder, sb.dir)
	}
	if err != nil {
		return errors.Join(err, removeTree(folder))
	}
	return nil
}

func (s *sandboxes) fill(p principal, folder string, sb *sandbox, order sandboxOrder) error {
	if err := makeSandboxFolders(folder, s.isolator.owner()); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(folder, snapshotsFolder), 0o700); err != nil {
		return err
	}
	if order.restore != "" {
		snapshot, done, err := s.holdSnapshot(p, order)
		if err != nil {
			return err
		}
		defer done()
		w := workspace{dir: filepath.Join(folder, workspaceFolder), keys: s.keys, owner: s.isolator.owner()}
		if err := w.restoreFrom(snapshot, s.quota()); err != nil {
			return err
		}
	}
	return sb.record.write(folder)
}

// holdSnapshot returns the folder of a snapshot of the same learner and the
// same principal, which stays until done is called.
func (s *sandboxes) holdSnapshot(p principal, order sandboxOrder) (folder string, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sb := range s.byID {
		if sb.record.Principal != p || sb.record.LearnerID != order.learnerID {
			continue
		}
		for _, snapshot := range sb.record.Snapshots {
			if snapshot.ID == order.restore {
				return filepath.Join(sb.dir, snapshotsFolder, snapshot.ID), s.holdLocked(sb), nil
			}
		}
	}
	return "", nil, problemf(kindNotFound, "There is no snapshot %q of this learner.", order.restore)
}
