package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeIsolation makes sandboxes believe that this machine can isolate, for
// tests that run no command.
func fakeIsolation(s *sandboxes) *sandboxes {
	s.isolator.tools, s.isolator.fault, s.isolator.checked = &sandboxTools{}, nil, time.Now()
	return s
}

func gateSandboxes(t *testing.T, change func(*sandboxConfig)) *sandboxes {
	t.Helper()
	return fakeIsolation(testSandboxes(t, change))
}

func TestGatesAreCheckedInOrder(t *testing.T) {
	t.Parallel()
	s := gateSandboxes(t, func(cfg *sandboxConfig) { cfg.maxPerLearner, cfg.createsPerMin, cfg.poolSize = 1, 2, 1 })
	// All gates are shut; each is opened in turn, and the next one is seen.
	s.cfg.minAge = 40
	fault := &isolationFault{"other", "it does not", "Mend it"}
	s.isolator.fault = fault
	s.creates = []time.Time{s.now(), s.now()}
	s.byID["taken"] = newSandbox("", sandboxRecord{ID: "taken", LearnerID: adult})
	expect := func(what, learner string, want kind, contains string) *problem {
		t.Helper()
		_, err := s.create(t.Context(), pageA, sandboxOrder{learnerID: learner})
		p, ok := err.(*problem)
		if !ok || p.kind != want || !strings.Contains(p.detail, contains) {
			t.Fatalf("%s: create = %v, want kind %d and %q", what, err, want, contains)
		}
		return p
	}
	if p := expect("isolation", unknown, kindNoCapacity, "Mend it"); p.members["reason"] != "other" || p.members["hint"] != "Mend it" {
		t.Errorf("members = %v", p.members)
	}
	s.isolator.fault = nil
	expect("allowlist", unknown, kindForbidden, "allowlist")
	p := expect("age", unaged, kindForbidden, "verified")
	if verify := "agent-runtime learner verify uma --age AGE"; p.members["verify"] != verify || !strings.HasSuffix(p.detail, verify) {
		t.Errorf("detail %q, members %v, want the command at the end and alone", p.detail, p.members)
	}
	expect("age", adult, kindForbidden, "younger")
	s.cfg.verifyURL = "https://school.example/age"
	if p := expect("age", adult, kindForbidden, "younger"); p.members["verify"] != s.cfg.verifyURL {
		t.Errorf("members = %v", p.members)
	}
	s.cfg.minAge = 16
	expect("learner's own", adult, kindTooMany, "active sandboxes")
	s.cfg.minAge = 0
	if p := expect("rate", unaged, kindTooMany, "within a minute"); p.retryAfter <= 50*time.Second || p.retryAfter > time.Minute {
		t.Errorf("Retry-After = %v, want what is left of the minute", p.retryAfter)
	}
	s.creates = nil
	expect("pool", unaged, kindNoCapacity, "in use")
	delete(s.byID, "taken")
	if _, err := s.create(t.Context(), pageA, sandboxOrder{learnerID: unaged}); err != nil {
		t.Errorf("create with all gates open = %v", err)
	}
}

func TestOrdersAreChecked(t *testing.T) {
	t.Parallel()
	s := gateSandboxes(t, nil)
	for _, c := range []struct {
		order sandboxOrder
		want  kind
	}{
		{sandboxOrder{learnerID: ""}, kindInvalid},
		{sandboxOrder{learnerID: strings.Repeat("ä", 129)}, kindInvalid},
		{sandboxOrder{learnerID: "a\nb"}, kindInvalid},
		{sandboxOrder{learnerID: strings.Repeat("ä", 128)}, kindForbidden},
		{sandboxOrder{learnerID: adult, taskID: "none"}, kindInvalid},
		{sandboxOrder{learnerID: adult, restore: "../x"}, kindNotFound},
		{sandboxOrder{learnerID: adult, taskID: "bridge"}, -1},
	} {
		if _, err := s.create(t.Context(), pageA, c.order); kindOf(err) != c.want {
			t.Errorf("create(%.30q) = %v, want kind %d", c.order, err, c.want)
		}
	}
}

