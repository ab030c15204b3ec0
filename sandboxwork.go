package main

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"strings"
	"time"
)

// turnsWaiting is how many execs and snapshots of one sandbox may wait.
const turnsWaiting = 16

// exec runs a command in a sandbox, after those that came before. It is ended
// when ctx ends: nobody is left to read its result.
func (s *sandboxes) exec(ctx context.Context, p principal, id string, argv []string, timeout *float64) (sandboxResult, error) {
	none := sandboxResult{}
	if err := checkCommand(argv); err != nil {
		return none, err
	}
	most, err := commandTimeout(timeout, s.cfg.execTimeout)
	if err != nil {
		return none, err
	}
	sb, done, err := s.use(p, id)
	if err != nil {
		return none, err
	}
	defer done()
	if err := checkPolicy(s.task(sb), argv[0]); err != nil {
		return none, err
	}
	ctx, cancel := s.while(ctx, sb)
	defer cancel()
	if err := sb.turn.enter(ctx, turnsWaiting); err != nil {
		return none, err
	}
	defer sb.turn.leave()
	result, err := s.runIn(ctx, sb, argv, most)
	if err != nil {
		return none, err
	}
	s.note(sb, sandboxEvent{Type: "exec", Cmd: argv, Returncode: &result.status,
		Duration: new(result.duration.Seconds()), Limit: result.limit})
	return result, nil
}

// task is the kind of work that a sandbox is for. A task that is no longer
// configured has the strictest policy, since none would allow everything.
func (s *sandboxes) task(sb *sandbox) sandboxTask {
	if sb.record.TaskID == "" {
		return sandboxTask{environment: environmentBuild}
	}
	if task, ok := s.cfg.tasks[sb.record.TaskID]; ok {
		return task
	}
	return sandboxTask{environment: environmentDesign}
}

// runIn runs a command and puts the sandbox in order after it. The caller has
// the turn.
func (s *sandboxes) runIn(ctx context.Context, sb *sandbox, argv []string, timeout time.Duration) (sandboxResult, error) {
	if err := emptyScratch(sb.dir); err != nil {
		return sandboxResult{}, err
	}
	command := sandboxCommand{folder: sb.dir, argv: argv, timeout: timeout, quota: s.quota(), keys: s.keys}
	if err := s.measureAll(sb, &command); err != nil {
		return sandboxResult{}, err
	}
	result, err := s.isolator.run(ctx, command)
	s.mu.Lock()
	sb.used = nil
	s.mu.Unlock()
	if err := emptyScratch(sb.dir); err != nil { // tried again before the next
		s.log.Warn("scratch is not emptied", "sandbox", sb.record.ID, "error", err)
	}
	return result, err
}

// emptyScratch clears /tmp and /dev/shm of a sandbox in which nothing runs.
func emptyScratch(dir string) error {
	return errors.Join(emptyTree(filepath.Join(dir, tmpFolder)), emptyTree(filepath.Join(dir, shmFolder)))
}

// measureAll finds out what a command starts with, counted as it is while the
// command runs: what is there already must not be what ends it.
func (s *sandboxes) measureAll(sb *sandbox, c *sandboxCommand) error {
	workspace, err := s.measure(sb)
	if errors.Is(err, errTreeDeep) {
		c.deep = true
		workspace, err = measureTree(s.keys, filepath.Join(sb.dir, workspaceFolder), treeDeepest, nil)
	}
	if err != nil && !errors.Is(err, errTreeDeep) {
		return err
	}
	scratch, err := measureTree(s.keys, filepath.Join(sb.dir, scratchFolder), treeDepth, nil)
	c.used = workspace.plus(scratch)
	return err
}

// measure is what a workspace holds.
func (s *sandboxes) measure(sb *sandbox) (treeSize, error) {
	s.mu.Lock()
	known := sb.used
	s.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	size, err := measureTree(s.keys, filepath.Join(sb.dir, workspaceFolder), treeDepth, nil)
	if err == nil {
		s.mu.Lock()
		sb.used = &size
		s.mu.Unlock()
	}
	return size, err
}

// files lists a workspace as workspace.list does.
func (s *sandboxes) files(p principal, id string, recursive bool) ([]string, error) {
	sb, done, err := s.use(p, id)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.workspace(sb).list(recursive)
}

// read returns the content of a file as workspace.read does.
func (s *sandboxes) read(p principal, id, name string) ([]byte, error) {
	sb, done, err := s.use(p, id)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.workspace(sb).read(name)
}

// write writes a file as workspace.write does, if the workspace has room.
func (s *sandboxes) write(p principal, id, name string, data []byte) error {
	sb, done, err := s.use(p, id)
	if err != nil {
		return err
	}
	defer done()
	sb.files.Lock()
	defer sb.files.Unlock()
	more, err := s.workspace(sb).growth(name, len(data))
	if err != nil {
		return err
	}
	if err := s.makeRoom(sb, more); err != nil {
		return err
	}
	if err := s.workspace(sb).write(name, data); err != nil {
		return err
	}
	s.note(sb, sandboxEvent{Type: "write", Path: name})
	return nil
}

