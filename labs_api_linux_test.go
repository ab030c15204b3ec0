package main

// Preparing labs through the API of the real program, with real git.

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// quickPython makes environments without pip, which is what takes long.
// Before it does, it runs the script first.
func quickPython(t testing.TB, first string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python3")
	script := "#!/bin/sh\nif [ \"$2\" = venv ]; then\n" + first + "\nshift 2; exec /usr/bin/python3 -m venv --without-pip \"$@\"\nfi\nexec /usr/bin/python3 \"$@\"\n"
	if err := writeUnshared(path, []byte(script)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func withPython(path string) runtimeOption { return withEnv("AGENT_RUNTIME_PYTHON=" + path) }

// halfMade lists what is in the data folder and is not finished.
func halfMade(t testing.TB, dir string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"labs/*/.*", "envs/.*", "runs/*" + tempSuffix} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, paths...)
	}
	return found
}

// wantNothingHalfMade waits until nothing is half-made, and no tool is running.
func (rt *testRuntime) wantNothingHalfMade() {
	rt.t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		found := halfMade(rt.t, rt.dir)
		children, _ := childrenOf(rt.cmd.Process.Pid)
		if len(found) == 0 && children == 0 {
			return
		}
		if time.Now().After(late) {
			rt.t.Fatalf("half-made: %q; %d children", found, children)
		}
	}
}

func source1(repo, commit string) map[string]string {
	return map[string]string{"repo": repo, "commit": commit}
}

func TestPersonApprovesEachVersionOnceAndSeesWhatChanged(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")))
	page := rt.pair("https://course.example", scopeActions)
	greet := testAction{name: "greet", steps: [][]string{{"echo", "v1"}}}
	same := testAction{name: "same", steps: [][]string{{"cat", "answer.txt"}}}
	gone := testAction{name: "gone", steps: [][]string{{"echo", "old"}}}
	repo, first := git.addRepo("versions.git", map[string]string{manifestName: labManifest(t, "versions", greet, same, gone), "answer.txt": "1\n"})

	from := rt.shown()
	pair := []<-chan reply{page.later("POST", "/labs/prepare", source1(repo, first)), page.later("POST", "/labs/prepare", source1(repo, first))}
	question := rt.answerNext(from, "y\n")
	for _, answer := range pair {
		if r := <-answer; r.status != http.StatusOK {
			t.Fatalf("prepare: %d %s", r.status, r.body)
		}
	}
	if strings.Contains(question, "Changes") || strings.Count(question, "Commit: ") != 1 {
		t.Errorf("the first question is\n%s", question)
	}
	lab := asJSON[prepared](t, page.want(http.StatusOK, "POST", "/labs/prepare", source1(repo, first))) // asks nothing
	if len(lab.Modified) != 0 || len(lab.Actions) != 3 || lab.Actions[2].Name != "gone" || lab.Actions[0].Steps[0] != "echo v1" || lab.Actions[0].Timeout != 900 || lab.Actions[0].Description != "" {
		t.Errorf("prepared %+v", lab)
	}
	if lab.Path != filepath.Join(rt.dir, "labs", source{repo, first}.key(), first[:12]) {
		t.Errorf("the checkout is %s", lab.Path)
	}
	answer := filepath.Join(lab.Path, "answer.txt")
	if err := os.WriteFile(answer, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	greet.steps = [][]string{{"echo", "v2"}}
	fresh := testAction{name: "fresh", steps: [][]string{{"echo", "new"}}}
	second := git.commit("versions.git", map[string]string{manifestName: labManifest(t, "versions", greet, same, fresh), "answer.txt": "2\n"})
	from = rt.shown()
	refused := page.later("POST", "/labs/prepare", source1(repo, second))
	question = rt.answerNext(from, "n\n")
	if r := <-refused; r.status != http.StatusForbidden {
		t.Errorf("a lab that is declined: %d %s", r.status, r.body)
	}
	changes, list, ok := strings.Cut(question, "It could then start these 3 actions")
	if !ok || !strings.Contains(list, "$ cat answer.txt") {
		t.Errorf("the whole list is missing:\n%s", question)
	}
	for _, line := range []string{"  + fresh: ", "  +     $ echo new", "  -     $ echo v1", "  +     $ echo v2", "  - gone: ", "  -     $ echo old"} {
		if !strings.Contains(changes, line) {
			t.Errorf("the changes lack %q:\n%s", line, changes)
		}
	}
	if strings.Contains(changes, "cat answer.txt") {
		t.Errorf("an action that did not change is among the changes:\n%s", changes)
	}
	declined := prepared{LabID: "versions", Commit: second}
	if r := page.tryStart(declined, "fresh"); r.status != http.StatusConflict {
		t.Errorf("an action of the declined version: %d %s", r.status, r.body)
	}
	if r := page.run(lab, "greet"); !strings.Contains(r.Output, "\nv1\n") {
		t.Errorf("the version approved before: %+v", r)
	}
	from = rt.shown()
	refused = page.later("POST", "/labs/prepare", source1(repo, second)) // the first no may have been a slip
	rt.answerNext(from, "n\n")
	<-refused
	if r := page.ask(repo, second); r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" {
		t.Errorf("asking again at once after two: %d %s", r.status, r.body)
	}
	if data, _ := os.ReadFile(answer); string(data) != "mine\n" {
		t.Errorf("the learner's file is now %q", data)
	}

	t.Run("taking approvals back", func(t *testing.T) {
		list, code := rt.command("lab", "approvals")
		if code != 0 || !strings.Contains(list, first) || strings.Contains(list, second) {
			t.Errorf("lab approvals: %d\n%s", code, list)
		}
		if out, code := rt.command("lab", "forget", repo+"x"); code != 1 || !strings.Contains(out, "lab approvals") {
			t.Errorf("forgetting what is not approved: %d %s", code, out)
		}
		if out, code := rt.command("lab", "forget", repo); code != 0 {
			t.Errorf("lab forget: %d %s", code, out)
		}
		if r := page.tryStart(lab, "greet"); r.status != http.StatusForbidden {
			t.Errorf("an action of a forgotten lab: %d %s", r.status, r.body)
		}
		from := rt.shown()
		again := page.later("POST", "/labs/prepare", source1(repo, first))
		if question := rt.answerNext(from, "y\n"); strings.Contains(question, "Changes") {
			t.Errorf("after all was forgotten:\n%s", question)
		}
		if r := <-again; r.status != http.StatusOK || !slices.Contains(asJSON[prepared](t, r).Modified, "answer.txt") {
			t.Errorf("prepared again: %d %s", r.status, r.body)
		}
	})
}

