package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// pageHost is the course's host in the browser: not loopback by its name.
const pageHost = "course.example.test"

// colourLab has an action that shows colours and a progress bar, and then
// waits to be stopped.
const colourLab = `schema = 1
id = "colour-lab"
title = "Colours and bars"

[actions.show]
label = "Show colours"
description = "Prints colours and a bar that rewrites its line, and runs until it is stopped."
steps = [["python", "show.py"]]
timeout = 600

[actions.fail]
label = "Fail"
steps = [["sh", "-c", "echo before; exit 3"]]
`

const colourProgram = `import signal
print("\033[1;32mgreen and bold\033[0m plain \033[38;5;208morange\033[0m \033[38;2;10;120;200mblue\033[0m")
for percent in range(0, 101, 10):
    print(f"\rbar {'#' * (percent // 10):10} {percent}%", end="")
print()
print("<b>no markup</b> " + "long" * 300)
print("waiting")
signal.pause()
`

// documentedPage is the page of docs/integration.md with the three values
// that an author sets.
func documentedPage(t testing.TB, runtime, repo, commit string) string {
	t.Helper()
	doc, err := os.ReadFile("docs/integration.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```html\n(<!doctype html>.*?\n)```\n").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) != 1 {
		t.Fatalf("docs/integration.md has %d whole pages, want 1", len(blocks))
	}
	page := blocks[0][1]
	for placeholder, value := range map[string]string{
		"http://127.0.0.1:9477 https://127.0.0.1:9478": runtime,
		"https://git.example.org/course/hello-lab.git": repo,
		"0000000000000000000000000000000000000000":     commit,
	} {
		if strings.Count(page, placeholder) != 1 {
			t.Fatalf("the page of docs/integration.md names %s %d times, want once", placeholder, strings.Count(page, placeholder))
		}
		page = strings.Replace(page, placeholder, value, 1)
	}
	return page
}

// course is a course's site that serves the documented page, and a browser in
// which the site is on the public internet.
type course struct {
	*browser
	url    string
	origin string
	rt     *testRuntime
}

func newCourse(t *testing.T) *course {
	t.Helper()
	git := newGitServer(t)
	repo, commit := git.addRepo("colours.git", map[string]string{"lab.toml": colourLab, "show.py": colourProgram})
	rt := startRuntime(t, withGit(git))
	page := documentedPage(t, rt.addr, repo, commit)
	return openCourse(t, rt, page)
}

// openCourse is a course with a page.
func openCourse(t *testing.T, rt *testRuntime, page string) *course {
	t.Helper()
	web := httptest.NewTLSServer(courseSite(t, func(*http.Request) string { return page }))
	t.Cleanup(web.Close)
	addr := web.Listener.Addr().(*net.TCPAddr)
	c := &course{rt: rt, origin: fmt.Sprintf("https://%s:%d", pageHost, addr.Port)}
	c.url = c.origin + "/lab"
	c.browser = startBrowser(t, "--ignore-certificate-errors",
		"--host-resolver-rules=MAP "+pageHost+" 127.0.0.1",
		"--ip-address-space-overrides="+addr.String()+"=public")
	return c
}

// courseSite serves pages, and beside them the module that they use.
func courseSite(t testing.TB, page func(*http.Request) string) http.Handler {
	t.Helper()
	module, err := os.ReadFile("docs/client.js")
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/client.js" {
			w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
			_, _ = w.Write(module)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, page(r))
	})
}

// text is what an element shows.
func (c *course) text(selector string) string {
	c.t.Helper()
	return evaluate[string](c.browser, "return document.querySelector(arguments[0]).textContent", selector)
}

// awaitOutput waits until the page shows a text in the output.
func (c *course) awaitOutput(text string) {
	c.t.Helper()
	c.await(fmt.Sprintf("document.getElementById('output').innerText.includes(%q)", text))
}

// awaitState waits until the page is ready, busy or stopped.
func (c *course) awaitState(state string) {
	c.t.Helper()
	c.await(fmt.Sprintf("document.querySelector('main').dataset.state === %q", state))
}

// output is what the page shows of a run, line by line.
func (c *course) output() []string {
	c.t.Helper()
	return evaluate[[]string](c.browser, "return [...document.getElementById('output').children].map((line) => line.textContent)")
}

// asked reports whether the terminal has asked anything after from.
func (c *course) asked(from int) bool {
	return strings.Contains(c.rt.screen.String()[from:], terminalPrompt)
}

