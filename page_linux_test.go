package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ownPageBrowser is a browser that shows the runtime's own page.
type ownPageBrowser struct {
	*browser
	rt  *testRuntime
	axe string // a program that checks how accessible a page is
}

func newOwnPageBrowser(t *testing.T, rt *testRuntime, flags ...string) *ownPageBrowser {
	t.Helper()
	axe, err := os.ReadFile(filepath.Join(npmFolder(t), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	b := &ownPageBrowser{startBrowser(t, flags...), rt, string(axe)}
	b.scheme("light")
	b.open(rt.addr + "/")
	b.await("document.getElementById('state').dataset.state === 'answers'")
	return b
}

// scheme makes the browser's person prefer light or dark.
func (b *ownPageBrowser) scheme(name string) {
	b.t.Helper()
	b.chrome("Emulation.setEmulatedMedia", map[string]any{"features": []any{
		map[string]string{"name": "prefers-color-scheme", "value": name},
		map[string]string{"name": "prefers-reduced-motion", "value": "reduce"}}})
}

// checkLooks takes pictures of the whole page, and wants it accessible in both
// colour schemes and no wider than the window.
func (b *ownPageBrowser) checkLooks(t *testing.T, name string) {
	t.Helper()
	evaluate[any](b.browser, b.axe)
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, width := range []int{360, 1280} {
			b.chrome("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false})
			if wide := evaluate[int](b.browser, "return document.documentElement.scrollWidth"); wide > width {
				t.Errorf("%s: in a window of %d pixels the page is %d wide", name, width, wide)
			}
			height := evaluate[int](b.browser, "return document.documentElement.scrollHeight")
			b.chrome("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
			b.picture(t, fmt.Sprintf("own-page-%s-%s-%d", name, scheme, width))
			b.checkAccessible(t, fmt.Sprintf("%s, %s, %d pixels", name, scheme, width))
		}
	}
	b.chrome("Emulation.clearDeviceMetricsOverride", map[string]any{})
}

// checkAccessible wants axe to find nothing wrong with the page as it is.
func (b *ownPageBrowser) checkAccessible(t *testing.T, name string) {
	t.Helper()
	found := evaluate[[]string](b.browser, `return axe.run(document, {resultTypes: ['violations']}).then((result) =>
		result.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html + ' ' + n.failureSummary).join('\n')))`)
	if len(found) > 0 {
		t.Errorf("%s: not accessible:\n%s", name, strings.Join(found, "\n"))
	}
}

// section is what a section of the page shows.
func (b *ownPageBrowser) section(id string) string {
	b.t.Helper()
	return evaluate[string](b.browser, "return document.getElementById(arguments[0]).innerText", id)
}

// awaitIn waits until a section shows a text.
func (b *ownPageBrowser) awaitIn(id, text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("document.getElementById(%q).innerText.includes(%q)", id, text))
}

// take presses the button of a section's first item that ends it or takes it
// back, by the keyboard, and says yes to the question that comes.
func (b *ownPageBrowser) take(section string) {
	b.t.Helper()
	evaluate[any](b.browser, "document.querySelector(`#${arguments[0]} button.take:not([hidden])`).focus()", section)
	b.press(enterKey)
	if got := b.focus(); !strings.HasPrefix(got, "Keep") {
		b.t.Errorf("%s: the focus is on %q before anything is done, want Keep", section, got)
	}
	evaluate[any](b.browser, "document.querySelector(`#${arguments[0]} .confirm:not([hidden]) button.sure`).focus()", section)
	b.press(enterKey)
}

// focus is the text of what has the focus, with its kind.
func (b *ownPageBrowser) focus() string {
	b.t.Helper()
	return evaluate[string](b.browser, "return document.activeElement.textContent + ' <' + document.activeElement.localName + '>'")
}

// announced is what those were told last who do not see the page.
func (b *ownPageBrowser) announced() string {
	b.t.Helper()
	return evaluate[string](b.browser, "return document.getElementById('announce').textContent")
}

// busyRuntime has something of everything that the page shows.
func busyRuntime(t *testing.T) (rt *testRuntime, page site, lab prepared) {
	t.Helper()
	git := newGitServer(t)
	repo, commit := git.addRepo("colours.git", map[string]string{"lab.toml": colourLab, "show.py": colourProgram})
	dir := filepath.Join(reachableFolder(t), "data")
	put(t, filepath.Join(dir, "config.toml"), "[environment]\nsystem_site_packages = true\n"+sandboxConfigText)
	rt = startRuntime(t, withDir(dir), withGit(git), withPython(quickPython(t, "")))
	if out, code := rt.command("learner", "add", adult, "--age", "30"); code != exitDone {
		t.Fatalf("learner add: %s", out)
	}
	page = rt.pair("https://course.example", scopeCode)
	rt.clientToken("grader", scopeActions)
	return rt, page, page.prepare(repo, commit)
}

func TestOwnPageShowsWhatRunsAndTakesItBack(t *testing.T) {
	t.Parallel()
	rt, page, lab := busyRuntime(t)
	b := newOwnPageBrowser(t, rt)
	page.run(lab, "fail")
	run := page.start(lab, "show")
	page.want(http.StatusOK, "POST", "/cell/run", map[string]any{"lab_id": "notebook", "code": "1 + 1"})
	page.sandbox(map[string]any{"task_id": "bridge"})
	b.open(rt.addr + "/")
	b.awaitIn("runs", "waiting") // the run's output opens by itself
	asking := site{rt: rt, origin: "https://other.example"}.later("POST", "/pairing/request", map[string]any{"scope": scopeActions})
	b.awaitIn("questions", "https://other.example")
	b.awaitIn("questions", "type y or n")
	next := site{rt: rt, origin: "https://next.example"}.later("POST", "/pairing/request", map[string]any{"scope": scopeActions})
	b.awaitIn("questions", "https://next.example")
	if shown := evaluate[string](b.browser, "return document.querySelectorAll('#questions li')[1].innerText"); strings.Contains(shown, "type y") || !strings.Contains(shown, "does not answer it") {
		t.Errorf("of a question that the terminal does not show yet the page says %q", shown)
	}
	if got := b.announced(); got != "A question is open in the terminal: A web page asks to use this computer" {
		t.Errorf("announced is %q", got)
	}
	b.awaitIn("environments", "on the disk")
	b.awaitIn("sandboxes", "on the disk")
	b.awaitIn("checks", "sandboxes")
	checkOwnOutput(t, b)
	for section, wants := range map[string][]string{
		"questions":    {"A web page asks to use this computer", "agent-runtime approve ", "in the terminal"},
		"runs":         {"show", "Running", "fail", "Failed, exit 3", "https://course.example"},
		"kernels":      {"notebook", "Idle", "MB of memory"},
		"sandboxes":    {adult, "bridge"},
		"sites":        {"https://course.example", "code", scopeCode.text(), "last used "},
		"clients":      {"grader", "actions", "never used"},
		"labs":         {"colours.git", "1 approved version"},
		"environments": {lab.LabID, "Python 3.", "In use: the action \"show\""},
		"computer":     {rt.addr, rt.dir, "required", "git", "agent-runtime answers on"},
	} {
		shown := b.section(section)
		for _, want := range wants {
			if !strings.Contains(shown, want) {
				t.Errorf("%s lacks %q:\n%s", section, want, shown)
			}
		}
	}
	b.click("#labs summary")
	b.awaitIn("labs", "$ python show.py")
	b.checkLooks(t, "full")
	b.takeAll(t, run)
	wantReply(t, "the pairing", asking, http.StatusServiceUnavailable)
	wantReply(t, "the next pairing", next, http.StatusServiceUnavailable)
}

// takeAll takes back all that a busy runtime has, and ends it.
func (b *ownPageBrowser) takeAll(t *testing.T, run runState) {
	t.Helper()
	evaluate[any](b.browser, "document.getSelection().selectAllChildren(document.querySelector('#sites .title'))")
	b.take("environments")
	b.awaitIn("environments", "cannot be deleted now")
	b.checkAccessible(t, "a question that was answered and a refusal")
	b.picture(t, "own-page-refusal")
	b.press("\uE00C") // Escape
	if got := b.focus(); !strings.HasPrefix(got, "Delete") {
		t.Errorf("after Escape the focus is on %q, want Delete", got)
	}
	b.take("runs")
	b.awaitIn("runs", "Stopped")
	b.awaitIn("runs", "[stopped · ")
	b.await("document.activeElement.textContent.startsWith('Output')")
	if got := evaluate[string](b.browser, "return document.getSelection().toString()"); !strings.HasPrefix(got, "https://course.example") {
		t.Errorf("the selection became %q while the page brought itself up to date", got)
	}
	if r := asJSON[runState](t, b.rt.ownPage().want(http.StatusOK, "GET", "/manage/runs/"+run.RunID, nil)); r.Status != "stopped" {
		t.Errorf("run %+v", r)
	}
	for _, c := range []struct{ section, said string }{
		{"kernels", "No Python kernel runs"}, {"sandboxes", "No sandbox is active"}, {"labs", "No lab is approved"},
		{"clients", "No program on this computer has a token"}, {"sites", "No site has access"},
	} {
		b.take(c.section)
		b.awaitIn(c.section, c.said)
		if got := b.focus(); !strings.HasSuffix(got, "<h2>") {
			t.Errorf("%s: after the last item the focus is on %q, want the heading", c.section, got)
		}
	}
	if o := b.rt.overview(); len(o.Kernels)+len(o.Sandboxes)+len(o.Labs)+len(o.Clients)+len(o.Sites) > 0 {
		t.Errorf("after all was taken back: %+v", o)
	}
	b.take("environments")
	b.await("document.querySelectorAll('#environments .items > li').length === 1")
	if got := b.focus(); !strings.HasPrefix(got, "Delete") {
		t.Errorf("after the first of two environments the focus is on %q, want the other's Delete", got)
	}
	b.rt.end(syscall.SIGTERM)
	b.await("!document.getElementById('trouble').hidden")
	if got := b.announced(); !strings.Contains(got, "does not answer") {
		t.Errorf("announced is %q", got)
	}
	b.checkLooks(t, "silent")
}

// checkOwnOutput looks at how the page shows what colourProgram writes.
func checkOwnOutput(t *testing.T, b *ownPageBrowser) {
	t.Helper()
	lines := evaluate[[]string](b.browser, "return [...document.querySelectorAll('#runs .screen:not([hidden]) > div')].map((line) => line.textContent)")
	want := []string{"$ python show.py", "green and bold plain orange blue", "bar ########## 100%",
		"<b>no markup</b> " + strings.Repeat("long", 300), "waiting", ""}
	if !slices.Equal(lines, want) {
		t.Errorf("the page shows\n%q\nwant\n%q", lines, want)
	}
	spans := evaluate[[]string](b.browser, `return [...document.querySelectorAll('#runs .screen span')].map((s) => s.textContent + '|' + s.style.color + '|' + s.className)`)
	if want := []string{"green and bold|rgb(92, 198, 118)|bold", "orange|rgb(255, 135, 0)|", "blue|rgb(35, 134, 206)|"}; !slices.Equal(spans, want) {
		t.Errorf("colours are %q, want %q", spans, want)
	}
}

func TestOwnPageOfAFreshRuntimeSaysWhatToDoFirst(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	giveCertificate(t, dir, mustCertificate(t, time.Now()), 0o600)
	rt := startRuntime(t, withDir(dir), withEnv("AGENT_RUNTIME_HTTPS_PORT=0"))
	b := newOwnPageBrowser(t, rt)
	b.awaitIn("checks", "state file")
	for section, want := range map[string]string{
		"questions": "Nobody asks", "runs": "Start an action", "kernels": "first cell", "sandboxes": "learner add", "sites": "Open a course page",
		"clients": "token create", "labs": "shows you every command", "environments": "env create",
	} {
		if shown := b.section(section); !strings.Contains(shown, want) {
			t.Errorf("%s lacks %q:\n%s", section, want, shown)
		}
	}
	evaluate[any](b.browser, "document.getElementById('examine').focus()")
	b.press(enterKey)
	b.await("document.getElementById('verdict').textContent.startsWith('The runtime can') && !document.getElementById('examine').ariaDisabled")
	if got := b.focus(); !strings.HasPrefix(got, "Check again") {
		t.Errorf("after looking again the focus is on %q, want Check again", got)
	}
	b.checkLooks(t, "empty")
	secure := rt.overview().Addresses[1]
	b.open(secure + "/")
	b.await("document.getElementById('state').dataset.state === 'answers'")
	b.awaitIn("computer", secure)
}

func TestOwnPageShowsWhatTerminalsShow(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t, withEnv("AGENT_RUNTIME_REQUIRE_PAIRING=false"))
	b := startBrowser(t)
	b.open(rt.addr + "/")
	b.await("document.getElementById('content').innerText.includes('Pairing is switched off')")
	evaluate[any](b, "return import('/page/terminal.js').then((module) => { window.Screen = module.Terminal; })")
	checkScreen(t, b)
	drawn := evaluate[[]string](b, `const box = document.createElement('div');
		new Screen(box).write('\x1b[31;44ma\x1b[7mb\x1b[m\x1b[38:2::200:210:220mc\x1b[0;48;5;231;30md\x1b[4:3;1me\x1b[0m\x1b[38;2;20;30;40mf\x1b[0;3;9mg\x1b[?25l\x1b[22mh\x1b[0mi');
		return [...box.querySelectorAll('span')].map((s) => [s.textContent, s.style.color, s.style.backgroundColor, s.className].join('|'))`)
	want := []string{
		"a|rgb(72, 34, 32)|rgb(106, 166, 242)|", "b|rgb(21, 33, 48)|rgb(240, 112, 106)|", "c|rgb(200, 210, 220)||",
		"d|rgb(58, 65, 74)|rgb(255, 255, 255)|", "e|rgb(58, 65, 74)|rgb(255, 255, 255)|bold underline", "f|rgb(138, 143, 148)||",
		"g|rgb(223, 228, 233)||italic strike", "h|rgb(223, 228, 233)||italic strike",
	}
	if !slices.Equal(drawn, want) {
		t.Errorf("drawn is\n%q\nwant\n%q", drawn, want)
	}
	pieces := evaluate[int](b, `const box = document.createElement('div');
		new Screen(box).write(('\x1b[31mx\x1b[32mx'.repeat(50) + '\n').repeat(1000));
		return box.querySelectorAll('span').length`)
	if pieces < 50_000 || pieces > 80_000 {
		t.Errorf("of 100000 pieces in colour %d are kept, want 50000 and those of the last lines", pieces)
	}
}

// A site that frames the page, or asks for what the page asks for, gets
// nothing of it.
func TestForeignSiteGetsNothingOfTheOwnPage(t *testing.T) {
	t.Parallel()
	rt := startRuntime(t)
	rt.clientToken("secret-name", scopeCode)
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<title>foreign</title><iframe src='"+rt.addr+"/'></iframe>")
	}))
	t.Cleanup(web.Close)
	b := startBrowser(t, "--ignore-certificate-errors", "--host-resolver-rules=MAP "+pageHost+" 127.0.0.1")
	_, port, _ := strings.Cut(strings.TrimPrefix(web.URL, "https://"), ":")
	for _, site := range []string{"https://" + pageHost + ":" + port, "https://localhost:" + port} {
		b.open(site + "/")
		if strings.HasPrefix(site, "https://"+pageHost) {
			b.permit("granted")
		}
		got := evaluate[[]string](b, `const [addr, attempts] = arguments;
			return Promise.all(attempts.map(([method, path, mode, type]) => fetch(addr + path, {
				method, mode, body: method === 'POST' ? '{"name": "secret-name"}' : undefined, headers: type ? {'Content-Type': type} : {},
			}).then(async (answer) => answer.type + ' ' + answer.status + ' ' + await answer.text(), (error) => error.name)))`,
			rt.addr, [][]string{
				{"GET", "/manage/overview", "cors", ""}, {"GET", "/manage/overview", "no-cors", ""},
				{"POST", "/manage/clients/revoke", "cors", "application/json"}, {"POST", "/manage/clients/revoke", "no-cors", "text/plain"},
			})
		if want := []string{"TypeError", "TypeError", "TypeError", "TypeError"}; !slices.Equal(got, want) {
			t.Errorf("%s gets %q, want %q", site, got, want)
		}
		b.enterFrame()
		if framed := evaluate[string](b, "return document.body.innerText + document.querySelectorAll('section').length"); strings.Contains(framed, "in your name") || !strings.HasSuffix(framed, "0") {
			t.Errorf("%s frames the page: %s", site, framed)
		}
	}
	b.open(rt.addr + "/")
	b.await("document.getElementById('clients').innerText.includes('secret-name')")
}
