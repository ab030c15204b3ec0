package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ownPage is the runtime's own page, as a browser sends its requests.
func (rt *testRuntime) ownPage() site { return site{rt: rt, origin: rt.addr} }

func (rt *testRuntime) overview() overviewAnswer {
	rt.t.Helper()
	return asJSON[overviewAnswer](rt.t, rt.ownPage().want(http.StatusOK, "GET", "/manage/overview", nil))
}

// corsHeaders are the headers of an answer by which other pages may read it.
func corsHeaders(r reply) []string {
	var found []string
	for name := range r.header {
		if strings.HasPrefix(name, "Access-Control-") {
			found = append(found, name)
		}
	}
	return found
}

// foreignCallers are header lines, with the Host first, of whoever is not the
// runtime's own page.
func foreignCallers(rt *testRuntime) map[string][]string {
	host := "Host: " + strings.TrimPrefix(rt.addr, "http://")
	port := rt.port()
	const same = "Sec-Fetch-Site: same-origin"
	return map[string][]string{
		"nobody":                          {host},
		"a link or an address typed":      {host, "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"},
		"a link, form, image or script":   {host, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"},
		"a page on another port":          {host, "Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site"},
		"a page on another loopback name": {host, "Origin: http://localhost:" + port},
		"a page without a port":           {host, "Origin: http://127.0.0.1"},
		"a page of another scheme":        {host, "Origin: https://127.0.0.1:" + port},
		"a paired page":                   {host, "Origin: https://course.example"},
		"a sandboxed frame":               {host, "Origin: null"},
		"an empty Origin":                 {host, "Origin: ", same},
		"two Origins":                     {host, "Origin: " + rt.addr, "Origin: " + rt.addr},
		"two Origins in one":              {host, "Origin: " + rt.addr + ", " + rt.addr},
		"an Origin and a contradiction":   {host, "Origin: " + rt.addr, "Sec-Fetch-Site: cross-site"},
		"two fetch sites":                 {host, same, "Sec-Fetch-Site: cross-site"},
		"a frame of the same site":        {host, "Sec-Fetch-Site: same-site"},
		"a path in the Origin":            {host, "Origin: " + rt.addr + "/"},
		"a configured Host":               {"Host: tunnel.example", "Origin: http://tunnel.example"},
		"a configured Host, same origin":  {"Host: tunnel.example", same},
		"a configured loopback Host":      {"Host: localhost:1", "Origin: http://localhost:1", same},
		"a forwarded request":             {host, "Forwarded: host=127.0.0.1", "X-Forwarded-For: 127.0.0.1", "Referer: " + rt.addr + "/"},
	}
}

// send sends header lines as they are, to a path.
func (rt *testRuntime) sendLines(method, path string, lines ...string) reply {
	rt.t.Helper()
	return rt.raw(method + " " + path + " HTTP/1.1\r\nConnection: close\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n")
}

func TestManagingIsForTheOwnPageAlone(t *testing.T) {
	t.Parallel()
	for name, pairing := range map[string]string{"pairing required": "true", "pairing switched off": "false"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := startRuntime(t, withEnv("AGENT_RUNTIME_REQUIRE_PAIRING="+pairing),
				withConfig(t, "[server]\nallowed_hosts = [\"tunnel.example\", \"localhost:1\"]\n"))
			callers := foreignCallers(rt)
			token := rt.clientToken("tool", scopeCode)
			callers["a local program"] = []string{callers["nobody"][0], "Authorization: Bearer " + token}
			if pairing == "true" {
				page := rt.pair("https://course.example", scopeCode)
				callers["a paired page"] = append(callers["a paired page"], "Authorization: Bearer "+page.token)
			}
			for _, route := range routes(&server{}) {
				if managed := strings.HasPrefix(route.pattern, ownPrefix); managed != (route.scope == scopeOwn) {
					t.Errorf("%s %s has the scope %s", route.method, route.pattern, route.scope)
				}
				if route.scope == scopeOwn {
					checkManaged(t, rt, route, callers)
				}
			}
		})
	}
}