func TestDocumentedPageWorksInABrowser(t *testing.T) {
	t.Parallel()
	c := newCourse(t)
	c.open(c.url)

	c.permit("denied")
	c.click("#connect")
	c.awaitState("stopped")
	if status := c.text("#status"); !strings.Contains(status, "browser keeps this page") {
		t.Errorf("where the browser refuses, the page says %q", status)
	}

	c.permit("granted")
	c.pairAndPrepare(t)
	c.picture(t, "prepared")
	c.runAndReload(t)

	from := c.rt.shown()
	c.open(c.url)
	c.awaitState("ready")
	c.await("!document.querySelector('#actions button').disabled")
	c.click("[data-action=fail]")
	c.await("document.getElementById('run-status').textContent === 'Failed with exit status 3'")
	if c.asked(from) {
		t.Errorf("a further visit asked:\n%s", c.rt.screen.String()[from:])
	}

	if _, code := c.rt.command("pairing", "revoke", c.origin); code != exitDone {
		t.Errorf("revoking: exit %d", code)
	}
	c.click("[data-action=fail]")
	c.awaitState("stopped")
	from = c.rt.shown()
	c.open(c.url)
	c.awaitState("stopped")
	if status := c.text("#status"); c.asked(from) || !strings.Contains(status, "no access") {
		t.Errorf("a visit after access was taken away says %q and asked:\n%s", status, c.rt.screen.String()[from:])
	}
	c.pairAndPrepare(t)

	c.rt.end(syscall.SIGTERM)
	c.open(c.url)
	c.awaitState("stopped")
	if status := c.text("#status"); !strings.Contains(status, "not running") {
		t.Errorf("without a runtime the page says %q", status)
	}
}

// pairAndPrepare connects by the keyboard, with the person saying yes to both
// questions.
func (c *course) pairAndPrepare(t *testing.T) {
	t.Helper()
	from := c.rt.shown()
	evaluate[any](c.browser, "document.getElementById('connect').focus()")
	c.press(enterKey)
	question := c.rt.answerNext(from, "y\n")
	if !strings.Contains(question, c.origin) || !strings.Contains(question, "Access: actions - this site could "+scopeActions.text()) {
		t.Errorf("pairing asked %q", question)
	}
	if question = c.rt.answerNext(from+len(question), "y\n"); !strings.Contains(question, "python show.py") {
		t.Errorf("the lab's question is %q", question)
	}
	c.awaitState("ready")
	c.await("document.activeElement.dataset.action === 'show'")
}

// runAndReload runs an action, loads the page anew meanwhile, and stops it.
func (c *course) runAndReload(t *testing.T) {
	t.Helper()
	c.press(enterKey) // on the first action, which has the focus
	c.awaitOutput("waiting")
	whole := c.output()
	c.checkOutput(t, whole)
	c.checkLooks(t)

	c.open(c.url)
	c.awaitOutput("waiting")
	if again := c.output(); !slices.Equal(again, whole) {
		t.Errorf("after a reload the page shows\n%q\nwant\n%q", again, whole)
	}
	status := evaluate[int](c.browser, `return fetch(arguments[0] + '/cell/run', {
		method: 'POST', body: '{"lab_id": "a", "code": "1"}',
		headers: {'Content-Type': 'application/json', Authorization: 'Bearer ' + localStorage.getItem('agent-runtime-token ' + arguments[0])},
	}).then((answer) => answer.status)`, c.rt.addr)
	if status != http.StatusForbidden {
		t.Errorf("a page with the scope actions gets %d from /cell/run, want 403", status)
	}
	c.click("#stop")
	c.await("document.getElementById('run-status').textContent === 'Stopped'")
	c.awaitOutput("[stopped · ")
}

func (c *course) checkOutput(t *testing.T, lines []string) {
	t.Helper()
	want := []string{"$ python show.py", "green and bold plain orange blue", "bar ########## 100%",
		"<b>no markup</b> " + strings.Repeat("long", 300), "waiting", ""}
	if !slices.Equal(lines, want) {
		t.Errorf("the page shows\n%q\nwant\n%q", lines, want)
	}
	spans := evaluate[[]string](c.browser, `return [...document.querySelectorAll('#output span')].map(
		(s) => s.textContent + '|' + s.style.color + '|' + s.style.fontWeight)`)
	if want := []string{"green and bold|var(--c2)|bold", "orange|rgb(255, 135, 0)|", "blue|rgb(10, 120, 200)|"}; !slices.Equal(spans, want) {
		t.Errorf("colours are %q, want %q", spans, want)
	}
}

