// One item of each list: how it looks, and how it is brought up to date. What
// create functions return is what refresh in dom.js wants.

import { ask } from './api.js';
import { facts, make, put, when } from './dom.js';
import { output } from './output.js';
import { take } from './take.js';
import { lasted, short, size, who } from './words.js';

// item is the frame that all share: a title with a chip, a line about it, and
// a button with its question.
function item(title, chip, about, taking, ...more) {
  const heading = make('p', { class: 'title' }, title, chip);
  const what = make('div', { class: 'what' }, heading, about);
  const buttons = make('div', { class: 'buttons' });
  if (taking) buttons.append(taking.start);
  const node = make('li', {}, what, buttons, ...more);
  if (taking) node.append(taking.box);
  return { node, what, buttons };
}

function mark(chip, text, tone) {
  put(chip, text);
  chip.hidden = text === '';
  if (tone) chip.dataset.tone = tone;
  else delete chip.dataset.tone;
}

const mono = (text) => make('span', { class: 'mono' }, text);
const line = (text) => make('p', { class: 'about' }, text);
const pathLine = (text) => make('p', { class: 'path' }, text);

// since is a time with words before it.
function since(words) {
  const time = when();
  const node = make('span', {}, `${words} `, time);
  node.tell = time.tell;
  return node;
}

export const question = () => {
  const asked = since('Asked');
  const about = facts(2);
  const title = make('span');
  const body = make('pre');
  const approve = make('code');
  const deny = make('code');
  const here = make('p', {}, 'Answer it in the terminal where the runtime runs: type ', make('code', {}, 'y'), ' or ', make('code', {}, 'n'), ' and press Enter.');
  const notHere = line('The terminal where the runtime runs does not show this question now: what you type there does not answer it.');
  const { node } = item(title, make('span', { class: 'chip', 'data-tone': 'live' }, 'Waits for you'), about, null,
    make('div', { class: 'wide' }, body),
    make('div', { class: 'answer wide' },
      here, notHere, make('p', {}, 'From any other terminal: ', approve, ' or ', deny)));
  node.classList.add('question');
  return {
    node, tell(q) {
      asked.tell(q.asked);
      about.tell(asked, q.waiting > 1 ? `${q.waiting} requests wait for it` : '');
      put(title, q.title);
      put(body, q.body.join('\n'));
      here.hidden = !q.shown;
      notHere.hidden = q.shown;
      put(approve, `agent-runtime approve ${q.id}`);
      put(deny, `agent-runtime deny ${q.id}`);
    },
  };
};

const outcomes = {
  running: () => ['Running', 'live'],
  succeeded: () => ['Succeeded', 'good'],
  failed: (run) => [`Failed, exit ${run.exit_code}`, 'bad'],
  stopped: () => ['Stopped', ''],
  timed_out: () => ['Timed out', 'warn'],
};

export const run = (done) => (r) => {
  const name = `${r.action} of ${r.lab_id}`;
  const started = since('Started');
  const about = facts(4);
  const chip = make('span', { class: 'chip' });
  const shown = output(r, name);
  const stop = take({
    label: 'Stop', of: name, done, question: `Stop ${name}? Its processes are interrupted, and killed if they do not end.`,
    act: async () => {
      await ask('POST', `/manage/runs/${encodeURIComponent(r.run_id)}/stop`, { patience: 660 });
      return `Stopped ${name}.`;
    },
  });
  const { node, buttons } = item(make('span', {}, r.action), chip, about, stop);
  buttons.prepend(shown.toggle);
  node.append(shown.box);
  return {
    node, gone: shown.gone, tell(now) {
      const [text, tone] = outcomes[now.status](now);
      mark(chip, text, tone);
      started.tell(now.started_at);
      about.tell(`Lab ${now.lab_id}`, who(now.principal), started,
        `${now.ended_at ? 'took' : 'for'} ${lasted(now.started_at, now.ended_at ?? new Date().toISOString())}`);
      if (now.status === 'running') return;
      const focused = stop.start === document.activeElement || stop.box.contains(document.activeElement);
      stop.start.hidden = true;
      stop.box.hidden = true;
      if (focused) shown.toggle.focus();
    },
  };
};

export const kernel = (done) => (k) => {
  const used = since('Last used');
  const about = facts(3);
  const chip = make('span', { class: 'chip' });
  const { node } = item(make('span', {}, k.lab_id), chip, about, take({
    label: 'Shut down', of: `the kernel of ${k.lab_id}`, done,
    question: `Shut down the kernel of ${k.lab_id}? What its cells have computed is lost; files stay.`,
    act: async () => {
      await ask('POST', '/manage/kernels/shutdown', { body: { principal: k.principal, lab_id: k.lab_id }, patience: 60 });
      return `The kernel of ${k.lab_id} has ended.`;
    },
  }));
  return {
    node, tell(now) {
      mark(chip, { running: 'Idle', busy: 'Busy', starting: 'Starting' }[now.status], now.status === 'running' ? '' : 'live');
      used.tell(now.last_used);
      about.tell(who(now.principal), now.memory === null ? '' : `${size(now.memory)} of memory`, used);
    },
  };
};

