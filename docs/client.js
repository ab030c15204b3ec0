// agent-runtime on the learner's computer, for a page in their browser. Copy this file beside yours.
//
//   import { AgentRuntime } from './client.js';
//   const runtime = new AgentRuntime({ scope: 'actions' });
//   await runtime.connect();
//   const lab = await runtime.prepare({ repo, commit });
//   const run = await runtime.start({ ...lab, action: 'greet' });
//   for await (const { output } of runtime.follow(run)) show(output);
//
// Bodies and answers are as in protocol.md and sandboxes.md. Show them as text, never as HTML.

export const protocol = '2025-01';

// Where the runtime is, in the order to try. Safari reaches only the second.
export const addresses = ['http://127.0.0.1:9477', 'https://127.0.0.1:9478'];

// RuntimeError has status, 0 without an answer; detail, a sentence for people; retryAfter, in seconds; and of connect, kind
// and link of detect.
export class RuntimeError extends Error {
  constructor(status, detail, more) {
    super(detail);
    Object.assign(this, { status, detail, ...more });
  }
}

const gone = () => new RuntimeError(0, 'agent-runtime does not answer any more.');
const part = encodeURIComponent;

export class AgentRuntime {
  // scope is what the page asks for: actions, code or sandbox. store keeps the token, as localStorage does; where it
  // cannot, the token lasts as long as the page.
  constructor({ scope = 'actions', list = addresses, store } = {}) {
    Object.assign(this, { scope, list, store, key: 'agent-runtime-token ' + list[0], found: { address: list[0] } });
  }

  // with is the same runtime with signal, an AbortSignal; onWait, told (error, seconds) before a request is made again; and
  // onQuestion, told when the terminal asks.
  with(options) { return Object.assign(Object.create(this), options); }

  // token is null before connect has asked.
  get token() { return this.stored('getItem') ?? this.found.token ?? null; }

  keep(token) {
    this.found.token = token;
    this.stored('removeItem');
    if (token) this.stored('setItem', token);
  }

  stored(method, ...value) {
    try {
      return (this.store ?? localStorage)[method](this.key, ...value);
    } catch {}
  }

  // connect finds the runtime and gets access. Call it at the press of a button: browser and terminal may ask. With ask
  // false it throws where the terminal would.
  async connect({ ask = true } = {}) {
    const needs = { actions: 'lab_actions', code: 'jupyter', sandbox: 'sandboxes' }[this.scope];
    Object.assign(this.found, await detect(this.list, needs, this.signal));
    if (this.found.kind !== 'fine') throw new RuntimeError(0, this.found.text, this.found);
    try {
      const { scope } = await this.request('/runtime/whoami');
      if ([this.scope, 'code'].includes(scope)) return;
    } catch (error) {
      if (![401, 403].includes(error.status)) throw error;
      this.keep();
    }
    if (!ask) throw new RuntimeError(401, 'This page has no access yet.');
    this.onQuestion?.();
    this.keep((await this.request('/pairing/request', { scope: this.scope })).token);
  }

  // prepare fetches a lab. At first the terminal asks.
  prepare(body) { return this.request('/labs/prepare', body); }

  // start starts an action. Status 409: prepare again, or another runs.
  start(body) { return this.request('/labs/runs', body); }

  stop({ run_id }) { return this.request(`/labs/runs/${run_id}/stop`, {}); }

  // runs are those of a lab, oldest first, without output.
  runs({ lab_id }) { return this.request('/labs/runs?lab_id=' + part(lab_id)); }

  // follow yields the run with new output, at first all, until it has ended, over lost connections.
  async *follow(run) {
    for (let offset = 0, failures = 0; ;) {
      try {
        run = await this.request(`/labs/runs/${run.run_id}?offset=${offset}&wait=20`);
        failures = 0;
      } catch (error) {
        if (error.status !== 0 && !(error.status > 499)) throw error;
        await this.pause(Math.min(2 ** ++failures, 30), error);
        continue;
      }
      yield run;
      if (run.status !== 'running') return;
      offset = run.next_offset;
    }
  }

  runCell(body) { return this.request('/cell/run', body); }
  interrupt({ lab_id }) { return this.request('/kernel/interrupt?lab_id=' + part(lab_id), {}); }

