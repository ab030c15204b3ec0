package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const modulePage = `<!doctype html><title>Module</title><script type="module">
import * as client from './client.js';
window.client = client;
</script>`

// begin starts the body of an asynchronous function in the page, which may
// take as long as it likes.
func (c *course) begin(body string, args ...any) {
	c.t.Helper()
	evaluate[any](c.browser, `window.step = null;
		(async (...args) => {`+body+`})(...arguments).then((value) => { window.step = { value: value ?? null }; },
			(error) => { window.step = { error: String(error) }; });`, args...)
}

// result is what the function that begin started returned.
func result[T any](c *course) T {
	c.t.Helper()
	for late := time.Now().Add(5 * patience); ; time.Sleep(20 * time.Millisecond) {
		step := evaluate[*struct {
			Value json.RawMessage
			Error string
		}](c.browser, "return window.step")
		if step == nil && time.Now().Before(late) {
			continue
		}
		if step == nil || step.Error != "" {
			c.t.Fatalf("a step in the page ended with %+v", step)
		}
		return asJSON[T](c.t, reply{body: step.Value})
	}
}

// do is begin and result.
func do[T any](c *course, body string, args ...any) T {
	c.t.Helper()
	c.begin(body, args...)
	return result[T](c)
}

func TestClientModuleIsSmallAndAlone(t *testing.T) {
	t.Parallel()
	module := readDoc(t, "docs/client.js")
	if len(module) >= 10_000 {
		t.Errorf("docs/client.js has %d bytes, want less than 10000", len(module))
	}
	if found := regexp.MustCompile(`(?m)^\s*import\b.*|\bimport\(|\brequire\(|\beval\(|innerHTML`).FindString(module); found != "" {
		t.Errorf("docs/client.js has %q", found)
	}
	if want := "export const protocol = '" + protocolVersion + "';"; !strings.Contains(module, want) {
		t.Errorf("docs/client.js lacks %q", want)
	}
	methods := regexp.MustCompile(`\b([a-zA-Z]+)\(`)
	for _, cells := range tableRows(readDoc(t, "docs/integration.md"), "method") {
		for _, method := range methods.FindAllStringSubmatch(cells[0], -1) {
			if !regexp.MustCompile(`(?m)^  (async )?\*?` + method[1] + `\(`).MatchString(module) {
				t.Errorf("docs/integration.md tells of the method %s, which docs/client.js lacks", method[1])
			}
		}
	}
}

func TestClientModuleWorksInABrowser(t *testing.T) {
	t.Parallel()
	if exec.Command(kernelTestPython, "-c", "import ipykernel").Run() != nil {
		t.Skip("this test needs ipykernel: sudo apt-get install python3-ipykernel")
	}
	git := newGitServer(t)
	repo, commit := git.addRepo("colours.git", map[string]string{"lab.toml": colourLab, "show.py": colourProgram})
	dir := filepath.Join(reachableFolder(t), "data")
	giveCertificate(t, dir, mustCertificate(t, time.Now()), 0o600)
	rt := startRuntime(t, withDir(dir), withConfig(t, "[environment]\nsystem_site_packages = true\n"+sandboxConfigText),
		withGit(git), withEnv("AGENT_RUNTIME_HTTPS_PORT=0"))
	groups, _ := rt.screen.await(t, 0, `with its certificate on (https://127\.0\.0\.1:\d+)`)
	if out, code := rt.command("learner", "add", adult, "--age", "30"); code != exitDone {
		t.Fatalf("learner add: %s", out)
	}
	c := openCourse(t, rt, modulePage)
	c.open(c.url)
	c.await("window.client")
	c.permit("granted")

	c.checkDetection(t, groups[1])
	c.checkPatience(t)
	c.checkToken(t)
	c.connectOverHTTPS(t, groups[1])
	c.checkCells(t)
	c.checkSandboxes(t)
	c.checkRuns(t, repo, commit)
}

func (c *course) checkDetection(t *testing.T, secure string) {
	t.Helper()
	another := httptest.NewServer(http.NotFoundHandler())
	defer another.Close()
	const nobody = "://127.0.0.1:1"
	for _, test := range []struct {
		list          []string
		kind, address string
	}{
		{[]string{c.rt.addr, secure}, "fine", c.rt.addr},
		{[]string{"http" + nobody, secure}, "fine", secure},
		{[]string{another.URL, secure}, "fine", secure},
		{[]string{another.URL, "https" + nobody}, "wrong-version", another.URL},
		{[]string{"http" + nobody, "https" + nobody}, "not-running", "http" + nobody},
	} {
		found := do[struct{ Kind, Text, Address string }](c, "return client.detect(args[0])", test.list)
		if found.Kind != test.kind || found.Address != test.address || (found.Text == "") != (test.kind == "fine") {
			t.Errorf("at %q the module finds %+v, want %s at %s", test.list, found, test.kind, test.address)
		}
	}
	why := do[string](c, "return client.detect(args[0], '', AbortSignal.abort('enough')).catch((reason) => reason)", []string{c.rt.addr})
	if why != "enough" {
		t.Errorf("looking for the runtime, when it is ended, rejects with %q", why)
	}
}