// makeRoom counts what is about to be written. What it replaces is found out
// only when it seems not to fit.
func (s *sandboxes) makeRoom(sb *sandbox, more treeSize) error {
	const tries = 3 // a command may change the workspace meanwhile
	for range tries {
		if _, err := s.measure(sb); err != nil && !errors.Is(err, errTreeDeep) {
			return treeProblem(err)
		}
		if s.takeRoom(sb, more) {
			return nil
		}
	}
	return s.fullProblem()
}

// takeRoom adds to what a workspace holds, unless that is too much or not known.
// It is then counted anew.
func (s *sandboxes) takeRoom(sb *sandbox, more treeSize) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sb.used == nil {
		return false
	}
	next := sb.used.plus(more)
	if !next.within(s.quota()) {
		sb.used = nil
		return false
	}
	sb.used = &next
	return true
}

func (s *sandboxes) fullProblem() error {
	return problemf(kindFull, "The workspace may hold %d MiB in %d files and folders: delete some with a command.",
		s.cfg.workspaceQuota>>20, workspaceEntries)
}

// sandboxSnapshot is a copy of a workspace.
type sandboxSnapshot struct {
	id      string
	path    string   // on the host
	files   []string // sorted top-level names
	skipped []string // what is neither file, folder nor link
}

// snapshot copies a workspace while nothing runs or is written in it.
func (s *sandboxes) snapshot(ctx context.Context, p principal, id string) (sandboxSnapshot, error) {
	none := sandboxSnapshot{}
	sb, done, err := s.use(p, id)
	if err != nil {
		return none, err
	}
	defer done()
	ctx, cancel := s.while(ctx, sb)
	defer cancel()
	if err := sb.turn.enter(ctx, turnsWaiting); err != nil {
		return none, err
	}
	defer sb.turn.leave()
	sb.files.Lock()
	defer sb.files.Unlock()
	used, err := s.measure(sb)
	if err != nil {
		return none, treeProblem(err)
	}
	if err := s.roomForSnapshot(used); err != nil {
		return none, err
	}
	shot := sandboxSnapshot{id: strings.ToLower(rand.Text())}
	shot.path = filepath.Join(sb.dir, snapshotsFolder, shot.id)
	copied, skipped, err := s.workspace(sb).snapshotTo(shot.path, s.quota())
	if err != nil {
		return none, err
	}
	if shot.files, err = (workspace{dir: shot.path}).list(false); err == nil {
		err = s.keepSnapshot(sb, snapshotRecord{shot.id, s.now().UTC(), copied.bytes, copied.entries})
	}
	if err != nil {
		return none, errors.Join(err, removeTree(shot.path))
	}
	shot.skipped = skipped
	s.note(sb, sandboxEvent{Type: "snapshot", SnapshotID: shot.id})
	return shot, nil
}

// roomForSnapshot refuses a snapshot that would take all sandboxes together
// above the disk quota. Ended sandboxes do not count: the reaper removes them
// when they are in the way.
func (s *sandboxes) roomForSnapshot(next treeSize) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := next.total()
	for _, sb := range s.byID {
		if !sb.record.active() {
			continue
		}
		if sb.used != nil {
			total += sb.used.total()
		}
		for _, snapshot := range sb.record.Snapshots {
			total += snapshot.size().total()
		}
	}
	if total > s.cfg.diskQuota {
		return problemf(kindFull, "The sandboxes of this computer may hold %d MiB in all: delete a sandbox first.", s.cfg.diskQuota>>20)
	}
	return nil
}

func (s *sandboxes) keepSnapshot(sb *sandbox, snapshot snapshotRecord) error {
	s.mu.Lock()
	record := sb.record
	s.mu.Unlock()
	record.Snapshots = append(record.Snapshots[:len(record.Snapshots):len(record.Snapshots)], snapshot)
	if err := record.write(sb.dir); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sb.record.Snapshots = record.Snapshots
	return nil
}

// eventsAfter returns the events of a sandbox with a number above n, oldest
// first. One without a task has none.
func (s *sandboxes) eventsAfter(p principal, id string, n int64) ([]sandboxEvent, error) {
	sb, done, err := s.use(p, id)
	if err != nil {
		return nil, err
	}
	defer done()
	if sb.events == nil {
		return []sandboxEvent{}, nil
	}
	return sb.events.after(n)
}

// note adds to the event log. What was done counts even when it cannot be noted.
func (s *sandboxes) note(sb *sandbox, e sandboxEvent) {
	if sb.events == nil {
		return
	}
	e.At = s.now().UTC().Truncate(time.Millisecond)
	if err := sb.events.add(e); err != nil {
		s.log.Warn("sandbox event is lost", "sandbox", sb.record.ID, "error", err)
	}
}
