package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const sandboxConfigText = `[sandbox]
max_per_learner = 1000
creates_per_min = 1000
pool_size = 1000

[sandbox.tasks.bridge]
environment = "design"
run_command = "python3 harness.py"
`

// sandboxSite starts the runtime with a configuration and returns a page that
// it trusts, with the learners ada, whose age is verified, and uma.
func sandboxSite(t testing.TB, config string) site {
	t.Helper()
	dir := filepath.Join(reachableFolder(t), "data")
	put(t, filepath.Join(dir, "config.toml"), config)
	rt := startRuntime(t, withDir(dir))
	for _, args := range [][]string{{"add", adult, "--age", "30"}, {"add", unaged}} {
		if out, code := rt.command(append([]string{"learner"}, args...)...); code != 0 {
			t.Fatalf("learner %v: %s", args, out)
		}
	}
	return site{rt: rt, origin: "http://localhost:8000"}
}

type execReply struct {
	Cmd        []string
	Returncode int
	Stdout     string
	Stderr     string
	DurationS  float64 `json:"duration_s"`
	TimedOut   bool    `json:"timed_out"`
	Truncated  bool
	Limit      *string
}

// sandbox makes a sandbox and returns its path.
func (s site) sandbox(body map[string]any) string {
	s.rt.t.Helper()
	if body["learner_id"] == nil {
		body["learner_id"] = adult
	}
	r := asJSON[sandboxAnswer](s.rt.t, s.want(http.StatusCreated, "POST", "/v1/sandboxes", body))
	return "/v1/sandboxes/" + r.ID
}

func (s site) exec(sandbox string, cmd ...string) execReply {
	s.rt.t.Helper()
	return asJSON[execReply](s.rt.t, s.want(http.StatusOK, "POST", sandbox+"/exec", map[string]any{"cmd": cmd}))
}

// The story that the documentation tells.
func TestALearnerWorksOnADesignTask(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		rt := sandboxSite(t, sandboxConfigText).rt
		page := rt.pair("https://course.example", scopeSandbox)
		box := page.sandbox(map[string]any{"task_id": "bridge"})
		harness := "print('load:', sum(map(int, open('parts/design.txt'))))"
		page.want(http.StatusOK, "PUT", box+"/files/harness.py", map[string]any{"content": harness})
		page.want(http.StatusOK, "PUT", box+"/files/parts/design.txt", map[string]any{"path": "parts/design.txt", "content": "40\n2\n"})
		if got := page.exec(box, "python3", "harness.py"); got.Stdout != "load: 42\n" || got.Returncode != 0 || got.Limit != nil || got.TimedOut || got.DurationS <= 0 {
			t.Errorf("exec = %+v", got)
		}
		refusal := page.want(http.StatusUnprocessableEntity, "POST", box+"/exec", map[string]any{"cmd": []string{"sh", "-c", "id"}})
		if !strings.Contains(refusal.detail(), "shell passthrough is not allowed") {
			t.Errorf("refusal = %s", refusal.body)
		}
		shot := asJSON[snapshotAnswer](t, page.want(http.StatusOK, "POST", box+"/snapshot", nil))
		if !slices.Equal(shot.Files, []string{"harness.py", "parts"}) || !strings.HasPrefix(shot.SnapshotPath, rt.dir) {
			t.Errorf("snapshot = %+v", shot)
		}
		events := asJSON[sandboxEventsAnswer](t, page.want(http.StatusOK, "GET", box+"/events?after=1", nil)).Events
		if len(events) != 3 || events[0].Path != "parts/design.txt" || events[1].Type != "exec" || *events[1].Returncode != 0 || events[2].SnapshotID != shot.SnapshotID {
			t.Errorf("events = %+v", events)
		}
		page.want(http.StatusNoContent, "DELETE", box, nil)
		page.want(http.StatusNotFound, "GET", box, nil)
		again := page.sandbox(map[string]any{"task_id": "bridge", "restore": shot.SnapshotID})
		if got := page.exec(again, "python3", "harness.py"); got.Stdout != "load: 42\n" {
			t.Errorf("exec in the restored sandbox = %+v", got)
		}
	})
}

func TestAttacksThroughTheAPIAreHeldOff(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		page := sandboxSite(t, sandboxConfigText)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		_, own, _ := strings.Cut(strings.TrimPrefix(page.rt.addr, "http://"), ":")
		box := page.sandbox(map[string]any{})
		for name, script := range attacks {
			for _, port := range []string{port, own} {
				replace := strings.NewReplacer("%PORT%", port, "%ABSTRACT%", "none", "%SOCKET%", filepath.Join(page.rt.dir, "control"),
					"%DATA%", page.rt.dir, "%PID%", fmt.Sprint(page.rt.cmd.Process.Pid), "%SECRET%", playProgram)
				page.want(http.StatusOK, "PUT", box+"/files/attack.py", map[string]any{"content": attackPrelude + replace.Replace(script) + attackEnd})
				if got := page.exec(box, "python3", "attack.py"); got.Stdout != "HELD\n" {
					t.Errorf("%s got through:\n%s%s", name, got.Stdout, got.Stderr)
				}
			}
		}
	})
}