// checkPatience has a runtime that is gone and busy at times.
func (c *course) checkPatience(t *testing.T) {
	t.Helper()
	got := do[struct {
		Output string
		Waits  []float64
		Asked  []string
		Error  map[string]any
		Ended  string
	}](c, `
		const run = (status, output, next_offset) => () => Response.json({ run_id: 'r', status, output, next_offset });
		const busy = (seconds) => () => Response.json({ detail: 'Busy.' }, { status: 503, headers: { 'Retry-After': seconds } });
		const lost = () => { throw new TypeError('Failed to fetch'); };
		let answers = [lost, run('running', 'a', 1), busy(7), lost, lost, run('succeeded', 'b', 2)];
		const real = { fetch, setTimeout }, asked = [], waits = [];
		window.fetch = async (url) => { asked.push(url); return answers.shift()(); };
		window.setTimeout = (resolve) => resolve();
		const store = { getItem: () => null };
		const runtime = new client.AgentRuntime({ list: ['http://runtime.test'], store }).with({ onWait: (error, seconds) => waits.push(seconds) });
		let output = '';
		for await (const run of runtime.follow({ run_id: 'r' })) output += run.output;
		answers = [busy(1), busy(2), busy(3), busy(4), busy(5), busy(6)];
		const error = await runtime.runs({ lab_id: 'a&b' }).catch((error) => error);
		window.setTimeout = () => {};
		answers = [busy(1)];
		const work = new AbortController();
		const ended = runtime.with({ signal: work.signal, onWait: () => real.setTimeout.call(window, () => work.abort('enough')) }).runs({ lab_id: 'a' });
		const why = await ended.catch((reason) => reason);
		Object.assign(window, real);
		return { output, waits, asked, error: { ...error }, ended: why };
	`)
	if got.Output != "ab" || !slices.Equal(got.Waits, []float64{2, 7, 2, 4, 1, 2, 3, 4, 5}) {
		t.Errorf("over lost connections the module yields %q and waits %v seconds", got.Output, got.Waits)
	}
	if got.Error["status"] != 503.0 || got.Error["detail"] != "Busy." || got.Error["retryAfter"] != 6.0 || got.Ended != "enough" {
		t.Errorf("the module gives up with %v, and when it is ended with %q", got.Error, got.Ended)
	}
	if path := "http://runtime.test/labs/runs?lab_id=a%26b"; got.Asked[len(got.Asked)-2] != path || !strings.Contains(got.Asked[5], "/r?offset=1&wait=20") {
		t.Errorf("the module asks %q", got.Asked)
	}
}

// checkToken connects where nothing can be stored, where the person says no,
// where access was taken away, and where nobody may be asked.
func (c *course) checkToken(t *testing.T) {
	t.Helper()
	got := do[[]string](c, `
		const info = { protocol_version: client.protocol, capabilities: ['lab_actions', 'jupyter'] };
		const refused = (status) => Response.json({ detail: 'No.' }, { status });
		const has = (token, scope) => (sent) => (sent === 'Bearer ' + token ? Response.json({ scope }) : refused(sent ? 403 : 401));
		const list = ['http://runtime.test'], storage = Object.getOwnPropertyDescriptor(window, 'localStorage'), real = fetch, told = [];
		const broken = () => { throw new DOMException('nothing is kept here', 'SecurityError'); };
		const kept = (token) => ({ getItem: () => token, removeItem() { token = null; }, setItem(key, value) { token = value; } });
		const full = { ...kept('old'), setItem: broken };
		Object.defineProperty(window, 'localStorage', { get: broken, configurable: true });
		for (const [options, whoami, pair, ask] of [
			[{}, has('new', 'actions'), 200, true],
			[{ store: full }, has('new', 'actions'), 200, true],
			[{ store: kept('old'), scope: 'code' }, has('old', 'actions'), 403, true],
			[{ store: kept('old') }, has('new', 'actions'), 403, true],
			[{ store: kept('old') }, has('new', 'actions'), 200, false],
		]) {
			let asked = 0;
			window.fetch = async (url, request) => {
				if (url.endsWith('info')) return Response.json(info);
				if (url.endsWith('whoami')) return whoami(request.headers.Authorization);
				asked++;
				return pair === 200 ? Response.json({ token: 'new' }) : refused(pair);
			};
			const runtime = new client.AgentRuntime({ list, ...options });
			const connect = () => runtime.connect({ ask }).then(() => 'fine', (error) => error.status ?? error.name);
			told.push([await connect(), runtime.token, pair === 200 ? await connect() : '', asked].join(' '));
		}
		Object.defineProperty(window, 'localStorage', storage);
		window.fetch = real;
		return told;
	`)
	want := []string{"fine new fine 1", "fine new fine 1", "403 old  1", "403   1", "401  401 0"}
	if !slices.Equal(got, want) {
		t.Errorf("connecting gives %q, want %q: how it ended, the token, how it ended again, and the questions", got, want)
	}
}