// checkLooks looks at the page in both colour schemes and in a narrow window,
// which it must not be wider than.
func (c *course) checkLooks(t *testing.T) {
	t.Helper()
	evaluate[any](c.browser, "document.getElementById('output').scrollTop = 0")
	for _, scheme := range []string{"light", "dark"} {
		c.chrome("Emulation.setEmulatedMedia", map[string]any{"features": []any{
			map[string]string{"name": "prefers-color-scheme", "value": scheme}}})
		c.picture(t, "running-"+scheme)
	}
	c.chrome("Emulation.setDeviceMetricsOverride", map[string]any{"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": false})
	c.picture(t, "running-narrow")
	if wide := evaluate[int](c.browser, "return document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("in a window of 360 pixels the page is %d wide", wide)
	}
	c.chrome("Emulation.clearDeviceMetricsOverride", map[string]any{})
}

// blankPage opens the documented page, which is not connected to anything,
// and lets tests use its terminal.
func blankPage(t *testing.T) *browser {
	t.Helper()
	page := documentedPage(t, "http://127.0.0.1:1", "https://git.example.test/lab.git", strings.Repeat("1", 40))
	page = strings.Replace(page, "\n</script>", "\nwindow.Screen = Screen;\n</script>", 1)
	web := httptest.NewServer(courseSite(t, func(*http.Request) string { return page }))
	t.Cleanup(web.Close)
	b := startBrowser(t)
	b.open(web.URL)
	return b
}

func TestDocumentedPageTellsWhyItIsNotConnected(t *testing.T) {
	t.Parallel()
	b := blankPage(t)
	good := map[string]any{"runtime_version": "1", "protocol_version": protocolVersion, "capabilities": []string{"lab_actions"}}
	old := map[string]any{"runtime_version": "1", "protocol_version": "2020-01", "capabilities": []string{"lab_actions"}}
	bare := map[string]any{"runtime_version": "1", "protocol_version": protocolVersion, "capabilities": []string{}}
	tests := []struct {
		name       string
		info       any
		something  bool
		permission string
		safari     bool
		kind, text string
	}{
		{"fine", good, false, "granted", false, "fine", ""},
		{"another protocol", old, false, "granted", false, "wrong-version", "2020-01"},
		{"no git", bare, false, "granted", false, "wrong-version", "doctor"},
		{"refused for good", nil, false, "denied", false, "refused", "site settings"},
		{"in a frame without the permission", nil, false, "framed", false, "refused", "page around"},
		{"asked and not answered", nil, false, "prompt", false, "refused", "Choose Allow"},
		{"a browser that needs the certificate", nil, false, "unknown", true, "unsupported", "agent-runtime tls setup"},
		{"another program", nil, true, "granted", false, "wrong-version", "Another program"},
		{"nothing there", nil, false, "granted", false, "not-running", "agent-runtime serve"},
		{"nothing there, and a browser that does not ask", nil, false, "unknown", false, "not-running", "agent-runtime serve"},
	}
	told := make(map[string]string)
	for _, test := range tests {
		got := evaluate[struct{ Kind, Text string }](b, "return import('/client.js').then((module) => module.diagnose(arguments[0]))", map[string]any{
			"info": test.info, "needs": "lab_actions", "something": test.something, "permission": test.permission, "safari": test.safari})
		if got.Kind != test.kind || !strings.Contains(got.Text, test.text) {
			t.Errorf("%s: the page says %+v, want %s and %q", test.name, got, test.kind, test.text)
		}
		if kind, ok := told[got.Text]; ok && kind != got.Kind {
			t.Errorf("%s and %s are told in the same words", kind, got.Kind)
		}
		told[got.Text] = got.Kind
	}
}

func TestDocumentedPageShowsWhatTerminalsShow(t *testing.T) {
	t.Parallel()
	b := blankPage(t)
	checkScreen(t, b)
	colours := evaluate[[]string](b, `const box = document.createElement('div');
		new Screen(box).write('\x1b[31;44ma\x1b[7mb\x1b[m\x1b[38:2::1:2:3mc\x1b[0;48;5;16md\x1b[4:3;1me\x1b[0m\x1b[95mf');
		return [...box.querySelectorAll('span')].map((s) => [s.textContent, s.style.color, s.style.backgroundColor, s.style.textDecoration].join('|'))`)
	want := []string{"a|var(--c1)|var(--c4)|", "b|var(--c4)|var(--c1)|", "c|rgb(1, 2, 3)||", "d||rgb(0, 0, 0)|", "e||rgb(0, 0, 0)|underline", "f|var(--c13)||"}
	if !slices.Equal(colours, want) {
		t.Errorf("colours are %q, want %q", colours, want)
	}
}