  // streamCell ends with the type complete.
  async *streamCell(body) {
    const response = await this.send('/cell/run/stream', body);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (let rest = '', event; event?.type !== 'complete';) {
        const { value, done } = await this.answered(reader.read());
        if (done) throw gone();
        rest += value;
        if (!value.includes('\n')) continue;
        const events = rest.split('\n\n');
        rest = events.pop();
        for (const text of events) if (text.startsWith('data: ')) yield event = JSON.parse(text.slice(6));
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  // restore in the body is a snapshot's id.
  createSandbox(body) { return this.request('/v1/sandboxes', body); }
  deleteSandbox(box) { return this.request(inside(box, ''), null, 'DELETE'); }
  snapshot(box) { return this.request(inside(box, '/snapshot'), {}); }

  // exec runs body.cmd. A command that fails is no error.
  exec(box, body) { return this.request(inside(box, '/exec'), body); }
  files(box) { return this.request(inside(box, '/files?recursive=true')); }
  readFile(box, path) { return this.request(inside(box, '/files/', path)); }
  writeFile(box, path, body) { return this.request(inside(box, '/files/', path), body, 'PUT'); }

  // request makes any request, a few times if the answer says when.
  async request(path, body, method) {
    const response = await this.send(path, body, method);
    return response.status === 204 ? null : this.answered(response.json());
  }

  async send(path, body, method = body ? 'POST' : 'GET') {
    for (let tries = 1; ; tries++) {
      const headers = { 'Content-Type': 'application/json' };
      if (this.token) headers.Authorization = 'Bearer ' + this.token;
      const request = { method, headers, signal: this.signal, body: body && JSON.stringify(body) };
      const response = await this.answered(fetch(this.found.address + path, request));
      if (response.ok) return response;
      const { detail } = await this.answered(response.json());
      const retryAfter = Number(response.headers.get('Retry-After'));
      const error = new RuntimeError(response.status, detail, { retryAfter });
      if (!retryAfter || tries > 5) throw error;
      await this.pause(retryAfter, error);
    }
  }

  answered(promise) { return promise.catch(() => { this.signal?.throwIfAborted(); throw gone(); }); }

  pause(seconds, error) {
    this.onWait?.(error, seconds);
    this.signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      setTimeout(resolve, seconds * 1000);
      this.signal?.addEventListener('abort', () => reject(this.signal.reason));
    });
  }
}

const inside = ({ id }, what, path = '') => `/v1/sandboxes/${id}${what}` + path.split('/').map(part).join('/');

// detect finds the address that answers, or why none does: kind is fine, refused (by the browser or the page around this
// one), unsupported, wrong-version or not-running; text and link tell the person what to do.
export async function detect(list = addresses, needs, signal) {
  for (const address of list) {
    try { // no token: who knows who answers
      const info = await (await fetch(address + '/runtime/info', { signal })).json();
      if (info.protocol_version && info.capabilities) return diagnose({ address, info, needs });
    } catch {
      signal?.throwIfAborted();
    }
  }
  // An answer that cannot be read tells of a program all the same.
  const something = await fetch(list[0], { mode: 'no-cors', signal }).then(() => true, () => false);
  const safari = navigator.vendor.startsWith('Apple');
  return diagnose({ address: list[0], something, safari, permission: await permission() });
}

// permission is granted, denied, prompt, framed (the page around this one withholds it) or unknown.
export async function permission() {
  const policy = document.featurePolicy;
  for (const name of ['loopback-network', 'local-network-access']) { // the older name last
    if (policy?.features().includes(name) && !policy.allowsFeature(name)) return 'framed';
    try {
      return (await navigator.permissions.query({ name })).state;
    } catch {}
  }
  return 'unknown';
}

// diagnose gives what detect returns.
export function diagnose({ address, info, needs, something, safari, permission }) {
  const version = info?.protocol_version;
  const [, kind, text, link] = [
    [info && version !== protocol, 'wrong-version', `agent-runtime speaks protocol ${version}, this page ${protocol}. Update agent-runtime.`],
    [info && needs && !info.capabilities.includes(needs), 'wrong-version', `agent-runtime lacks ${needs} here. Type "agent-runtime doctor" in a terminal: it says why.`],
    [info, 'fine', ''],
    [permission === 'framed', 'refused', 'The page around this one keeps it from your computer. Open this page in a tab of its own.'],
    [permission === 'denied', 'refused', 'Your browser keeps this page from your computer. Allow "apps on device" or "local network" in the site settings, and reload the page.'],
    [permission === 'prompt', 'refused', 'Your browser asks whether this page may reach your computer. Choose Allow.'],
    [safari, 'unsupported', 'Safari needs a certificate: type "agent-runtime tls setup" in a terminal. This address tells whether agent-runtime runs:', address + '/'],
    [something, 'wrong-version', `Another program, or a very old agent-runtime, answers at ${address}. End it and start agent-runtime.`],
    [true, 'not-running', 'agent-runtime is not running. Type "agent-runtime serve" in a terminal.'],
  ].find(([so]) => so);
  return { kind, text, link, address, info };
}