func TestPrepareRefusesWhatIsNoLab(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")))
	page := site{rt: rt, origin: "http://localhost:3000"}
	repo, none := git.addRepo("odd.git", map[string]string{"README": "no lab"})
	wrong := git.commit("odd.git", map[string]string{manifestName: "schema = 2\nid = \"x y\"\ntitle = \"\"\nextra = 1\n[actions.a]\nlabel = \"a\"\nsteps = []\n"})
	large := git.commit("odd.git", map[string]string{manifestName: strings.Repeat("#", manifestLimit+1)})
	link := git.commitFiles("odd.git", []gitServerFile{{path: manifestName, mode: "120000", data: "/etc/passwd"}})
	bad := git.commit("odd.git", map[string]string{manifestName: "\ufeffschema = 1\n"})
	for _, c := range []struct {
		commit string
		status int
		says   []string
	}{
		{none, 404, []string{"no lab.toml"}},
		{wrong, 400, []string{"schema", "id", "title", "extra", "steps", "line 2", "line 4"}},
		{large, 400, []string{"256 KiB"}},
		{link, 400, []string{"regular file"}},
		{bad, 400, []string{"byte order mark"}},
		{"main", 400, []string{"40 digits"}},
		{strings.Repeat("0", 40), 502, []string{"git said", "try"}},
	} {
		r := page.ask(repo, c.commit)
		if r.status != c.status {
			t.Errorf("commit %s: %d %s, want %d", c.commit, r.status, r.body, c.status)
		}
		for _, words := range c.says {
			if !strings.Contains(r.detail(), words) {
				t.Errorf("commit %s: %q does not say %q", c.commit, r.detail(), words)
			}
		}
	}
	for _, body := range []any{map[string]any{"repo": repo}, map[string]any{"repo": 1, "commit": none}, map[string]any{"repo": nil, "commit": none}, nil} {
		page.want(http.StatusUnprocessableEntity, "POST", "/labs/prepare", body)
	}
	if strings.Contains(rt.screen.String(), "yes") {
		t.Error("the person was asked about something that is no lab")
	}
	rt.wantNothingHalfMade()
}