// checkScreen wants the page's class Screen to show in a box, line by line,
// what a terminal would show.
func checkScreen(t *testing.T, b *browser) {
	t.Helper()
	tests := []struct {
		name   string
		writes []string
		lines  []string
	}{
		{"text", []string{"one\ntwo"}, []string{"one", "two"}},
		{"windows line ends", []string{"one\r\ntwo\r\n"}, []string{"one", "two", ""}},
		{"a line rewritten", []string{"10%", "\r20%", "\r100%\n"}, []string{"100%", ""}},
		{"a shorter rewrite", []string{"long line\rshort"}, []string{"shortline"}},
		{"a rewrite that erases", []string{"long line\r\x1b[Kshort"}, []string{"short"}},
		{"a sequence in two parts", []string{"a\x1b[3", "1mb\x1b", "[0mc"}, []string{"abc"}},
		{"bars on two lines", []string{"a 1\nb 1\n\x1b[2Aa 2\x1b[B\rb 2\n"}, []string{"a 2", "b 2", ""}},
		{"backspace", []string{"ab\bc"}, []string{"ac"}},
		{"tab", []string{"a\tb"}, []string{"a       b"}},
		{"a title and a link", []string{"\x1b]0;title\x07a\x1b]8;;https://x.test\x1b\\b\x1b]8;;\x1b\\c"}, []string{"abc"}},
		{"a sequence in two parts that is a link", []string{"a\x1b]8;;https://x", ".test\x07b"}, []string{"ab"}},
		{"markup", []string{"<img src=x onerror=alert(1)>&amp;"}, []string{"<img src=x onerror=alert(1)>&amp;"}},
		{"letters beyond ASCII", []string{"\U0001F600é\rx"}, []string{"xé"}},
		{"a very long line", []string{strings.Repeat("x", 9000)}, []string{strings.Repeat("x", 4000), strings.Repeat("x", 4000), strings.Repeat("x", 1000)}},
		{"a far column", []string{"\x1b[99999C\x1b[99999Gx"}, []string{strings.Repeat(" ", 3999) + "x"}},
	}
	for _, test := range tests {
		got := evaluate[[]string](b, `const box = document.createElement('div');
			const screen = new Screen(box);
			for (const text of arguments[0]) screen.write(text);
			return [...box.children].map((line) => line.textContent)`, test.writes)
		if !slices.Equal(got, test.lines) {
			t.Errorf("%s: shows %.200q, want %.200q", test.name, got, test.lines)
		}
	}
	for _, begin := range []string{"\x1b]0;", "\x1b_", "\x1b[1;"} {
		got := evaluate[string](b, `const box = document.createElement('div');
			const screen = new Screen(box);
			screen.write(arguments[0] + '1;'.repeat(9000) + 'the end');
			return box.textContent`, begin)
		if !strings.HasSuffix(got, "the end") {
			t.Errorf("after %q and what is longer than any sequence the screen shows %.20q", begin, got)
		}
	}
	lines := evaluate[int](b, `const box = document.createElement('div');
		const screen = new Screen(box);
		for (let i = 0; i < 100; i++) screen.write('line\n'.repeat(100));
		return box.childElementCount`)
	if lines != 5000 {
		t.Errorf("of 10000 lines %d are kept, want 5000", lines)
	}
}

// A page in a frame may reach the runtime only when the outer page passes the
// browser's permission on, by the names that the document gives.
func TestFrameNeedsTheOuterPageToDelegate(t *testing.T) {
	t.Parallel()
	allow := regexp.MustCompile(`<iframe [^>]*allow="([^"]*)"`).FindStringSubmatch(readDoc(t, "docs/integration.md"))
	if allow == nil {
		t.Fatal("docs/integration.md shows no frame with the attribute allow")
	}
	page := documentedPage(t, "http://127.0.0.1:1", "https://git.example.test/lab.git", strings.Repeat("1", 40))
	web := httptest.NewTLSServer(courseSite(t, func(r *http.Request) string {
		if r.URL.Path == "/frame" {
			return page
		}
		_, port, _ := net.SplitHostPort(r.Host)
		return fmt.Sprintf(`<iframe src="https://%s:%s/frame" allow="%s"></iframe>`, pageHost, port, r.URL.Query().Get("allow"))
	}))
	t.Cleanup(web.Close)
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	b := startBrowser(t, "--ignore-certificate-errors", "--host-resolver-rules=MAP *.example.test 127.0.0.1")
	for _, test := range []struct{ allow, want string }{{"", "framed"}, {allow[1], "prompt"}} {
		b.open("https://school.example.test:" + port + "/?allow=" + url.QueryEscape(test.allow))
		b.enterFrame()
		if got := evaluate[string](b, "return import('/client.js').then((module) => module.permission())"); got != test.want {
			t.Errorf("in a frame with allow=%q the permission is %q, want %q", test.allow, got, test.want)
		}
	}
}
