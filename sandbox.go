package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	sandboxesFolder = "sandboxes" // in the data folder

	// workspaceEntries is how many files and folders a workspace may hold.
	workspaceEntries = 20_000

	// createWindow is the time in which creates are counted.
	createWindow = time.Minute
)

// sandboxes are the workspaces in which pages run commands, cut off from the
// rest of the machine. They outlive this program: what there is, is on disk.
type sandboxes struct {
	dir      string
	cfg      sandboxConfig
	state    *stateStore
	isolator *isolator
	keys     *folderKeys // of all folders in dir
	log      *slog.Logger
	now      func() time.Time

	quit    chan struct{} // closed when the program ends
	running sync.WaitGroup

	mu      sync.Mutex // guards the rest, and the lower part of each sandbox
	closed  bool
	byID    map[string]*sandbox
	creates []time.Time // in the last minute
}

// sandbox is one workspace, active or ended.
type sandbox struct {
	dir    string
	events *eventLog     // nil without a task
	turn   turnQueue     // of execs and snapshots
	ended  chan struct{} // closed when the sandbox is ended
	files  sync.Mutex    // held while the API writes a file or a snapshot is taken

	// Guarded by the mutex of sandboxes.
	record   sandboxRecord
	reserved time.Time     // its place in creates
	ready    bool          // false while it is being made
	halt     chan struct{} // closed, and replaced, to end what runs or waits
	uses     int           // requests at work in it
	lastUse  time.Time     // when the last of them ended
	used     *treeSize     // by the workspace; nil when it has to be counted
	size     *treeSize     // of the whole folder, once ended; nil when it has to be counted
}

// sandboxInfo is what is told of a sandbox.
type sandboxInfo struct {
	id        string
	principal principal
	learnerID string
	taskID    string // "" for none
	workdir   string // on the host
	createdAt time.Time
	lastUse   time.Time
}

// newSandboxes finds the sandboxes in a data folder. Nothing runs yet: whether
// this machine can isolate is found out at the first call of available.
func newSandboxes(dataDir string, cfg sandboxConfig, state *stateStore, ps *processes, log *slog.Logger) (*sandboxes, error) {
	dir, err := prepareSandboxes(dataDir)
	if err != nil {
		return nil, err
	}
	s := &sandboxes{
		dir:      dir,
		cfg:      cfg,
		state:    state,
		isolator: newIsolator(ps, dir, cfg),
		keys:     new(folderKeys),
		log:      log,
		now:      time.Now,
		quit:     make(chan struct{}),
		byID:     make(map[string]*sandbox),
	}
	records, used, err := readRecords(dir, log)
	if err != nil {
		return nil, err
	}
	for id, record := range records {
		sb := newSandbox(filepath.Join(dir, id), record)
		sb.lastUse, sb.ready = used[id], true
		s.byID[id] = sb
	}
	s.creates = recentCreates(records, s.now())
	return s, nil
}

// recentCreates are the times of the creates that still count, oldest first: a
// restart does not make room for more.
func recentCreates(records map[string]sandboxRecord, now time.Time) []time.Time {
	var recent []time.Time
	for _, record := range records {
		if age := now.Sub(record.CreatedAt); age >= 0 && age < createWindow {
			recent = append(recent, record.CreatedAt)
		}
	}
	slices.SortFunc(recent, time.Time.Compare)
	return recent
}

func newSandbox(dir string, record sandboxRecord) *sandbox {
	sb := &sandbox{dir: dir, record: record, ended: make(chan struct{}), halt: make(chan struct{})}
	if record.TaskID != "" {
		sb.events = newEventLog(filepath.Join(dir, eventsFile))
	}
	if !record.active() {
		close(sb.ended)
	}
	return sb
}

// prepareSandboxes makes the folder of all sandboxes in a data folder.
func prepareSandboxes(dataDir string) (string, error) {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(dataDir, sandboxesFolder)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

// available reports why sandboxes cannot run on this machine; nil when they can.
func (s *sandboxes) available(ctx context.Context) error {
	if fault := s.isolator.check(ctx); fault != nil {
		return fault.problem()
	}
	return nil
}

// close ends all running execs, refuses new ones and waits until none is left.
func (s *sandboxes) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.quit)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// list returns the active sandboxes of a principal, oldest first.
func (s *sandboxes) list(p principal) []sandboxInfo {
	return s.infos(func(owner principal) bool { return owner == p })
}

// all returns the active sandboxes of all principals, oldest first.
func (s *sandboxes) all() []sandboxInfo { return s.infos(func(principal) bool { return true }) }

func (s *sandboxes) infos(is func(principal) bool) []sandboxInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	infos := []sandboxInfo{}
	for _, sb := range s.byID {
		if is(sb.record.Principal) && sb.of(sb.record.Principal) {
			infos = append(infos, sb.info())
		}
	}
	slices.SortFunc(infos, func(a, b sandboxInfo) int {
		return cmp.Or(a.createdAt.Compare(b.createdAt), cmp.Compare(a.id, b.id))
	})
	return infos
}

// owner is whose sandbox the id names; "" when there is none.
func (s *sandboxes) owner(id string) principal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sb := s.byID[id]; sb != nil {
		return sb.record.Principal
	}
	return ""
}

