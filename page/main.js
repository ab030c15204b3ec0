// The runtime's own page: asks what there is every two seconds while it can be
// seen, and shows it.

import { Refused, ask, why } from './api.js';
import { announce, make, put, refresh } from './dom.js';
import * as items from './items.js';
import { visible } from './output.js';

const pause = 2000;         // milliseconds between looks
const sizesPause = 30_000;  // between looks at the disk, while nothing comes or goes
const runsShown = 6;        // ended ones, before a person asks for all

const $ = (id) => document.getElementById(id);
const sizes = { environments: new Map(), sandboxes: new Map(), of: '', at: 0 };
let last = null; // what was shown last
let allRuns = false;
let wake = () => {};
let looks = 0;  // begun so far
let newest = 0; // of those whose answer has come

// Each section: what of an overview it lists, and how an item is told from others.
const sections = [
  ['questions', (q) => q.id, items.question],
  ['runs', (r) => r.run_id, items.run(look)],
  ['kernels', (k) => `${k.principal} ${k.lab_id}`, items.kernel(look)],
  ['sandboxes', (s) => s.id, items.sandbox(look, sizes)],
  ['sites', (s) => s.name, items.site(look)],
  ['clients', (c) => c.name, items.client(look)],
  ['labs', (l) => l.repo, items.lab(look, refresh)],
  ['environments', (e) => e.id, items.environment(look, sizes)],
].map(([name, key, create]) => ({ name, key, create, node: $(name), counts: [counter()] }));

function counter() {
  return make('span', { class: 'count' });
}

// look asks once and shows what comes, unless something newer is shown.
async function look() {
  const mine = ++looks;
  let overview;
  try {
    overview = await ask('GET', '/manage/overview');
  } catch (error) {
    if (error instanceof Refused) told('silent', 'Refused', error.message);
    else told('silent', 'Does not answer', `${why(error)}.${last ? ' What stands here is how it was when it last did.' : ''}`);
    return;
  }
  if (mine < newest) return;
  newest = mine;
  show(overview);
  told('answers', 'Runs on this computer');
}

// told shows whether the runtime answers, and tells when that changes.
function told(state, text, trouble = '') {
  const changed = $('state').dataset.state !== state;
  $('state').dataset.state = state;
  put($('state-text'), text);
  put($('trouble'), trouble);
  $('trouble').hidden = trouble === '';
  if (changed && (state === 'silent' || last?.silent)) announce(trouble || 'The runtime answers again.');
  if (last) last.silent = state === 'silent';
}

function show(overview) {
  tellNews(overview);
  showComputer(overview);
  for (const section of sections) showSection(section, overview[section.name]);
  if (!last) document.querySelector('#runs [data-tone=live]')?.closest('li').querySelector('[aria-expanded]').click();
  const open = overview.questions.length;
  document.title = open ? `(${open}) Question open · agent-runtime` : 'agent-runtime';
  last = { ...overview, silent: last?.silent };
  measure(overview);
}

function showSection({ name, key, create, node, counts }, list) {
  for (const count of counts) put(count, String(list.length));
  counts[0].hidden = list.length === 0;
  for (const link of document.querySelectorAll(`nav a[href="#${name}"]`)) link.toggleAttribute('data-urgent', name === 'questions' && list.length > 0);
  const shown = name === 'runs' ? shownRuns(list) : list;
  if (name === 'runs') {
    node.querySelector('.more').hidden = shown.length === list.length;
    put(node.querySelector('.more button'), `Show all ${list.length} runs`);
  }
  refresh(node.querySelector('.items'), shown, key, create);
  node.querySelector('.empty').hidden = list.length > 0;
}

function shownRuns(list) {
  let ended = 0;
  return allRuns ? list : list.filter((r) => r.status === 'running' || ended++ < runsShown);
}

// tellNews announces what a person may wait for.
function tellNews(overview) {
  if (!last) return;
  const known = new Set(last.questions.map((q) => q.id));
  const asked = overview.questions.find((q) => !known.has(q.id));
  if (asked) announce(`A question is open in the terminal: ${asked.title}`);
  const ran = new Set(last.runs.filter((r) => r.status === 'running').map((r) => r.run_id));
  const ended = overview.runs.find((r) => ran.has(r.run_id) && r.status !== 'running');
  if (ended) announce(`${ended.action} of ${ended.lab_id} has ended: ${ended.status.replace('_', ' ')}.`);
}

const computer = [
  ['Listens on', (o) => o.addresses.join(', ')],
  ['Data folder', (o) => o.folder],
  ['Version', (o) => `${o.version}, protocol ${o.protocol}`],
  ['Pairing', (o) => (o.pairing_required ? 'required: a page that wants access is asked about in the terminal' : 'switched off')],
].map(([name, text]) => ({ node: make('dd'), name, text }));

function showComputer(overview) {
  for (const { node, text } of computer) put(node, text(overview));
  $('unpaired').hidden = overview.pairing_required;
}

// measure asks what things take on the disk when something came or went, and
// every half minute.
async function measure(overview) {
  const of = [...overview.environments, ...overview.sandboxes].map((thing) => thing.id).join(' ');
  if (of === '' || (of === sizes.of && Date.now() - sizes.at < sizesPause)) return;
  Object.assign(sizes, { of, at: Date.now() });
  try {
    const found = await ask('GET', '/manage/sizes', { patience: 40 });
    for (const kind of ['environments', 'sandboxes']) sizes[kind] = new Map(found[kind].map(({ id, bytes }) => [id, bytes]));
  } catch {
    sizes.of = ''; // asked again at the next look
  }
}

// examine looks at the computer, once at a time. Its button stays a button
// meanwhile: one that is disabled would lose the focus.
async function examine() {
  const button = $('examine');
  if (button.ariaDisabled) return;
  button.ariaDisabled = 'true';
  put($('verdict'), 'Looking at what works on this computer…');
  try {
    const found = await ask('GET', '/manage/doctor', { patience: 40 });
    refresh($('checks'), found.checks, (c) => c.name, items.check);
    put($('verdict'), found.ok ? 'The runtime can do its main job here.' : 'Something that the runtime needs is missing.');
  } catch (error) {
    put($('verdict'), why(error));
  }
  button.ariaDisabled = null;
}

function build() {
  for (const { name, node, counts } of sections) {
    node.querySelector('h2').append(counts[0]);
    counts.push(counter());
    $('nav').append(make('li', {}, make('a', { href: `#${name}` }, node.dataset.name, counts[1])));
  }
  $('nav').append(make('li', {}, make('a', { href: '#computer' }, 'This computer')));
  for (const { node, name } of computer) $('facts').append(make('dt', {}, name), node);
  document.querySelector('#runs .more button').addEventListener('click', () => {
    allRuns = true;
    show(last);
    document.querySelectorAll('#runs .items > li')[runsShown]?.querySelector('button').focus();
  });
  $('examine').addEventListener('click', examine);
  document.addEventListener('visibilitychange', () => wake());
}

async function begin() {
  build();
  examine();
  for (;;) {
    await visible();
    await look();
    await new Promise((resolve) => {
      wake = resolve;
      setTimeout(resolve, pause);
    });
  }
}

begin();
