// Buttons that end something or take it back: each asks once more, in place.

import { why } from './api.js';
import { announce, make } from './dom.js';

// take gives a button and the question that takes its place. act does it and
// resolves when it is done; what follows is in done.
export function take({ label, of, question, act, done }) {
  const start = make('button', { type: 'button', class: 'take' }, label, make('span', { class: 'unseen' }, ` ${of}`));
  const sure = make('button', { type: 'button', class: 'sure' }, label);
  const keep = make('button', { type: 'button' }, 'Keep');
  const failed = make('p', { class: 'failed', role: 'alert', hidden: '' });
  const box = make('div', { class: 'confirm wide', role: 'group', 'aria-label': question, hidden: '' },
    make('p', {}, question), make('div', { class: 'buttons' }, sure, keep), failed);
  let busy = false;

  const show = (asking) => {
    box.hidden = !asking;
    start.hidden = asking;
    failed.hidden = true;
    (asking ? keep : start).focus();
  };
  const carryOut = async () => {
    if (busy) return;
    busy = true;
    sure.setAttribute('aria-disabled', 'true');
    failed.hidden = true;
    try {
      const said = await act();
      announce(said);
      await done();
    } catch (error) {
      failed.textContent = why(error);
      failed.hidden = false;
    } finally {
      busy = false;
      sure.removeAttribute('aria-disabled');
    }
  };
  start.addEventListener('click', () => show(true));
  keep.addEventListener('click', () => show(false));
  sure.addEventListener('click', carryOut);
  box.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') show(false);
  });
  return { start, box };
}