export const sandbox = (done, sizes) => (s) => {
  const made = since('Made');
  const used = since('last used');
  const about = facts(4);
  const { node, what } = item(make('span', {}, `Learner ${s.learner_id}`), make('span', { class: 'chip' }, s.task_id || 'No task'), about, take({
    label: 'End', of: `the sandbox of ${s.learner_id}`, done,
    question: `End the sandbox of ${s.learner_id}, with everything that runs in it?`,
    act: async () => {
      await ask('DELETE', `/manage/sandboxes/${encodeURIComponent(s.id)}`, { patience: 60 });
      return `The sandbox of ${s.learner_id} has ended.`;
    },
  }));
  what.append(pathLine(s.workdir));
  return {
    node, tell(now) {
      made.tell(now.created_at);
      used.tell(now.last_used);
      about.tell(who(now.principal), made, used, sizes.sandboxes.has(now.id) ? `${size(sizes.sandboxes.get(now.id))} on the disk` : '');
    },
  };
};

// access is a site or a local program that was let in.
function access({ name, label, path, body, done }) {
  const granted = since('Since');
  const used = since('last used');
  const about = facts(2);
  const chip = make('span', { class: 'chip' });
  const could = line('');
  const { node, what } = item(mono(name), chip, about, take({
    label: 'Revoke', of: name, done,
    question: `Take all access away from ${label}? What it has running is stopped, and what it had approved is forgotten.`,
    act: async () => {
      await ask('POST', path, { body });
      return `${name} has no access any more.`;
    },
  }));
  what.append(could);
  return {
    node, tell(now) {
      mark(chip, now.scope, now.scope === 'code' ? 'warn' : '');
      granted.tell(now.since);
      if (now.last_used) used.tell(now.last_used);
      about.tell(granted, now.last_used ? used : 'never used');
      put(could, `It could ${now.could}.`);
    },
  };
}

export const site = (done) => ({ name }) => access({ name, label: name, path: '/manage/sites/revoke', body: { origin: name }, done });
export const client = (done) => ({ name }) => access({ name, label: who(`local:${name}`), path: '/manage/clients/revoke', body: { name }, done });

export const lab = (done, refresh) => (l) => {
  const versions = make('div', { class: 'wide' });
  const about = facts(1);
  const { node } = item(mono(l.repo), '', about, take({
    label: 'Forget', of: l.repo, done,
    question: `Forget every approval of ${l.repo}? Before anything of it can start again, the terminal asks.`,
    act: async () => {
      await ask('POST', '/manage/labs/forget', { body: { repo: l.repo } });
      return `${l.repo} is not approved any more.`;
    },
  }), versions);
  return {
    node, tell(now) {
      about.tell(now.versions.length === 1 ? '1 approved version' : `${now.versions.length} approved versions`);
      refresh(versions, now.versions, (v) => `${v.principal} ${v.commit}`, version);
    },
  };
};

// version is what a site had approved of a lab; it does not change.
function version(v) {
  const approved = since('approved');
  const summary = make('summary', {}, 'Commit ', mono(short(v.commit)), ` for ${who(v.principal)}, `, approved);
  const actions = make('div', { class: 'actions' }, ...v.actions.map((action) => make('div', {},
    make('p', {}, make('strong', {}, action.label), ` (${action.name}, at most ${action.timeout} s)`),
    action.description ? line(action.description) : '',
    make('pre', {}, action.steps.map((step) => `$ ${step}`).join('\n')))));
  if (v.actions.length === 0) actions.append(line('Its commands are not kept: the site has approved a newer version since.'));
  return { node: make('details', {}, summary, actions), tell: (now) => approved.tell(now.approved_at) };
}

export const environment = (done, sizes) => (e) => {
  const about = facts(2);
  const chip = make('span', { class: 'chip' });
  const note = make('p', { class: 'note' });
  const { node, what } = item(make('span', {}, e.id), chip, about, take({
    label: 'Delete', of: `the environment ${e.id}`, done,
    question: `Delete the environment ${e.id}, with all packages in it? It is made anew when a lab needs it.`,
    act: async () => {
      await ask('DELETE', `/manage/environments/${encodeURIComponent(e.id)}`, { patience: 120 });
      return `The environment ${e.id} is deleted.`;
    },
  }));
  what.append(pathLine(e.path), note);
  return {
    node, tell(now) {
      mark(chip, now.ready ? '' : 'Broken', 'bad');
      about.tell(now.python ? `Python ${now.python}` : '', sizes.environments.has(now.id) ? `${size(sizes.environments.get(now.id))} on the disk` : '');
      put(note, now.use ? `In use: ${now.use}.` : '');
      note.hidden = note.textContent === '';
    },
  };
};

export const check = () => {
  const chip = make('span', { class: 'chip' });
  const name = make('strong');
  const detail = make('span');
  const hint = make('span', { class: 'note' });
  const node = make('li', {}, make('span', {}, chip), name, make('div', { class: 'what' }, detail, hint));
  return {
    node, tell(c) {
      if (c.ok) mark(chip, 'Works', 'good');
      else mark(chip, c.needed ? 'Fails' : 'Missing', c.needed ? 'bad' : 'warn');
      put(name, c.name);
      put(detail, c.detail);
      put(hint, c.hint ? `What to do: ${c.hint}` : '');
      hint.hidden = hint.textContent === '';
    },
  };
};
