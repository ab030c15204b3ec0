package main

// A real browser for tests: headless Chromium, driven through its WebDriver
// program over plain HTTP.

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// enterKey is the Enter key as the driver names it.
const enterKey = "\uE007"

// browser is one browser with one window.
type browser struct {
	t       testing.TB
	session string // address of its WebDriver session
	profile string // its folder, by which its processes are known
	driver  *exec.Cmd
}

// oneBrowser is held by the test that has a browser: several at once are too
// much for a small machine, and give up before they have started.
var oneBrowser sync.Mutex

// startBrowser starts a browser and ends it with the test, which is skipped
// where there is none. A test has one browser.
func startBrowser(t testing.TB, flags ...string) *browser {
	t.Helper()
	program, err1 := exec.LookPath("chromium")
	driver, err2 := exec.LookPath("chromedriver")
	if err1 != nil || err2 != nil {
		t.Skip("this test needs Chromium and its driver: sudo apt-get install chromium chromium-driver")
	}
	oneBrowser.Lock()
	t.Cleanup(oneBrowser.Unlock)
	b := &browser{t: t, profile: filepath.Join(t.TempDir(), "browser-profile")}
	home := t.TempDir()
	b.driver = exec.Command(driver, "--port=0")
	b.driver.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home)
	b.driver.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	said := newConsole()
	b.driver.Stdout, b.driver.Stderr = said, said
	if err := b.driver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.end)
	groups, _ := said.await(t, 0, `started successfully on port (\d+)`)
	driverAddr := "http://127.0.0.1:" + groups[1]
	answer := webDriver[struct {
		SessionID string `json:"sessionId"`
	}](b, "POST", driverAddr+"/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"acceptInsecureCerts": true,
		"goog:chromeOptions": map[string]any{
			"binary": program,
			"args": append([]string{
				"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
				"--disable-background-networking", "--disable-component-update", "--disable-sync",
				"--user-data-dir=" + b.profile, "--window-size=1000,1000",
			}, flags...),
		},
	}}})
	b.session = driverAddr + "/session/" + answer.SessionID
	return b
}

// end ends the browser and its driver, and sees to it that nothing is left.
func (b *browser) end() {
	if b.session != "" {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if r, err := http.NewRequestWithContext(ctx, http.MethodDelete, b.session, nil); err == nil {
			_ = send(r)
		}
	}
	_ = syscall.Kill(-b.driver.Process.Pid, syscall.SIGKILL)
	_ = b.driver.Wait()
	for late := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		left := processesNaming(b.profile)
		if len(left) == 0 {
			return
		}
		if time.Now().After(late) {
			b.t.Errorf("the browser left the processes %v", left)
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// processesNaming lists the living processes whose command line has the text.
func processesNaming(text string) []int {
	var found []int
	for pid, e := range processTable() {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && !e.zombie && bytes.Contains(line, []byte(text)) {
			found = append(found, pid)
		}
	}
	return found
}

// webDriver makes a request to the driver and returns the answer's value.
func webDriver[T any](b *browser, method, url string, body any) T {
	b.t.Helper()
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			b.t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, url, bytes.NewReader(data))
	if err != nil {
		b.t.Fatal(err)
	}
	reply := send(r)
	if reply.err != nil || reply.status != http.StatusOK {
		b.t.Fatalf("WebDriver %s %s: status %d, %v, %s", method, url, reply.status, reply.err, reply.body)
	}
	return asJSON[struct{ Value T }](b.t, reply).Value
}

// open goes to an address and returns once the page is loaded.
func (b *browser) open(url string) {
	b.t.Helper()
	webDriver[any](b, "POST", b.session+"/frame", map[string]any{"id": nil})
	webDriver[any](b, "POST", b.session+"/url", map[string]string{"url": url})
}

// enterFrame makes what follows happen in the page's first frame, until
// another page is opened.
func (b *browser) enterFrame() {
	b.t.Helper()
	webDriver[any](b, "POST", b.session+"/frame", map[string]int{"id": 0})
}

// evaluate runs the body of a function in the page and returns its result,
// waiting for it when it is a promise.
func evaluate[T any](b *browser, script string, args ...any) T {
	b.t.Helper()
	if args == nil {
		args = []any{}
	}
	return webDriver[T](b, "POST", b.session+"/execute/sync", map[string]any{"script": script, "args": args})
}

// await waits until an expression is true in the page.
func (b *browser) await(expression string) {
	b.t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if evaluate[bool](b, "return Boolean("+expression+")") {
			return
		}
		if time.Now().After(late) {
			b.t.Fatalf("%s did not come true; the page shows:\n%s", expression, evaluate[string](b, "return document.body.innerText"))
		}
	}
}

// click presses the element that a CSS selector finds, as a person does.
func (b *browser) click(selector string) {
	b.t.Helper()
	found := webDriver[map[string]string](b, "POST", b.session+"/element", map[string]string{"using": "css selector", "value": selector})
	for _, id := range found {
		webDriver[any](b, "POST", b.session+"/element/"+id+"/click", map[string]any{})
	}
}

// press presses keys, wherever the focus is.
func (b *browser) press(keys string) {
	b.t.Helper()
	var steps []map[string]string
	for key := range strings.SplitSeq(keys, "") {
		steps = append(steps, map[string]string{"type": "keyDown", "value": key}, map[string]string{"type": "keyUp", "value": key})
	}
	webDriver[any](b, "POST", b.session+"/actions", map[string]any{"actions": []any{
		map[string]any{"type": "key", "id": "keyboard", "actions": steps},
	}})
}

// permit answers the browser's own question whether the present page may
// reach programs on this computer: granted, denied or prompt.
func (b *browser) permit(state string) {
	b.t.Helper()
	webDriver[any](b, "POST", b.session+"/permissions", map[string]any{
		"descriptor": map[string]string{"name": "loopback-network"}, "state": state})
}

// chrome sends a command of the browser's own protocol.
func (b *browser) chrome(command string, params map[string]any) {
	b.t.Helper()
	webDriver[any](b, "POST", b.session+"/goog/cdp/execute", map[string]any{"cmd": command, "params": params})
}

// picture saves what the window shows among the test's artifacts, which are
// kept when the tests run with -artifacts.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	data := webDriver[string](b, "GET", b.session+"/screenshot", nil)
	png, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), png, 0o600); err != nil {
		t.Fatal(err)
	}
}