// checkManaged wants a route to refuse all callers but the own page.
func checkManaged(t *testing.T, rt *testRuntime, route route, callers map[string][]string) {
	t.Helper()
	path := pathParam.ReplaceAllString(route.pattern, "x")
	for name, lines := range callers {
		r := rt.sendLines(route.method, path, lines...)
		if r.status != http.StatusForbidden || len(corsHeaders(r)) > 0 || !strings.Contains(r.detail(), "own page") {
			t.Errorf("%s: %s %s: status %d, %s, %v; want 403", name, route.method, path, r.status, r.body, r.header)
		}
	}
	host := callers["nobody"][0]
	for _, lines := range [][]string{
		{host, "Origin: " + rt.addr, "Sec-Fetch-Site: same-origin"}, {host, "Origin: " + rt.addr}, {host, "Sec-Fetch-Site: same-origin"},
		{"Host: localhost:" + rt.port(), "Origin: http://localhost:" + rt.port()},
	} {
		r := rt.sendLines(route.method, path, lines...)
		if r.status == http.StatusForbidden || r.status == http.StatusUnauthorized || r.status >= 500 || len(corsHeaders(r)) > 0 {
			t.Errorf("the own page, %q: %s %s: status %d, %s", lines, route.method, path, r.status, r.body)
		}
		if got := r.header.Get("Cross-Origin-Resource-Policy"); got != "same-origin" {
			t.Errorf("%s %s may be embedded: Cross-Origin-Resource-Policy: %q", route.method, path, got)
		}
	}
}

func TestPathsThatLookLikeManagingAreNoWayRound(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	host := "Host: " + strings.TrimPrefix(rt.addr, "http://")
	for path, want := range map[string]int{
		"/%6danage/overview": 403, "/manage/overview?x=1": 403, "/manage//overview": 422, "/x/../manage/overview": 422,
		"/manage": 404, "/manage/": 404, "/manage/overview/": 404, "/Manage/overview": 404,
	} {
		if r := rt.sendLines("GET", path, host, "Origin: http://localhost:1"); r.status != want {
			t.Errorf("%s: status %d, %s; want %d", path, r.status, r.body, want)
		}
	}
}

func TestManagingOverTLSIsForThatOriginAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	giveCertificate(t, dir, mustCertificate(t, time.Now()), 0o600)
	client := trusting(t, dir)
	rt := startRuntime(t, withDir(dir), withEnv("AGENT_RUNTIME_HTTPS_PORT=0"))
	groups, _ := rt.screen.await(t, 0, `(https://127\.0\.0\.1:\d+)`)
	secure := groups[1]
	for origin, want := range map[string]int{
		secure: 200, rt.addr: 403, "http" + strings.TrimPrefix(secure, "https"): 403, "https://127.0.0.1:" + rt.port(): 403, "null": 403, "": 403,
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", secure+"/manage/overview", nil)
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("Origin %q to %s: status %d, want %d", origin, secure, answer.StatusCode, want)
		}
	}
	site{rt: rt, origin: secure}.want(http.StatusForbidden, "GET", "/manage/overview", nil)
	if got := rt.overview().Addresses; len(got) != 2 || got[0] != rt.addr || got[1] != secure {
		t.Errorf("addresses = %q", got)
	}
}