func TestNoCapIsPassedByRacing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*sandboxConfig)
		want   int64
	}{
		"per learner": {func(cfg *sandboxConfig) { cfg.maxPerLearner = 3 }, 3},
		"per minute":  {func(cfg *sandboxConfig) { cfg.createsPerMin = 10 }, 10},
		"in all":      {func(cfg *sandboxConfig) { cfg.poolSize = 5 }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := gateSandboxes(t, c.change)
			var made atomic.Int64
			var wg sync.WaitGroup
			for i := range 60 {
				wg.Go(func() {
					p := principal(fmt.Sprintf("https://%d.example", i)) // a new site starts no new count
					if _, err := s.create(t.Context(), p, sandboxOrder{learnerID: adult}); err == nil {
						made.Add(1)
					}
				})
			}
			wg.Wait()
			if made.Load() != c.want {
				t.Errorf("%d were made, want %d", made.Load(), c.want)
			}
		})
	}
}

func TestACreateThatFailsCostsNothing(t *testing.T) {
	t.Parallel()
	s := gateSandboxes(t, func(cfg *sandboxConfig) { cfg.maxPerLearner, cfg.createsPerMin, cfg.poolSize = 1, 1, 1 })
	for range 5 {
		if _, err := s.create(t.Context(), pageA, sandboxOrder{learnerID: adult, restore: "none"}); !isKind(err, kindNotFound) {
			t.Fatal(err)
		}
		if _, err := s.create(t.Context(), pageA, sandboxOrder{learnerID: unaged}); !isKind(err, kindForbidden) {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	sb := mustCreate(t, s, sandboxOrder{})
	if err := s.delete(pageA, sb.id); err != nil {
		t.Fatal(err)
	}
	if _, err := s.create(t.Context(), pageA, sandboxOrder{learnerID: adult}); !isKind(err, kindTooMany) {
		t.Errorf("create = %v, want that the minute is used up although the sandbox is deleted", err)
	}
}

func TestTheMinuteRolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gateSandboxes(t, func(cfg *sandboxConfig) { cfg.createsPerMin = 2 })
		create := func() error {
			_, err := s.create(t.Context(), pageA, sandboxOrder{learnerID: adult})
			return err
		}
		if err := create(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if err := create(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(39*time.Second + 500*time.Millisecond)
		p, ok := errors.AsType[*problem](create())
		if !ok || p.kind != kindTooMany || p.retryAfter != 500*time.Millisecond {
			t.Errorf("third create = %+v, want to wait half a second", p)
		}
		time.Sleep(500 * time.Millisecond)
		if err := create(); err != nil {
			t.Errorf("create after a minute = %v", err)
		}
		if p, ok := errors.AsType[*problem](create()); !ok || p.retryAfter != 20*time.Second {
			t.Errorf("next create = %+v, want to wait twenty seconds", p)
		}
	})
}

func TestVerdictsCountAtOnce(t *testing.T) {
	t.Parallel()
	s := gateSandboxes(t, nil)
	order := sandboxOrder{learnerID: unknown}
	if _, err := s.create(t.Context(), pageA, order); !isKind(err, kindForbidden) {
		t.Errorf("create of an unknown learner = %v", err)
	}
	if err := addLearner(s.state, unknown, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.create(t.Context(), pageA, order); !isKind(err, kindForbidden) {
		t.Errorf("create without an age = %v", err)
	}
	if err := verifyLearner(s.state, unknown, 16, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.create(t.Context(), pageA, order); err != nil {
		t.Errorf("create with an age = %v", err)
	}
	if err := removeLearner(s.state, unknown); err != nil {
		t.Fatal(err)
	}
	if _, err := s.create(t.Context(), pageA, order); !isKind(err, kindForbidden) {
		t.Errorf("create of a removed learner = %v", err)
	}
}

func TestSandboxesOfAnotherSiteDoNotExist(t *testing.T) {
	t.Parallel()
	s := gateSandboxes(t, nil)
	sb := mustCreate(t, s, sandboxOrder{taskID: "tool"})
	_, getErr := s.get(pageB, sb.id)
	_, readErr := s.read(pageB, sb.id, "x")
	_, filesErr := s.files(pageB, sb.id, false)
	_, execErr := s.exec(t.Context(), pageB, sb.id, []string{"true"}, nil)
	_, snapshotErr := s.snapshot(t.Context(), pageB, sb.id)
	_, eventsErr := s.eventsAfter(pageB, sb.id, 0)
	for name, err := range map[string]error{
		"get": getErr, "read": readErr, "files": filesErr, "exec": execErr, "snapshot": snapshotErr, "events": eventsErr,
		"write": s.write(pageB, sb.id, "x", nil), "delete": s.delete(pageB, sb.id),
	} {
		if !isKind(err, kindNotFound) || err.Error() != fmt.Sprintf("There is no sandbox %q.", sb.id) {
			t.Errorf("%s by another site = %v, want not found", name, err)
		}
	}
	if _, err := s.get(pageB, "never-was"); err == nil || err.Error() != `There is no sandbox "never-was".` {
		t.Errorf("get of none = %v", err)
	}
	if got, err := s.get(pageA, sb.id); err != nil || !sameSandbox(got, sb) || got.workdir != filepath.Join(s.dir, sb.id, "workspace") {
		t.Errorf("get = %+v, %v, want %+v", got, err, sb)
	}
}

// sameSandbox compares what stays the same while a sandbox is used.
func sameSandbox(a, b sandboxInfo) bool {
	a.lastUse, b.lastUse = time.Time{}, time.Time{}
	return a == b
}

func TestCommandsOfATask(t *testing.T) {
	t.Parallel()
	design := sandboxTask{environmentDesign, "python3 harness.py"}
	simulation := sandboxTask{environmentSimulation, "  ./run.sh --fast"}
	for _, c := range []struct {
		task    sandboxTask
		program string
		want    string // in the refusal; "" when allowed
	}{
		{sandboxTask{}, "sh", ""}, {sandboxTask{environmentBuild, "make"}, "bash", ""},
		{design, "ls", ""}, {design, "python3", ""}, {design, "pytest", ""}, {design, "echo", ""},
		{design, "make", "must start with one of ls, cat, pwd, echo, python3, pytest."},
		{design, "sh", "shell passthrough is not allowed"}, {design, "bash", "shell passthrough is not allowed"},
		{design, "/bin/ls", "not allowed"}, {design, "lsx", "not allowed"}, {design, "LS", "not allowed"}, {design, " ls", "not allowed"},
		{design, "python", "not allowed"}, {design, "./python3", "not allowed"}, {design, "/bin/sh", "not allowed"},
		{simulation, "./run.sh", ""}, {simulation, "run.sh", "pytest, ./run.sh."},
		{sandboxTask{environmentDesign, "sh run"}, "sh", "shell passthrough"},
	} {
		err := checkPolicy(c.task, c.program)
		if (err == nil) != (c.want == "") || err != nil && (!isKind(err, kindInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("checkPolicy(%v, %q) = %v, want %q", c.task, c.program, err, c.want)
		}
	}
}

func TestATaskThatIsNoLongerConfiguredKeepsAPolicy(t *testing.T) {
	t.Parallel()
	s := gateSandboxes(t, nil)
	sb := mustCreate(t, s, sandboxOrder{taskID: "bridge"})
	delete(s.cfg.tasks, "bridge")
	if _, err := s.exec(t.Context(), pageA, sb.id, []string{"sh"}, nil); !isKind(err, kindInvalid) {
		t.Errorf("exec = %v, want a refusal", err)
	}
}

func TestCommandLinesAreChecked(t *testing.T) {
	t.Parallel()
	for _, argv := range [][]string{nil, {}, {""}, {"a", ""}, {"a\x00b"}, slices.Repeat([]string{"x"}, 101), {"x", strings.Repeat("y", 64<<10)}} {
		if err := checkCommand(argv); !isKind(err, kindInvalid) {
			t.Errorf("checkCommand(%.20q) = %v, want invalid", argv, err)
		}
	}
	if err := checkCommand(slices.Repeat([]string{"x"}, 100)); err != nil {
		t.Error(err)
	}
	for _, seconds := range []float64{0, -1, 60.1, 1e300} {
		if _, err := commandTimeout(&seconds, time.Minute); !isKind(err, kindInvalid) {
			t.Errorf("commandTimeout(%v) = %v, want invalid", seconds, err)
		}
	}
	if got, err := commandTimeout(new(0.25), time.Minute); err != nil || got != 250*time.Millisecond {
		t.Errorf("commandTimeout = %v, %v", got, err)
	}
}

func TestEventsFollowTheWorkOfATask(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableFolder(t), "data")
	s := fakeIsolation(openSandboxes(t, dir, testConfig()))
	sb := mustCreate(t, s, sandboxOrder{taskID: "bridge"})
	for i := range 3 {
		if err := s.write(pageA, sb.id, fmt.Sprintf("f%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	shot, err := s.snapshot(t.Context(), pageA, sb.id)
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	// A crash cut the last line; numbers go on after a restart all the same.
	log, err := os.OpenFile(filepath.Join(s.dir, sb.id, eventsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.WriteString(`{"n":5,"type":"wri`); err != nil {
		t.Fatal(err)
	}
	log.Close()
	s = openSandboxes(t, dir, testConfig())
	if err := s.write(pageA, sb.id, "after", nil); err != nil {
		t.Fatal(err)
	}
	events, err := s.eventsAfter(pageA, sb.id, 1)
	if err != nil || len(events) != 4 {
		t.Fatalf("events = %+v, %v", events, err)
	}
	for i, want := range []string{"2 write f1 ", "3 write f2 ", "4 snapshot  " + shot.id, "5 write after "} {
		e := events[i]
		if got := fmt.Sprintf("%d %s %s %s", e.N, e.Type, e.Path, e.SnapshotID); got != want {
			t.Errorf("event = %q, want %q", got, want)
		}
	}
	plain := mustCreate(t, fakeIsolation(s), sandboxOrder{})
	if err := s.write(pageA, plain.id, "f", nil); err != nil {
		t.Fatal(err)
	}
	if events, err := s.eventsAfter(pageA, plain.id, 0); err != nil || len(events) != 0 {
		t.Errorf("events without a task = %v, %v", events, err)
	}
}

func TestAnEventLogStaysBounded(t *testing.T) {
	t.Parallel()
	log := newEventLog(filepath.Join(t.TempDir(), "events"))
	const count = 4000
	for range count {
		if err := log.add(sandboxEvent{Type: "exec", Cmd: []string{strings.Repeat("x", 5000), "\xff"}}); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(log.path); err != nil || info.Size() > eventsFileLimit+1<<16 {
		t.Errorf("log = %v, %v, want a bounded size", info.Size(), err)
	}
	events, err := log.after(count - 3)
	if err != nil || len(events) != 3 || events[2].N != count {
		t.Errorf("events = %d, %v, want the last three", len(events), err)
	}
	if all, err := log.after(0); err != nil || len(all) != eventsAnswer || all[0].N == 1 {
		t.Errorf("all events = %d from %d, %v, want the oldest that are kept", len(all), all[0].N, err)
	}
}

func TestReaperEndsIdleSandboxesAndRemovesOldOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gateSandboxes(t, func(cfg *sandboxConfig) { cfg.idleTTL, cfg.keep = 2*time.Hour, 24*time.Hour })
		idle, busy, held := mustCreate(t, s, sandboxOrder{}), mustCreate(t, s, sandboxOrder{}), mustCreate(t, s, sandboxOrder{})
		_, done, err := s.use(pageA, held.id)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Hour - time.Minute)
		if _, err := s.files(pageA, busy.id, false); err != nil {
			t.Fatal(err)
		}
		s.reapOnce()
		if got := len(s.list(pageA)); got != 3 {
			t.Errorf("%d are active before the time, want 3", got)
		}
		time.Sleep(2 * time.Minute)
		s.reapOnce()
		if got := s.list(pageA); len(got) != 2 || slices.ContainsFunc(got, func(i sandboxInfo) bool { return i.id == idle.id }) {
			t.Errorf("active = %v, want all but the idle one", got)
		}
		time.Sleep(3 * time.Hour)
		done() // idle counts from the end of the work
		s.reapOnce()
		if got := s.list(pageA); len(got) != 1 || got[0].id != held.id {
			t.Errorf("active = %v, want the one that worked", got)
		}
		time.Sleep(22 * time.Hour)
		s.reapOnce()
		if got := folders(t, s); slices.Contains(got, idle.id) || !slices.Contains(got, busy.id) {
			t.Errorf("folders = %v, want the one that ended a day ago removed", got)
		}
	})
}

func folders(t *testing.T, s *sandboxes) []string {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestReaperKeepsTheDiskQuotaByRemovingTheOldestEnded(t *testing.T) {
	t.Parallel()
	s := gateSandboxes(t, func(cfg *sandboxConfig) { cfg.diskQuota = 20 << 20 })
	var ids []string
	for i := range 4 {
		sb := mustCreate(t, s, sandboxOrder{})
		ids = append(ids, sb.id)
		if err := s.write(pageA, sb.id, "f", make([]byte, 6<<20)); err != nil {
			t.Fatal(err)
		}
		if i < 3 {
			if err := s.delete(pageA, sb.id); err != nil {
				t.Fatal(err)
			}
		}
	}
	source := s.byID[ids[0]]
	s.mu.Lock()
	done := s.holdLocked(source) // something is being restored from the oldest
	s.mu.Unlock()
	s.reapOnce()
	if got := folders(t, s); slices.Contains(got, ids[1]) || len(got) != 3 {
		t.Errorf("folders = %v, want the second of %v removed", got, ids)
	}
	done()
	s.cfg.diskQuota = 0
	s.reapOnce()
	if got := folders(t, s); !slices.Equal(got, ids[3:]) {
		t.Errorf("folders = %v, want the active one alone", got)
	}
	if _, err := s.snapshot(t.Context(), pageA, ids[3]); !isKind(err, kindFull) {
		t.Errorf("snapshot above the disk quota = %v, want full", err)
	}
}

func TestARestartFindsWhatThereWasAndClearsTheRest(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableFolder(t), "data")
	s := fakeIsolation(openSandboxes(t, dir, testConfig()))
	active, ended := mustCreate(t, s, sandboxOrder{taskID: "wind"}), mustCreate(t, s, sandboxOrder{})
	if err := s.write(pageA, active.id, "f", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	shot, err := s.snapshot(t.Context(), pageA, active.id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.delete(pageA, ended.id); err != nil {
		t.Fatal(err)
	}
	s.close()
	put(t, filepath.Join(s.dir, newPrefix+"x", "half"), "")
	put(t, filepath.Join(s.dir, oldPrefix+"x", "half"), "")
	put(t, filepath.Join(s.dir, "damaged", recordFile), "{")
	put(t, filepath.Join(s.dir, "stranger", recordFile), `{"id":"another"}`)
	s = fakeIsolation(openSandboxes(t, dir, testConfig()))
	if got := s.list(pageA); len(got) != 1 || !sameSandbox(got[0], active) {
		t.Errorf("list = %+v, want %+v", got, active)
	}
	want := []string{active.id, ended.id, "damaged", "stranger"}
	slices.Sort(want)
	if got := folders(t, s); !slices.Equal(got, want) {
		t.Errorf("folders = %v, want %v", got, want)
	}
	if got, err := s.read(pageA, active.id, "f"); err != nil || string(got) != "kept" {
		t.Errorf("read = %q, %v", got, err)
	}
	if _, err := s.create(t.Context(), pageA, sandboxOrder{learnerID: adult, restore: shot.id}); err != nil {
		t.Errorf("restore after a restart = %v", err)
	}
}

func TestAnIdleSandboxIsStillIdleAfterARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableFolder(t), "data")
	s := fakeIsolation(openSandboxes(t, dir, testConfig()))
	sb := mustCreate(t, s, sandboxOrder{})
	s.close()
	before := time.Now().Add(-3 * time.Hour)
	if err := os.Chtimes(filepath.Join(s.dir, sb.id, recordFile), before, before); err != nil {
		t.Fatal(err)
	}
	s = fakeIsolation(openSandboxes(t, dir, testConfig()))
	s.reapOnce()
	if got := s.list(pageA); len(got) != 0 {
		t.Errorf("list = %v, want none", got)
	}
}

func TestACommandWaitsTenSecondsForAProcessor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cores := make(chan struct{}, 1)
		if err := take(t.Context(), cores, time.After(corePatience)); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err := take(t.Context(), cores, time.After(corePatience))
		if p, ok := errors.AsType[*problem](err); !ok || p.kind != kindNoCapacity || p.retryAfter == 0 || time.Since(begin) != 10*time.Second {
			t.Errorf("take = %v after %v, want a refusal after ten seconds", err, time.Since(begin))
		}
		go func() {
			time.Sleep(9 * time.Second)
			<-cores
		}()
		if err := take(t.Context(), cores, time.After(corePatience)); err != nil {
			t.Errorf("take = %v, want the processor that became free", err)
		}
	})
}

func TestCreatesOfTheLastMinuteCountAcrossARestart(t *testing.T) {
	dir := filepath.Join(reachableFolder(t), "data")
	cfg := testConfig()
	cfg.createsPerMin = 2
	cfg.maxPerLearner = 5
	s := openSandboxes(t, dir, cfg)
	for range 2 {
		if err := s.delete(pageA, mustCreate(t, s, sandboxOrder{}).id); err != nil {
			t.Fatal(err)
		}
	}
	s.close()
	again := openSandboxes(t, dir, cfg)
	if _, err := again.create(t.Context(), pageA, sandboxOrder{learnerID: adult}); !isKind(err, kindTooMany) {
		t.Errorf("create = %v, want too many", err)
	}
	again.now = func() time.Time { return time.Now().Add(createWindow) }
	mustCreate(t, again, sandboxOrder{})
}