// get returns one active sandbox of a principal.
func (s *sandboxes) get(p principal, id string) (sandboxInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sb, err := s.findLocked(p, id)
	if err != nil {
		return sandboxInfo{}, err
	}
	return sb.info(), nil
}

func (s *sandboxes) findLocked(p principal, id string) (*sandbox, error) {
	sb := s.byID[id]
	if sb == nil || !sb.of(p) {
		return nil, problemf(kindNotFound, "There is no sandbox %q.", id)
	}
	return sb, nil
}

// use returns an active sandbox of a principal to work in, which is not idle
// until done is called.
func (s *sandboxes) use(p principal, id string) (sb *sandbox, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sb, err = s.findLocked(p, id)
	if err != nil {
		return nil, nil, err
	}
	if s.closed {
		return nil, nil, problemf(kindNoCapacity, "The runtime is shutting down.")
	}
	return sb, s.holdLocked(sb), nil
}

// holdLocked keeps a sandbox's folder from being removed until done is called.
func (s *sandboxes) holdLocked(sb *sandbox) (done func()) {
	sb.uses++
	s.running.Add(1)
	return func() {
		s.mu.Lock()
		sb.uses--
		sb.lastUse = s.now()
		at := sb.lastUse
		s.mu.Unlock()
		_ = os.Chtimes(filepath.Join(sb.dir, recordFile), at, at) // a restart then takes it for less used
		s.running.Done()
	}
}

// while returns a context that also ends with the sandbox and with the program.
func (s *sandboxes) while(ctx context.Context, sb *sandbox) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	halt := sb.halt
	s.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx, which the caller cancels
		select {
		case <-sb.ended:
			cancel(problemf(kindConflict, "The sandbox was deleted meanwhile."))
		case <-halt:
			cancel(problemf(kindForbidden, "The access to sandboxes was taken away meanwhile."))
		case <-s.quit:
			cancel(problemf(kindNoCapacity, "The runtime is shutting down."))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// stopAll ends what runs or waits in the sandboxes of the principals for which
// is holds. The sandboxes themselves stay.
func (s *sandboxes) stopAll(is func(principal) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sb := range s.byID {
		if is(sb.record.Principal) {
			close(sb.halt)
			sb.halt = make(chan struct{})
		}
	}
}

// delete ends an active sandbox and everything that runs in it. The folder and
// its snapshots stay until the reaper takes them.
func (s *sandboxes) delete(p principal, id string) error {
	sb, done, err := s.use(p, id)
	if err != nil {
		return err
	}
	defer done()
	return s.end(sb, nil)
}

// end ends a sandbox for which still holds, and returns when nothing runs in it
// any more. still is called under the lock; nil always holds.
func (s *sandboxes) end(sb *sandbox, still func() bool) error {
	s.mu.Lock()
	if !sb.record.active() || still != nil && !still() {
		s.mu.Unlock()
		return nil
	}
	sb.record.EndedAt = s.now().UTC()
	close(sb.ended)
	s.mu.Unlock()
	const however = 1 << 30
	if err := sb.turn.enter(context.Background(), however); err != nil { // what waited has left
		return err
	}
	defer sb.turn.leave()
	s.mu.Lock()
	record := sb.record
	s.mu.Unlock()
	s.log.Info("sandbox ended", "sandbox", record.ID, "learner", record.LearnerID)
	return record.write(sb.dir)
}

// of reports whether a principal may know of the sandbox and use it.
func (sb *sandbox) of(p principal) bool {
	return sb.ready && sb.record.active() && sb.record.Principal == p
}

func (sb *sandbox) info() sandboxInfo {
	return sandboxInfo{
		id:        sb.record.ID,
		principal: sb.record.Principal,
		learnerID: sb.record.LearnerID,
		taskID:    sb.record.TaskID,
		workdir:   filepath.Join(sb.dir, workspaceFolder),
		createdAt: sb.record.CreatedAt,
		lastUse:   later(sb.lastUse, sb.record.CreatedAt),
	}
}

// quota is what one workspace may hold.
func (s *sandboxes) quota() treeSize { return treeSize{s.cfg.workspaceQuota, workspaceEntries} }

func (s *sandboxes) workspace(sb *sandbox) workspace {
	return workspace{dir: filepath.Join(sb.dir, workspaceFolder), keys: s.keys, owner: s.isolator.owner()}
}

// tryIsolation reports why this machine cannot isolate commands, for a program
// that runs no sandboxes; nil when it can. A data folder that is not there yet
// is not made: the trial then takes place in a temporary one.
func tryIsolation(ctx context.Context, ps *processes, cfg config) *isolationFault {
	dir := filepath.Join(cfg.dir, sandboxesFolder)
	if _, err := os.Stat(dir); err != nil {
		temporary, err := os.MkdirTemp("", "agent-runtime-")
		if err != nil {
			return printedFault(err.Error())
		}
		defer os.RemoveAll(temporary)
		if dir, err = prepareSandboxes(temporary); err != nil {
			return printedFault(err.Error())
		}
	}
	return newIsolator(ps, dir, cfg.sandbox).check(ctx)
}
