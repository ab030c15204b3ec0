// A terminal that only shows: text with its control sequences in, lines out.
// It knows colours, carriage returns and the movements of progress bars. All
// other sequences have no effect, and no text becomes anything but text.

import { background, css, dimmed, foreground, indexed, readable } from './colours.js';
import { make } from './dom.js';

const linesShown = 5000;
const piecesShown = 50_000; // of one colour each, in the lines that the cursor cannot reach
const linesLive = 300;      // the last ones, which the cursor can still reach
const columns = 4000;       // of a line, before it goes on in the next

// In this order: a control sequence, a string that is for terminals alone,
// another escape, a single control character, text. What is longer than any
// sequence is none, and shows as text.
const token = /\x1b\[([\d;:<=>?]{0,256})[ -/]*([@-~])|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|([\x00-\x1f\x7f-\x9f])|([^\x00-\x1f\x7f-\x9f]+)/g;
const pending = /\x1b(?:\[[\d;:<=>? -/]{0,256}|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[ -/]{0,256})?$/;

const plain = Object.freeze({});
const blank = Object.freeze([' ', plain]);

export class Terminal {
  constructor(box) {
    this.box = box;
    this.clear();
  }

  clear() {
    this.box.replaceChildren();
    this.rows = [];
    this.lines = 0;  // in the box
    this.pieces = 0; // in the lines of the box that rows does not have
    this.y = -1;
    this.x = 0;
    this.pen = plain;
    this.held = '';
    this.nextLine();
  }

  write(text) {
    const box = this.box;
    const following = box.scrollHeight - box.scrollTop - box.clientHeight < 48;
    let input = this.held + text;
    this.held = pending.exec(input)?.[0] ?? '';
    if (this.held) input = input.slice(0, -this.held.length);
    for (const [, numbers, final, control, letters] of input.matchAll(token)) {
      if (letters) this.print(letters);
      else if (final) this.obey(final, numbers);
      else if (control) this.move(control);
    }
    this.rows.forEach(paint);
    if (following) box.scrollTop = box.scrollHeight;
  }

  print(letters) {
    for (const letter of letters) {
      if (this.x >= columns) this.nextLine();
      const row = this.rows[this.y];
      while (row.cells.length < this.x) row.cells.push(blank);
      row.cells[this.x++] = [letter, this.pen];
      row.stale = true;
    }
  }

  move(control) {
    switch (control) {
      case '\n': this.nextLine(); break;
      case '\r': this.x = 0; break;
      case '\b': this.x = Math.max(0, this.x - 1); break;
      case '\t': this.x = Math.min(columns, this.x + 8 - this.x % 8);
    }
  }

  nextLine() {
    this.x = 0;
    this.y++;
    if (this.y < this.rows.length) return;
    const node = this.box.appendChild(make('div'));
    this.rows.push({ cells: [], node, stale: false });
    this.lines++;
    if (this.rows.length > linesLive) {
      const still = this.rows.shift();
      paint(still);
      this.pieces += still.node.childNodes.length;
      this.y--;
    }
    while (this.lines > linesShown || this.pieces > piecesShown) this.forgetFirst();
  }

  // forgetFirst takes the oldest line away. The box itself is not asked how
  // many lines it has: browsers count them anew each time.
  forgetFirst() {
    const first = this.box.firstElementChild;
    this.pieces -= first.childNodes.length;
    this.lines--;
    first.remove();
  }

  obey(final, numbers) {
    const first = Number.parseInt(numbers, 10);
    const n = Math.min(first || 1, columns);
    const up = () => Math.max(0, this.y - n);
    const down = () => Math.min(this.rows.length - 1, this.y + n);
    switch (final) {
      case 'm': this.pen = /[<=>?]/.test(numbers) ? this.pen : redrawn(this.pen, numbers); break;
      case 'A': this.y = up(); break;
      case 'B': this.y = down(); break;
      case 'C': this.x = Math.min(columns, this.x + n); break;
      case 'D': this.x = Math.max(0, this.x - n); break;
      case 'E': this.y = down(); this.x = 0; break;
      case 'F': this.y = up(); this.x = 0; break;
      case 'G': this.x = n - 1; break;
      case 'K': this.erase(this.rows[this.y], first || 0); break;
      case 'J': if (!first) this.eraseBelow(); // more would take away what is still to be read
    }
  }

  // erase empties a line from the cursor on (0), up to it (1) or wholly (2).
  erase(row, part) {
    if (part === 0) row.cells.length = Math.min(row.cells.length, this.x);
    else if (part === 1) row.cells.fill(blank, 0, this.x + 1);
    else row.cells.length = 0;
    row.stale = true;
  }

  eraseBelow() {
    this.erase(this.rows[this.y], 0);
    for (const row of this.rows.slice(this.y + 1)) this.erase(row, 2);
  }
}

// paint brings a line's node up to date.
function paint(row) {
  if (!row.stale) return;
  row.stale = false;
  const parts = [];
  let text = '';
  row.cells.forEach(([letter, pen], i) => {
    text += letter;
    if (row.cells[i + 1]?.[1] === pen) return;
    parts.push(drawn(text, pen));
    text = '';
  });
  row.node.replaceChildren(...parts);
}

function drawn(text, pen) {
  if (pen === plain) return text;
  const node = make('span', { class: ['bold', 'italic', 'underline', 'strike'].filter((name) => pen[name]).join(' ') || undefined }, text);
  let front = pen.front ?? foreground;
  let back = pen.back ?? background;
  if (pen.inverse) [front, back] = [back, front];
  if (pen.dim) front = dimmed(front, back);
  node.style.color = css(readable(front, back));
  if (pen.back || pen.inverse) node.style.backgroundColor = css(back);
  return node;
}

const switches = {
  1: { bold: true }, 2: { dim: true }, 3: { italic: true }, 4: { underline: true }, 7: { inverse: true }, 9: { strike: true },
  21: { underline: true }, 22: { bold: false, dim: false }, 23: { italic: false }, 24: { underline: false },
  27: { inverse: false }, 29: { strike: false }, 39: { front: undefined }, 49: { back: undefined },
};

// redrawn is the pen after a colour sequence.
function redrawn(pen, numbers) {
  let next = { ...pen };
  const codes = numbers.split(';');
  while (codes.length) {
    const [code, ...parts] = codes.shift().split(':').map(Number);
    if (code === 0) next = {};
    else if (code === 4 && parts[0] === 0) next.underline = false;
    else if (code === 38 || code === 48) next[code === 38 ? 'front' : 'back'] = extended(parts.length ? parts : codes, parts.length > 3);
    else if (switches[code]) Object.assign(next, switches[code]);
    else if (code >= 30 && code <= 37) next.front = indexed(code - 30);
    else if (code >= 40 && code <= 47) next.back = indexed(code - 40);
    else if (code >= 90 && code <= 97) next.front = indexed(code - 82);
    else if (code >= 100 && code <= 107) next.back = indexed(code - 92);
  }
  return Object.values(next).some(Boolean) ? next : plain;
}

// extended takes a colour of 256, or of its own three parts, off the list.
// With colons a colour space may stand before the parts.
function extended(list, spaced) {
  const kind = Number(list.shift());
  if (kind === 5) return indexed(Number(list.shift()));
  if (kind !== 2) return undefined;
  if (spaced && list.length > 3) list.shift();
  const parts = list.splice(0, 3).map((part) => Math.min(255, Math.max(0, Number(part) || 0)));
  return parts.length === 3 ? parts : undefined;
}
