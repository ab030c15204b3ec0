// What a run writes, as it writes it. One run's output is open at a time: each
// holds a connection, of which a browser has few.

import { Refused, ask, why } from './api.js';
import { make, put } from './dom.js';
import { Terminal } from './terminal.js';

const pause = 100; // milliseconds between looks while there is much to show

let close = () => {};

// output gives the button that opens a run's output, and where it shows.
export function output(run, name) {
  const id = `output-${run.run_id}`;
  const toggle = make('button', { type: 'button', 'aria-expanded': 'false', 'aria-controls': id }, 'Output', make('span', { class: 'unseen' }, ` of ${name}`));
  const screen = make('div', { class: 'screen', tabindex: '0', role: 'region', 'aria-label': `Output of ${name}` });
  const note = make('p', { class: 'about', hidden: '' });
  const box = make('div', { class: 'output wide', id, hidden: '' }, note, screen);
  let ending;

  const open = () => {
    close();
    ending = new AbortController();
    box.hidden = false;
    toggle.setAttribute('aria-expanded', 'true');
    follow(run.run_id, new Terminal(screen), note, ending.signal);
    close = shut;
  };
  const shut = () => {
    ending?.abort();
    box.hidden = true;
    toggle.setAttribute('aria-expanded', 'false');
    close = () => {};
  };
  toggle.addEventListener('click', () => (box.hidden ? open() : shut()));
  return { toggle, box, gone: () => { if (!box.hidden) shut(); } };
}

// follow writes a run's output into the terminal until the run has ended.
async function follow(id, terminal, note, signal) {
  for (let offset = 0, wait = 0, cut = false; !signal.aborted;) {
    try {
      await visible(signal);
      const run = await ask('GET', `/manage/runs/${encodeURIComponent(id)}?offset=${offset}&wait=${wait}`, { patience: wait + 15, signal });
      if (run.truncated && offset > 0) terminal.clear();
      cut ||= run.truncated;
      tell(note, cut ? 'The beginning is not kept any more.' : '');
      const begun = performance.now();
      terminal.write(run.output);
      offset = run.next_offset;
      wait = 20;
      if (run.status !== 'running') return;
      await rest(Math.max(pause, performance.now() - begun)); // half of the time is the person's
    } catch (error) {
      if (signal.aborted) return;
      tell(note, why(error));
      if (error instanceof Refused) return;
      await rest(2000);
    }
  }
}

const rest = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

function tell(note, text) {
  put(note, text);
  note.hidden = text === '';
}

// visible resolves when the page can be seen.
export function visible(signal) {
  if (document.visibilityState === 'visible') return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener('visibilitychange', resolve, { once: true, signal });
    signal?.addEventListener('abort', resolve, { once: true });
  });
}