func TestSandboxGatesAndBodiesOverHTTP(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		page := sandboxSite(t, "[sandbox]\nverify_url = \"https://school.example/age\"\ncreates_per_min = 2\nmax_per_learner = 2\npool_size = 1\n")
		for _, c := range []struct {
			body   map[string]any
			status int
			detail string
		}{
			{map[string]any{}, 422, "learner_id"},
			{map[string]any{"learner_id": 5}, 422, "learner_id"},
			{map[string]any{"learner_id": ""}, 422, "learner_id"},
			{map[string]any{"learner_id": adult, "task_id": "none"}, 422, "task_id"},
			{map[string]any{"learner_id": adult, "task_id": ""}, 422, "task_id"},
			{map[string]any{"learner_id": "eve"}, 403, "allowlist"},
			{map[string]any{"learner_id": unaged}, 403, "https://school.example/age"},
			{map[string]any{"learner_id": adult, "restore": "none"}, 404, "snapshot"},
			{map[string]any{"learner_id": adult, "unknown": 1}, 201, ""},
			{map[string]any{"learner_id": adult}, 503, "in use"},
		} {
			r := page.want(c.status, "POST", "/v1/sandboxes", c.body)
			if !strings.Contains(r.detail(), c.detail) {
				t.Errorf("create %v: %s, want %q in it", c.body, r.body, c.detail)
			}
			if verify := asJSON[struct{ Verify string }](t, r).Verify; (verify != "") != (c.body["learner_id"] == unaged) || verify != "" && !strings.HasSuffix(r.detail(), verify) {
				t.Errorf("create %v: verify = %q", c.body, verify)
			}
		}
		list := asJSON[sandboxesAnswer](t, page.want(200, "GET", "/v1/sandboxes", nil))
		if len(list.Sandboxes) != 1 || !strings.HasSuffix(list.Sandboxes[0].CreatedAt, "+00:00") || !filepath.IsAbs(list.Sandboxes[0].Workdir) {
			t.Fatalf("list = %+v", list)
		}
		box := "/v1/sandboxes/" + list.Sandboxes[0].ID
		page.want(204, "DELETE", box, nil)
		box = page.sandbox(map[string]any{})
		page.want(204, "DELETE", box, nil)
		r := page.want(429, "POST", "/v1/sandboxes", map[string]any{"learner_id": adult})
		if r.header.Get("Retry-After") == "" || strings.Contains(r.header.Get("Retry-After"), ".") {
			t.Errorf("Retry-After = %q, want whole seconds", r.header.Get("Retry-After"))
		}
	})
}

func TestSandboxFilesOverHTTP(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		page := sandboxSite(t, sandboxConfigText)
		box := page.sandbox(map[string]any{})
		for _, c := range []struct {
			path   string
			body   map[string]any
			status int
		}{
			{"a.txt", map[string]any{"content": "a", "path": "b.txt"}, 422},
			{"a.txt", map[string]any{}, 422},
			{"a.txt", map[string]any{"content": "!", "encoding": "base64"}, 422},
			{"a.txt", map[string]any{"content": "x", "encoding": "hex"}, 422},
			{"%2Fetc%2Fx", map[string]any{"content": "x"}, 422},
			{"a%2F..%2F..%2Fx", map[string]any{"content": "x"}, 422},
			{"%2E%2E/x", map[string]any{"content": "x"}, 422},
			{"a%00b", map[string]any{"content": "x"}, 422},
			{"", map[string]any{"content": "x"}, 422},
			{"big", map[string]any{"content": strings.Repeat("x", 8<<20+1)}, 413},
			{"huge", map[string]any{"content": strings.Repeat("x", 20<<20)}, 413},
			{"most", map[string]any{"content": strings.Repeat("x", 8<<20)}, 200},
			{"bytes", map[string]any{"content": base64.StdEncoding.EncodeToString([]byte("\xff\x00")), "encoding": "base64"}, 200},
			{"%FF%FE", map[string]any{"content": "odd"}, 200},
			{"deep/er/file%2Fname", map[string]any{"content": "x"}, 200},
		} {
			if r := page.call(t.Context(), "PUT", box+"/files/"+c.path, c.body); r.status != c.status {
				t.Errorf("PUT %q = %d %.200s %v, want %d", c.path, r.status, r.body, r.err, c.status)
			}
		}
		files := asJSON[filesAnswer](t, page.want(200, "GET", box+"/files?recursive=true", nil))
		if want := []string{"bytes", "deep/", "deep/er/", "deep/er/file/", "deep/er/file/name", "most", "\ufffd\ufffd"}; !slices.Equal(files.Files, want) {
			t.Errorf("files = %q, want %q", files.Files, want)
		}
		if len(files.Encoded) != 1 {
			t.Fatalf("encoded = %+v", files.Encoded)
		}
		if got := asJSON[fileAnswer](t, page.want(200, "GET", box+"/files/"+files.Encoded[0].URLPath, nil)); got.Content != "odd" {
			t.Errorf("read by the encoded name = %+v", got)
		}
		if got := asJSON[fileAnswer](t, page.want(200, "GET", box+"/files/bytes", nil)); got.Content != "\ufffd\x00" || got.Path != "bytes" {
			t.Errorf("read as text = %+v", got)
		}
		if got := asJSON[fileAnswer](t, page.want(200, "GET", box+"/files/bytes?encoding=base64", nil)); got.Content != "/wA=" || got.Encoding != "base64" {
			t.Errorf("read as bytes = %+v", got)
		}
		page.want(422, "GET", box+"/files/bytes?encoding=hex", nil)
		page.want(422, "GET", box+"/files?recursive=maybe", nil)
		page.want(404, "GET", box+"/files/none", nil)
		page.want(404, "GET", box+"/files/deep", nil)
	})
}