func TestPreparesAtOnceDoTheWorkOnce(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	made := filepath.Join(t.TempDir(), "made")
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "echo venv >>"+made)))
	page := rt.pair("https://course.example", scopeActions)
	repo, commit := git.addRepo("pairs.git", map[string]string{manifestName: labManifest(t, "pairs", shellAction("a", "true")), "n": "0"})
	page.prepare(repo, commit)
	for n := range 10 {
		commit = git.commit("pairs.git", map[string]string{manifestName: labManifest(t, "pairs", shellAction("a", "true")), "n": fmt.Sprint(n + 1)})
		before, from := git.requests.Load(), rt.shown()
		one, two := page.later("POST", "/labs/prepare", source1(repo, commit)), page.later("POST", "/labs/prepare", source1(repo, commit))
		rt.answerNext(from, "y\n")
		a, b := <-one, <-two
		if a.status != http.StatusOK || b.status != http.StatusOK || string(a.body) != string(b.body) {
			t.Fatalf("pair %d: %d %s; %d %s", n, a.status, a.body, b.status, b.body)
		}
		if asked := git.requests.Load() - before; asked > 3 {
			t.Errorf("pair %d: %d requests to the host", n, asked)
		}
	}

	t.Run("two sites at once", func(t *testing.T) {
		other := site{rt: rt, origin: "http://localhost:9"}
		repo, commit := git.addRepo("both.git", map[string]string{manifestName: labManifest(t, "both", shellAction("a", "true"))})
		before, from := git.requests.Load(), rt.shown()
		if err := os.Remove(made); err != nil {
			t.Fatal(err)
		}
		answers := map[string]<-chan reply{page.origin: page.later("POST", "/labs/prepare", source1(repo, commit)), other.origin: other.later("POST", "/labs/prepare", source1(repo, commit))}
		rt.awaitOpen(2) // or the second would come after the first was declined, and its work be new
		first := rt.answerNext(from, "n\n")
		rt.answerNext(from+len(first), "y\n")
		for origin, answer := range answers {
			want := http.StatusOK
			if strings.Contains(first, origin+"\r\n") {
				want = http.StatusForbidden
			}
			if r := <-answer; r.status != want {
				t.Errorf("%s: %d %s, want %d", origin, r.status, r.body, want)
			}
		}
		if asked := git.requests.Load() - before; asked > 3 {
			t.Errorf("%d requests to the host", asked)
		}
		if log, _ := os.ReadFile(made); string(log) != "venv\n" {
			t.Errorf("environments made: %q", log)
		}
		if _, err := os.Stat(filepath.Join(rt.dir, "envs", "lab-both", venvName)); err != nil {
			t.Errorf("the approved site's environment: %v", err)
		}
		rt.wantNothingHalfMade()
	})
}