func TestOwnPageSeesAndTakesBackWhatSitesHave(t *testing.T) {
	t.Parallel()
	git := newGitServer(t)
	repo, commit := git.addRepo("sleepy.git", map[string]string{"lab.toml": sleepyLab})
	rt := startRuntime(t, withGit(git), withPython(quickPython(t, "")))
	own, page := rt.ownPage(), rt.pair("https://course.example", scopeActions)
	tool := site{rt: rt, token: rt.clientToken("tool", scopeActions)}
	if o := rt.overview(); o.Clients[0].LastUsed != nil || o.Folder != rt.dir || !o.PairingRequired || o.Addresses[0] != rt.addr {
		t.Errorf("overview %+v", o)
	}
	tool.want(http.StatusOK, "GET", "/labs/runs", nil)
	lab := page.prepare(repo, commit)
	run := page.start(lab, "sleep")
	page.follow(run.RunID, func(r runState) bool { return strings.Contains(r.Output, "\nasleep\n") })

	doc := asJSON[map[string]any](t, own.want(http.StatusOK, "GET", "/openapi.json", nil))
	for _, path := range []string{"/manage/overview", "/manage/doctor", "/manage/sizes"} {
		checkSchema(t, path, answerSchemaOf(t, doc, path), asJSON[any](t, own.want(http.StatusOK, "GET", path, nil)))
	}
	o := rt.overview()
	if len(o.Sites) != 1 || o.Sites[0].Name != page.origin || o.Sites[0].Scope != scopeActions || o.Sites[0].LastUsed == nil || o.Clients[0].LastUsed == nil {
		t.Errorf("sites %+v, clients %+v", o.Sites, o.Clients)
	}
	if len(o.Labs) != 1 || o.Labs[0].Repo != repo || o.Labs[0].Versions[0].Commit != commit || o.Labs[0].Versions[0].Actions[0].Steps[0] == "" {
		t.Errorf("labs %+v", o.Labs)
	}
	if len(o.Runs) != 1 || o.Runs[0].Principal != principal(page.origin) || o.Runs[0].Status != statusRunning {
		t.Errorf("runs %+v", o.Runs)
	}
	if len(o.Environments) != 1 || o.Environments[0].ID != lab.LabID || !strings.Contains(o.Environments[0].Use, "action") {
		t.Errorf("environments %+v", o.Environments)
	}

	env := "/manage/environments/" + lab.LabID
	if r := own.want(http.StatusConflict, "DELETE", env, nil); !strings.Contains(r.detail(), `the action "sleep" of https://course.example is running`) {
		t.Errorf("delete of a used environment: %s", r.body)
	}
	if r := asJSON[runState](t, own.want(http.StatusOK, "GET", "/manage/runs/"+run.RunID+"?offset=0&wait=5", nil)); !strings.Contains(r.Output, "asleep") {
		t.Errorf("run %+v", r)
	}
	if r := asJSON[runState](t, own.want(http.StatusOK, "POST", "/manage/runs/"+run.RunID+"/stop", nil)); r.Status != "stopped" {
		t.Errorf("stopped run %+v", r)
	}
	own.want(http.StatusNoContent, "DELETE", env, nil)
	own.want(http.StatusNotFound, "DELETE", env, nil)
	own.want(http.StatusNoContent, "POST", "/manage/labs/forget", map[string]string{"repo": repo})
	own.want(http.StatusNotFound, "POST", "/manage/labs/forget", map[string]string{"repo": repo})
	own.want(http.StatusUnprocessableEntity, "POST", "/manage/labs/forget", map[string]string{})

	page.prepare(repo, commit)
	run = page.start(lab, "sleep")
	own.want(http.StatusNoContent, "POST", "/manage/sites/revoke", map[string]string{"origin": page.origin})
	page.want(http.StatusForbidden, "GET", "/runtime/whoami", nil)
	rt.screen.await(t, 0, `run ended.*run=`+run.RunID+`.*status=stopped`)
	own.want(http.StatusNotFound, "POST", "/manage/sites/revoke", map[string]string{"origin": page.origin})
	own.want(http.StatusNoContent, "POST", "/manage/clients/revoke", map[string]string{"name": "tool"})
	tool.want(http.StatusForbidden, "GET", "/labs/runs", nil)
	if o := rt.overview(); len(o.Sites)+len(o.Clients)+len(o.Labs) > 0 {
		t.Errorf("after all was taken back: %+v", o)
	}
}

func TestOwnPageShowsTheQuestionAndCannotAnswerIt(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	from := rt.shown()
	answer := site{rt: rt, origin: "https://course.example"}.later("POST", "/pairing/request", map[string]any{"scope": scopeSandbox})
	_, end := rt.screen.await(t, from, promptPattern)
	asked := rt.overview().Questions
	if len(asked) != 1 || asked[0].Body[0] != "Site: https://course.example" || asked[0].Waiting != 1 {
		t.Fatalf("questions %+v", asked)
	}
	for _, line := range asked[0].Body {
		if !strings.Contains(rt.screen.String()[from:end], line) {
			t.Errorf("the page shows %q, and the terminal does not", line)
		}
	}
	for _, route := range routes(&server{}) {
		if strings.Contains(route.pattern, "question") || strings.Contains(route.pattern, "approv") {
			t.Errorf("%s %s may answer questions", route.method, route.pattern)
		}
	}
	later := site{rt: rt, origin: "https://later.example"}.later("POST", "/pairing/request", nil)
	for late := time.Now().Add(patience); len(asked) < 2 && time.Now().Before(late); asked = rt.overview().Questions {
		time.Sleep(10 * time.Millisecond)
	}
	if len(asked) != 2 || !asked[0].Shown || asked[1].Shown {
		t.Fatalf("of %+v the terminal shows the first alone", asked)
	}
	rt.command("deny", asked[1].ID)
	wantReply(t, "the second pairing", later, http.StatusForbidden)
	rt.command("deny", asked[0].ID)
	wantReply(t, "the pairing", answer, http.StatusForbidden)
	if left := rt.overview().Questions; len(left) > 0 {
		t.Errorf("questions %+v", left)
	}
}