func TestAnUploadThatIsCutLeavesTheOldFile(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		page := sandboxSite(t, sandboxConfigText)
		box := page.sandbox(map[string]any{})
		page.want(200, "PUT", box+"/files/f", map[string]any{"content": "old"})
		conn, err := net.Dial("tcp", strings.TrimPrefix(page.rt.addr, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		body := `{"content":"` + strings.Repeat("x", 4<<20)
		fmt.Fprintf(conn, "PUT %s/files/f HTTP/1.1\r\nHost: localhost:%s\r\nOrigin: %s\r\nContent-Type: application/json\r\nContent-Length: 8000000\r\n\r\n%s",
			box, page.rt.addr[strings.LastIndexByte(page.rt.addr, ':')+1:], page.origin, body)
		conn.Close()
		if got := asJSON[fileAnswer](t, page.want(200, "GET", box+"/files/f", nil)); got.Content != "old" {
			t.Errorf("read = %.20q, want the old content", got.Content)
		}
		if got := asJSON[filesAnswer](t, page.want(200, "GET", box+"/files", nil)); !slices.Equal(got.Files, []string{"f"}) {
			t.Errorf("files = %q, want no stray one", got.Files)
		}
	})
}

func TestExecBodiesOverHTTP(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		page := sandboxSite(t, sandboxConfigText+"\n[sandbox.tasks.none]\nenvironment = \"build\"\nrun_command = \"make\"\n")
		box := page.sandbox(map[string]any{})
		for _, body := range []map[string]any{
			{}, {"cmd": []string{}}, {"cmd": "ls"}, {"cmd": []any{"ls", 5}}, {"cmd": []string{""}}, {"cmd": []string{"ls", "a\x00"}},
			{"cmd": slices.Repeat([]string{"x"}, 101)}, {"cmd": []string{"ls"}, "timeout": 0}, {"cmd": []string{"ls"}, "timeout": -1},
			{"cmd": []string{"ls"}, "timeout": 61}, {"cmd": []string{"ls"}, "timeout": "5"},
		} {
			r := page.want(422, "POST", box+"/exec", body)
			if r.detail() == "" {
				t.Errorf("exec %v: %s, want a detail", body, r.body)
			}
		}
		timed := asJSON[execReply](t, page.want(200, "POST", box+"/exec", map[string]any{"cmd": []string{"sleep", "30"}, "timeout": 0.5}))
		if !timed.TimedOut || timed.Limit == nil || *timed.Limit != "time" || timed.Returncode != 124 {
			t.Errorf("exec = %+v, want the time limit", timed)
		}
		if r := page.want(200, "POST", box+"/exec", map[string]any{"cmd": []string{"true"}}); !bytes.Contains(r.body, []byte(`"limit":null`)) {
			t.Errorf("exec = %s, want a limit of null", r.body)
		}
		if got := page.exec(box, "no-such-program"); got.Returncode != 127 {
			t.Errorf("exec of nothing = %+v, want 127", got)
		}
	})
}

func TestAClientThatLeavesEndsItsExec(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		page := sandboxSite(t, sandboxConfigText)
		box := page.sandbox(map[string]any{})
		word := fmt.Sprintf("5%d", time.Now().UnixNano()%1e12)
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan reply, 1)
		go func() {
			done <- page.call(ctx, "POST", box+"/exec", map[string]any{"cmd": []string{"sleep", word}})
		}()
		for runningWith(word) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		leave()
		<-done
		page.exec(box, "true") // takes its turn after the one that was left
		if n := runningWith(word); n != 0 {
			t.Errorf("%d processes are left", n)
		}
	})
}