func TestNothingStaysOfAPrepareThatCameToNothing(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")))
	page := site{rt: rt, origin: "http://localhost:3000"}
	repo, commit := git.addRepo("vain.git", map[string]string{manifestName: labManifest(t, "vain", shellAction("a", "true"))})
	envs := filepath.Join(rt.dir, "envs")
	wantNoEnvironment := func() {
		t.Helper()
		rt.wantNothingHalfMade()
		if entries, _ := os.ReadDir(envs); len(entries) > 0 {
			t.Errorf("environments are left: %v", entries)
		}
	}
	leave := func(until func() bool) {
		t.Helper()
		ctx, leave := context.WithCancel(t.Context())
		answer := make(chan reply, 1)
		go func() { answer <- page.call(ctx, "POST", "/labs/prepare", source1(repo, commit)) }()
		await(t, "what the client leaves at", until)
		leave()
		<-answer
		wantNoEnvironment()
	}

	git.wrap(stalled)
	before := git.requests.Load()
	leave(func() bool { return git.requests.Load() > before }) // while git fetches
	git.wrap(nil)

	from := rt.shown()
	leave(func() bool { // while the person reads
		made, _ := filepath.Glob(filepath.Join(envs, makingPrefix+"*", venvName, venvPipConfig))
		return len(made) > 0 && strings.Contains(rt.screen.String()[from:], "yes")
	})
	await(t, "the end of the question", func() bool { return strings.Contains(rt.screen.String()[from:], "Withdrawn") })

	from = rt.shown()
	answer := page.later("POST", "/labs/prepare", source1(repo, commit))
	await(t, "a spare environment", func() bool {
		made, _ := filepath.Glob(filepath.Join(envs, makingPrefix+"*", venvName, venvPipConfig))
		return len(made) > 0
	})
	rt.answerNext(from, "no\n")
	if r := <-answer; r.status != http.StatusForbidden || !strings.Contains(r.detail(), "declined") {
		t.Errorf("declined: %d %s", r.status, r.body)
	}
	wantNoEnvironment()
	if r := page.tryStart(prepared{LabID: "vain", Commit: commit}, "a"); r.status != http.StatusConflict {
		t.Errorf("an action of a declined lab: %d %s", r.status, r.body)
	}

	// The end of the runtime, while git fetches for one and the person reads for another.
	other, otherCommit := git.addRepo("slow.git", map[string]string{manifestName: labManifest(t, "slow", shellAction("a", "true"))})
	asked, askedCommit := git.addRepo("asked.git", map[string]string{manifestName: labManifest(t, "asked", shellAction("a", "true"))})
	from = rt.shown()
	waiting := page.later("POST", "/labs/prepare", source1(asked, askedCommit))
	rt.screen.await(t, from, promptPattern)
	git.wrap(stalled)
	before = git.requests.Load()
	fetching := page.later("POST", "/labs/prepare", source1(other, otherCommit))
	await(t, "the fetch", func() bool { return git.requests.Load() > before })
	rt.end(syscall.SIGTERM)
	for _, answer := range []<-chan reply{waiting, fetching} {
		if r := <-answer; r.err == nil && r.status != http.StatusServiceUnavailable {
			t.Errorf("at the end of the runtime: %d %s", r.status, r.body)
		}
	}
	if found := halfMade(t, rt.dir); len(found) > 0 {
		t.Errorf("after an orderly end there is %q", found)
	}
}

func TestFetchKilledHalfWayIsForgotten(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	maker := filepath.Join(t.TempDir(), "pid")
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "sleep 60 & echo $! >"+maker+"; wait")))
	page := site{rt: rt, origin: "http://localhost:3000"}
	repo, commit := git.addRepo("killed.git", map[string]string{manifestName: labManifest(t, "killed", shellAction("a", "echo ran"))})
	git.wrap(stalled)
	answer := page.later("POST", "/labs/prepare", source1(repo, commit))
	await(t, "a fetch and an environment in the making", func() bool {
		found := strings.Join(halfMade(t, rt.dir), " ")
		return git.requests.Load() > 0 && strings.Contains(found, fetchPrefix) && strings.Contains(found, makingPrefix)
	})
	pid := readPID(t, maker)
	rt.end(syscall.SIGKILL)
	<-answer
	git.wrap(nil)
	rt = rt.again(withPython(quickPython(t, "")))
	page.rt = rt
	wantGone(t, pid) // it would go on making what was swept away
	if found := halfMade(t, rt.dir); len(found) > 0 {
		t.Errorf("after the next start there is %q", found)
	}
	if r := page.run(page.prepare(repo, commit), "a"); !strings.Contains(r.Output, "\nran\n") {
		t.Errorf("the run is %+v", r)
	}
}