func TestOwnPageSeesAndEndsAnybodysKernel(t *testing.T) {
	t.Parallel()
	page := startKernelRuntime(t)
	rt, own := page.rt, page.rt.ownPage()
	page.cell("import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import time; x = b\"x\" * 50_000_000; time.sleep(600)'])")
	list := rt.overview().Kernels
	if len(list) != 1 || list[0].Principal != principal(page.origin) || list[0].LabID != "lab" || list[0].Memory == nil || *list[0].Memory < 20<<20 {
		t.Errorf("kernels %+v", list)
	}
	if r := own.want(http.StatusConflict, "DELETE", "/manage/environments/lab", nil); !strings.Contains(r.detail(), "a kernel of "+page.origin) {
		t.Errorf("delete of a used environment: %s", r.body)
	}
	own.want(http.StatusNotFound, "POST", "/manage/kernels/shutdown", map[string]string{"principal": "https://other.example", "lab_id": "lab"})
	own.want(http.StatusNoContent, "POST", "/manage/kernels/shutdown", map[string]string{"principal": page.origin, "lab_id": "lab"})
	own.want(http.StatusNotFound, "POST", "/manage/kernels/shutdown", map[string]string{"principal": page.origin, "lab_id": "lab"})
	sizes := asJSON[sizesAnswer](t, own.want(http.StatusOK, "GET", "/manage/sizes", nil))
	if len(sizes.Environments) != 1 || sizes.Environments[0].Bytes < 1<<16 {
		t.Errorf("sizes %+v", sizes)
	}
	own.want(http.StatusNoContent, "DELETE", "/manage/environments/lab", nil)
}

func TestOwnPageSeesAndEndsAnybodysSandbox(t *testing.T) {
	t.Parallel()
	page := sandboxSite(t, sandboxConfigText)
	rt, own := page.rt, page.rt.ownPage()
	path := page.sandbox(map[string]any{"task_id": "bridge"})
	page.want(http.StatusOK, "PUT", path+"/files/a.txt", map[string]any{"content": strings.Repeat("x", 100_000)})
	list := rt.overview().Sandboxes
	if len(list) != 1 || list[0].LearnerID != adult || list[0].TaskID != "bridge" || list[0].Principal != principal(page.origin) {
		t.Fatalf("sandboxes %+v", list)
	}
	sizes := asJSON[sizesAnswer](t, own.want(http.StatusOK, "GET", "/manage/sizes", nil))
	if len(sizes.Sandboxes) != 1 || sizes.Sandboxes[0].ID != list[0].ID || sizes.Sandboxes[0].Bytes < 100_000 {
		t.Errorf("sizes %+v", sizes)
	}
	own.want(http.StatusNoContent, "DELETE", "/manage/sandboxes/"+list[0].ID, nil)
	own.want(http.StatusNotFound, "DELETE", "/manage/sandboxes/"+list[0].ID, nil)
	page.want(http.StatusNotFound, "GET", path, nil)
}

func TestLastUseOutlivesTheRuntimeAndIsListed(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	page := rt.pair("https://course.example", scopeActions)
	rt.pair("https://quiet.example", scopeActions)
	page.want(http.StatusOK, "GET", "/labs/runs", nil)
	used := rt.overview().Sites[0].LastUsed
	rt.end(syscall.SIGTERM)
	path := filepath.Join(rt.dir, lastUseFile)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	rt = rt.again()
	if sites := rt.overview().Sites; used == nil || sites[0].LastUsed == nil || *sites[0].LastUsed != *used || sites[1].LastUsed != nil {
		t.Errorf("sites %+v, want the first last used at %v", sites, used)
	}
	out, _ := rt.command("pairing", "list")
	lines := strings.Split(out, "\n")
	if !strings.Contains(lines[0], "LAST USED") || strings.Contains(lines[1], "never") || !strings.Contains(lines[2], "never") {
		t.Errorf("pairing list:\n%s", out)
	}
	// A pairing that replaces another begins anew.
	rt.pair(page.origin, scopeActions)
	if sites := rt.overview().Sites; sites[0].LastUsed != nil {
		t.Errorf("a new pairing was last used at %s", *sites[0].LastUsed)
	}
	rt.end(syscall.SIGTERM)
	if err := os.WriteFile(path, []byte("{damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	rt = rt.again()
	if sites := rt.overview().Sites; len(sites) != 2 || sites[0].LastUsed != nil {
		t.Errorf("with a damaged file: %+v", sites)
	}

	rt.ownPage().want(http.StatusNoContent, "POST", "/manage/sites/revoke", map[string]string{"origin": page.origin})
	if strings.Contains(fmt.Sprint(rt.overview().Sites), page.origin) {
		t.Errorf("revoked, and still listed")
	}
}