func TestSandboxScopeReachesSandboxesAlone(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		rt := sandboxSite(t, sandboxConfigText).rt
		page := rt.pair("https://course.example", scopeSandbox)
		other := rt.pair("https://other.example", scopeSandbox)
		actions := rt.pair("https://labs.example", scopeActions)
		box := page.sandbox(map[string]any{})
		page.want(http.StatusForbidden, "GET", "/labs/runs", nil)
		actions.want(http.StatusForbidden, "GET", "/v1/sandboxes", nil)
		site{rt: rt, origin: "https://nobody.example"}.want(http.StatusUnauthorized, "GET", "/v1/sandboxes", nil)
		for _, c := range []struct{ method, path string }{
			{"GET", ""}, {"GET", "/files"}, {"GET", "/files/x"}, {"POST", "/snapshot"}, {"GET", "/events"}, {"DELETE", ""},
		} {
			other.want(http.StatusNotFound, c.method, box+c.path, nil)
		}
		other.want(http.StatusNotFound, "PUT", box+"/files/x", map[string]any{"content": ""})
		other.want(http.StatusNotFound, "POST", box+"/exec", map[string]any{"cmd": []string{"true"}})
		if r := other.want(http.StatusOK, "GET", "/v1/sandboxes", nil); string(r.body) != "{\"sandboxes\":[]}\n" {
			t.Errorf("list of another site = %s", r.body)
		}
	})
}

func TestTheRuntimeStaysResponsiveUnderAForkBomb(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		page := sandboxSite(t, sandboxConfigText)
		box := page.sandbox(map[string]any{})
		bomb := page.later("POST", box+"/exec", map[string]any{"cmd": []string{"python3", "-c", "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"}, "timeout": 10})
		for {
			select {
			case r := <-bomb:
				if got := asJSON[execReply](t, r); got.Limit == nil || *got.Limit != "processes" {
					t.Errorf("exec = %s, want the limit on processes", r.body)
				}
				return
			default:
			}
			begin := time.Now()
			page.want(200, "GET", "/health", nil)
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("health took %v", took)
			}
		}
	})
}

func TestLearnerCommands(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"learner list", 0, "No learner"},
		{"learner add ada", 0, "once the age is verified"},
		{"learner add ada", 1, "already"},
		{"learner add bob --age 17", 0, "bob may have sandboxes.\n"},
		{"learner add eve --age old", 2, "number"},
		{"learner add", 2, "ID"},
		{"learner verify ada", 2, "--age"},
		{"learner verify ada --age 200", 1, "150"},
		{"learner verify --age 16 ada", 0, "16 years"},
		{"learner verify zoe --age 16", 1, "not on the allowlist"},
		{"learner list", 0, "bob"},
		{"learner remove bob", 0, "no more"},
		{"learner remove bob", 1, "not on the allowlist"},
	} {
		out, code := runProgram(t, programEnv(dir), strings.Fields(c.args)...)
		if code != c.status || !strings.Contains(out, c.want) {
			t.Errorf("%s: status %d, %q; want %d, %q", c.args, code, out, c.status, c.want)
		}
	}
}

func TestDoctorTriesIsolation(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		out, _ := runProgram(t, programEnv(filepath.Join(reachableFolder(t), "data")), "doctor", "--json")
		if !strings.Contains(out, "commands can be isolated") {
			t.Errorf("doctor = %s", out)
		}
	})
}

func TestRevokingASiteEndsItsExecs(t *testing.T) {
	asBothUsers(t, func(t *testing.T) {
		local := sandboxSite(t, sandboxConfigText)
		page := local.rt.pair("https://course.example", scopeSandbox)
		mine, its := local.sandbox(map[string]any{}), page.sandbox(map[string]any{})
		script := map[string]any{"cmd": []string{"sh", "-c", "touch running; until [ -e go ]; do sleep 0.1; done; echo end"}}
		kept, ended := local.later("POST", mine+"/exec", script), page.later("POST", its+"/exec", script)
		for page.call(t.Context(), "GET", its+"/files/running", nil).status != 200 {
			time.Sleep(10 * time.Millisecond)
		}
		if out, code := local.rt.command("pairing", "revoke", page.origin); code != 0 {
			t.Fatal(out)
		}
		page.want(http.StatusForbidden, "GET", its, nil)
		local.want(http.StatusOK, "PUT", mine+"/files/go", map[string]any{"content": ""})
		if r := <-ended; r.status != http.StatusForbidden {
			t.Errorf("exec of the revoked site = %d %s, want that it was ended", r.status, r.body)
		}
		if got := asJSON[execReply](t, <-kept); got.Stdout != "end\n" {
			t.Errorf("exec of another site = %+v, want it to end by itself", got)
		}
	})
}