func TestPreparedLabNeedsNoNetwork(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")))
	page := site{rt: rt, origin: "http://localhost:3000"}
	repo, commit := git.addRepo("kept.git", map[string]string{manifestName: labManifest(t, "kept", shellAction("a", "cat own.txt")), "n": "1"})
	lab := page.prepare(repo, commit)
	if err := os.WriteFile(filepath.Join(lab.Path, "own.txt"), []byte("my own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := func() prepared {
		t.Helper()
		rt.end(syscall.SIGTERM)
		rt = rt.again()
		page.rt = rt
		return asJSON[prepared](t, page.want(http.StatusOK, "POST", "/labs/prepare", source1(repo, commit)))
	}
	fetched := git.requests.Load()
	again()
	if n := git.requests.Load() - fetched; n > 0 {
		t.Errorf("a finished checkout was fetched again: %d requests", n)
	}
	for _, damage := range []func() error{
		func() error { return os.RemoveAll(filepath.Join(lab.Path, ".git")) },
		func() error {
			packs, _ := filepath.Glob(filepath.Join(lab.Path, ".git", "objects", "pack", "*.pack"))
			if len(packs) == 0 {
				return fmt.Errorf("no pack in %s", lab.Path)
			}
			return os.Truncate(packs[0], 40)
		},
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		fetched = git.requests.Load()
		lab := again()
		if git.requests.Load() == fetched || len(lab.Modified) > 0 {
			t.Errorf("a damaged copy was not fetched again, or its files count as changed: %q", lab.Modified)
		}
		if r := page.run(lab, "a"); !strings.Contains(r.Output, "\nmy own\n") {
			t.Errorf("the learner's own file is lost: %+v", r)
		}
		rt.wantNothingHalfMade()
	}
	second := git.commit("kept.git", map[string]string{manifestName: labManifest(t, "kept", shellAction("a", "true")), "n": "2"})
	alike := filepath.Join(filepath.Dir(lab.Path), second[:12]) // as if both ids began alike
	if err := os.Rename(lab.Path, alike); err != nil {
		t.Fatal(err)
	}
	if r := page.ask(repo, second); r.status != http.StatusConflict || !strings.Contains(r.detail(), commit) {
		t.Errorf("another commit's folder: %d %s", r.status, r.body)
	}
	if err := os.Rename(alike, lab.Path); err != nil {
		t.Fatal(err)
	}
	git.close()
	if lab := again(); page.run(lab, "a").Status != "succeeded" {
		t.Error("without the network the lab does not run")
	}
	if err := os.RemoveAll(filepath.Join(lab.Path, ".git")); err != nil {
		t.Fatal(err)
	}
	page.want(http.StatusOK, "POST", "/labs/prepare", source1(repo, commit)) // read once since the start
}

func TestFetchGoesThroughThePersonsProxy(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	proxy, asked := connectProxy(t)
	bin, seen := t.TempDir(), filepath.Join(t.TempDir(), "seen")
	wrapper := filepath.Join(bin, "git")
	if err := writeUnshared(wrapper, []byte("#!/bin/sh\nenv >>"+seen+"\nexec /usr/bin/git \"$@\"\n")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(wrapper, 0o700); err != nil {
		t.Fatal(err)
	}
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")),
		withEnv("https_proxy="+proxy, "HTTPS_PROXY=", "no_proxy=", "NO_PROXY=", "FOO_TOKEN=secret", "AGENT_RUNTIME_TOKEN=secret", "PATH="+bin+":"+os.Getenv("PATH")))
	page := site{rt: rt, origin: "http://localhost:3000"}
	repo, commit := git.addRepo("proxied.git", map[string]string{manifestName: labManifest(t, "proxied", shellAction("a", "true"))})
	page.prepare(repo, commit)
	if asked.Load() == 0 {
		t.Error("git did not go through the proxy")
	}
	if env, err := os.ReadFile(seen); err != nil || strings.Contains(string(env), "secret") {
		t.Errorf("git was given what is none of its business, %v:\n%s", err, env)
	}
}

// connectProxy is a proxy for https that counts what it is asked for.
func connectProxy(t *testing.T) (url string, asked *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); group.Wait() })
	asked = new(atomic.Int64)
	group.Go(func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { proxyOne(conn, asked) })
		}
	})
	return "http://" + l.Addr().String(), asked
}