// connectOverHTTPS pairs where the plain address does not answer, and leaves
// the connected runtime to the steps that follow.
func (c *course) connectOverHTTPS(t *testing.T, secure string) {
	t.Helper()
	from := c.rt.shown()
	c.begin(`
		window.runtime = new client.AgentRuntime({ scope: 'code', list: ['http://127.0.0.1:1', args[0]] });
		const before = runtime.token;
		let asked = 0;
		await runtime.with({ onQuestion: () => asked++ }).connect();
		await runtime.with({ onQuestion: () => asked++ }).connect();
		return [before, runtime.token, runtime.found.address, asked];
	`, secure)
	if question := c.rt.answerNext(from, "y\n"); !strings.Contains(question, c.origin) {
		t.Errorf("pairing asked %q", question)
	}
	if got := result[[]any](c); got[0] != nil || got[1] == "" || got[2] != secure || got[3] != 1.0 {
		t.Errorf("connected with %v, want a token, %s and one question", got, secure)
	}
}

func (c *course) checkCells(t *testing.T) {
	t.Helper()
	if got := do[string](c, "return (await runtime.runCell({ lab_id: 'lab', code: '6 * 7' })).outputs[0].data['text/plain']"); got != "42" {
		t.Errorf("a cell gives %q", got)
	}
	got := do[[]string](c, `
		const code = "import time\nprint('é' * 100000)\nprint('on')\nwhile True: time.sleep(0.01)";
		let text = '', seen = [];
		for await (const event of runtime.streamCell({ lab_id: 'lab', code })) {
			text += event.text ?? '';
			if (event.type === 'stream' && text.endsWith('on\n')) await runtime.interrupt({ lab_id: 'lab' });
			if (event.type !== 'stream') seen.push(event.type + ' ' + (event.ename ?? event.success));
		}
		return [text.length, ...seen].map(String);
	`)
	if want := []string{"100004", "error KeyboardInterrupt", "complete false"}; !slices.Equal(got, want) {
		t.Errorf("a cell that is interrupted streams %q, want %q", got, want)
	}
	why := do[string](c, `
		const work = new AbortController(), events = runtime.with({ signal: work.signal }).streamCell({ lab_id: 'lab', code: "print('on')\nwhile True: time.sleep(0.01)" });
		await events.next();
		work.abort('enough');
		const reason = await events.next().catch((reason) => reason);
		await runtime.interrupt({ lab_id: 'lab' });
		return reason;
	`)
	if why != "enough" {
		t.Errorf("a stream that is ended rejects with %q", why)
	}
}

func (c *course) checkSandboxes(t *testing.T) {
	t.Helper()
	got := do[[]any](c, `
		const box = await runtime.createSandbox({ learner_id: args[0] });
		await runtime.writeFile(box, 'a folder/ü#1.txt', { content: '42\n' });
		const { stdout, returncode } = await runtime.exec(box, { cmd: ['sh', '-c', 'cat "a folder/"*; exit 3'], timeout: 30 });
		const { snapshot_id } = await runtime.snapshot(box);
		const nothing = await runtime.deleteSandbox(box);
		const again = await runtime.createSandbox({ learner_id: args[0], restore: snapshot_id });
		const { files } = await runtime.files(again);
		const { content } = await runtime.readFile(again, 'a folder/ü#1.txt');
		const missing = await runtime.readFile(again, 'none').catch((error) => error);
		await runtime.deleteSandbox(again);
		return [stdout, returncode, nothing, files.join(), content, missing instanceof client.RuntimeError, missing.status];
	`, adult)
	if want := []any{"42\n", 3.0, nil, "a folder/,a folder/ü#1.txt", "42\n", true, 404.0}; !slices.Equal(got, want) {
		t.Errorf("a sandbox gives %v, want %v", got, want)
	}
}

func (c *course) checkRuns(t *testing.T, repo, commit string) {
	t.Helper()
	from := c.rt.shown()
	c.begin(`
		const early = await runtime.start({ lab_id: 'colour-lab', commit: args[1], action: 'show' }).catch((error) => error.status);
		const lab = await runtime.prepare({ repo: args[0], commit: args[1] });
		const started = await runtime.start({ ...lab, action: 'show' });
		let output = '', status = '', stopped;
		for await (const run of runtime.follow(started)) {
			output += run.output;
			status = run.status;
			if (output.includes('waiting')) stopped ??= runtime.stop(run);
		}
		const { runs } = await runtime.runs(lab);
		return [String(early), status, (await stopped).status, runs.length + ' ' + runs[0].run_id.length, output];
	`, repo, commit)
	c.rt.answerNext(from, "y\n")
	got := result[[]string](c)
	if want := []string{"409", "stopped", "stopped"}; !slices.Equal(got[:3], want) || !strings.HasPrefix(got[3], "1 ") || !strings.Contains(got[4], "[stopped · ") {
		t.Errorf("a run gives %q, want %q and its output", got, want)
	}
}