func proxyOne(conn net.Conn, asked *atomic.Int64) {
	defer conn.Close()
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil || r.Method != http.MethodConnect {
		return
	}
	asked.Add(1)
	target, err := net.Dial("tcp", r.Host)
	if err != nil {
		return
	}
	defer target.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { // ends with either connection
		_, _ = io.Copy(target, conn)
		_ = target.Close()
	}()
	_, _ = io.Copy(conn, target)
}

// smallDisk mounts a disk of this size at dir, or skips the test.
func smallDisk(t *testing.T, dir, size string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a full disk is made by mounting a small one, which needs root")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("a full disk is made by mounting a small one, which this machine does not allow: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

func growDisk(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "mode=0700,size=64m"); err != nil {
		t.Fatal(err)
	}
}

func TestFullDiskLeavesNoHalfLabAndLosesNoRun(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	smallDisk(t, filepath.Join(dir, "labs"), "3m")
	smallDisk(t, filepath.Join(dir, "runs"), "64k")
	rt := startRuntime(t, withDir(dir), withGit(git), withPython(quickPython(t, "")))
	page := site{rt: rt, origin: "http://localhost:3000"}
	small, smallCommit := git.addRepo("small.git", map[string]string{manifestName: labManifest(t, "small",
		testAction{name: "much", steps: [][]string{{"python", "-c", "print('x' * 200000); print('END')"}}}, shellAction("little", "echo little"))})
	lab := page.prepare(small, smallCommit)
	large, largeCommit := git.addRepo("large.git", map[string]string{manifestName: labManifest(t, "large", shellAction("a", "true")), "data": strings.Repeat("0123456789abcde\n", 4<<16)})
	r := page.ask(large, largeCommit)
	if r.status != kindFull.status() || !strings.Contains(r.detail(), "room on the disk") {
		t.Errorf("a lab that does not fit: %d %s", r.status, r.body)
	}
	rt.wantNothingHalfMade()
	page.want(http.StatusOK, "POST", "/labs/prepare", source1(small, smallCommit)) // stays usable

	much := page.run(lab, "much")
	if much.Status != "succeeded" || !strings.Contains(much.Output, "\nEND\n") {
		t.Errorf("a run that the disk does not take: %s, %d characters", much.Status, much.NextOffset)
	}
	growDisk(t, filepath.Join(dir, "labs"))
	growDisk(t, filepath.Join(dir, "runs"))
	page.prepare(large, largeCommit)
	rt.end(syscall.SIGTERM)
	rt = rt.again()
	page.rt = rt
	if again := page.finish(much.RunID); again.Output != much.Output || again.Status != "succeeded" {
		t.Errorf("the run that was in memory is %s with %d characters", again.Status, again.NextOffset)
	}
}

func TestLabCommandsTellAuthorsWhatPagesWouldSee(t *testing.T) {
	t.Parallel()
	data, dir := filepath.Join(t.TempDir(), "data"), t.TempDir()
	env := programEnv(data, "AGENT_RUNTIME_PYTHON="+quickPython(t, ""))
	write := func(manifest string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, manifestName), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, manifest string
		args           []string
		code           int
		says           []string
	}{
		{"no lab", "", []string{"lab", "check", dir}, 1, []string{"no lab.toml"}},
		{"mistakes", "schema = 2\nid = \"a b\"\n\nfoo = 1\n", []string{"lab", "check", dir}, 1, []string{"line 1", "line 2", "line 4", "title", "actions"}},
		{"not TOML", "schema = \n", []string{"lab", "check", dir}, 1, []string{"line 1"}},
		{"mistakes stop a run", "schema = 2\n", []string{"lab", "run", dir, "ok"}, 1, []string{"schema"}},
		{"valid", labManifest(t, "cli", shellAction("ok", "command -v python; echo error >&2"), shellAction("bad", "exit 3")), []string{"lab", "check", dir}, 0, []string{"valid", "ok, bad"}},
		{"run", "", []string{"lab", "run", dir, "ok"}, 0, []string{"$ sh -c 'command -v python", filepath.Join(data, "envs", "lab-cli", venvName, "bin", "python"), "\nerror\n[done · "}},
		{"run that fails", "", []string{"lab", "run", dir, "bad"}, 1, []string{"[exit 3 · "}},
		{"unknown action", "", []string{"lab", "run", dir, "none"}, 1, []string{"ok, bad"}},
		{"no action", "", []string{"lab", "run", dir}, 2, []string{"lab run"}},
		{"too much", "", []string{"lab", "check", dir, dir}, 2, []string{"lab check"}},
		{"no approvals", "", []string{"lab", "approvals"}, 0, []string{"No lab is approved."}},
	} {
		if c.manifest != "" {
			write(c.manifest)
		}
		out, code := runProgram(t, env, c.args...)
		if code != c.code {
			t.Errorf("%s: status %d, want %d:\n%s", c.name, code, c.code, out)
		}
		for _, words := range c.says {
			if !strings.Contains(out, words) {
				t.Errorf("%s: %q does not say %q", c.name, out, words)
			}
		}
	}
	if err := os.Remove(filepath.Join(dir, manifestName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, manifestName)); err != nil {
		t.Fatal(err)
	}
	if out, code := runProgram(t, env, "lab", "check", dir); code != 1 || !strings.Contains(out, "regular file") || strings.Contains(out, "root:") {
		t.Errorf("a link: %d %s", code, out)
	}
}

func TestLabRunInATerminal(t *testing.T) {
	t.Parallel()
	data, dir := filepath.Join(t.TempDir(), "data"), t.TempDir()
	env := programEnv(data, "AGENT_RUNTIME_PYTHON="+quickPython(t, ""))
	manifest := labManifest(t, "typed",
		shellAction("long", "trap 'echo cleaned; exit 0' INT; setsid sleep 300 & echo away=$!; while :; do sleep 0.05; done"),
		shellAction("leave", "sleep 300 >/dev/null 2>&1 & echo away=$!"),
		shellAction("brief", "(until [ -e go ]; do sleep 0.02; done) >/dev/null 2>&1 &"),
		testAction{name: "flood", steps: [][]string{{"python", "-c", "for i in range(200000): print('flood')"}}})
	if err := os.WriteFile(filepath.Join(dir, manifestName), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		action, says string
		code         int
	}{
		{"long", `cleaned\r\n\[stopped · `, 1},
		{"leave", `\[1 process left running\]`, 0},
	} {
		master, slave := openPTY(t)
		cmd := exec.CommandContext(t.Context(), os.Args[0], "lab", "run", dir, c.action)
		cmd.Env = env
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		screen := newConsole()
		go func() { _, _ = io.Copy(screen, master) }() // ends when the test closes the terminal
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		groups, _ := screen.await(t, 0, "away=([0-9]+)\r\n")
		away, err := strconv.Atoi(groups[1])
		if err != nil {
			t.Fatal(err)
		}
		if c.code == 0 {
			screen.await(t, 0, "Ctrl-C ends it")
			if !running(away) {
				t.Error("what the action left ended before the person said so")
			}
		}
		if _, err := io.WriteString(master, "\x03"); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		screen.await(t, 0, c.says)
		if cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("%s: %v, want %d", c.action, cmd.ProcessState, c.code)
		}
		wantGone(t, away)
	}

	// What was left running may end by itself, with nobody to type Ctrl-C.
	brief := exec.CommandContext(t.Context(), os.Args[0], "lab", "run", dir, "brief")
	brief.Env = env
	screen := newConsole()
	brief.Stdout, brief.Stderr = screen, screen
	if err := brief.Start(); err != nil {
		t.Fatal(err)
	}
	screen.await(t, 0, `\[[12] process(es)? left running\]`)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := brief.Wait(); err != nil {
		t.Errorf("with something left that ended: %v\n%s", err, screen)
	}

	// A reader that leaves does not keep the action from its end.
	cmd := exec.CommandContext(t.Context(), os.Args[0], "lab", "run", dir, "flood")
	cmd.Env = env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.CopyN(io.Discard, out, 100)
	_ = out.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("with nobody to read it: %v", err)
	}
}
