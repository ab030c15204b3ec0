// Building and refreshing the page. Every text becomes a text node: nothing
// that the runtime tells is ever read as markup.

import { ago, date } from './words.js';

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// put changes a text only when it differs, so that what a person has selected
// stays selected.
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// when shows how long ago something was, and the exact time on demand.
export function when() {
  const node = make('time');
  node.tell = (iso) => {
    put(node, ago(iso));
    if (node.dateTime === iso) return;
    node.dateTime = iso;
    node.title = date(iso);
  };
  return node;
}

// facts is a line of short texts; those that are empty are left out.
export function facts(count) {
  const parts = Array.from({ length: count }, () => make('span'));
  const node = make('p', { class: 'about' }, ...parts);
  node.tell = (...texts) => texts.forEach((text, i) => {
    if (text instanceof Node) {
      if (parts[i].firstChild !== text) parts[i].replaceChildren(text);
    } else {
      put(parts[i], text ?? '');
    }
    parts[i].hidden = parts[i].textContent === '';
  });
  return node;
}

const entries = new WeakMap(); // list to its entries by key

// refresh makes a list show the items. An item that was there keeps its nodes,
// and so its focus, its selection and what is open in it. create(item) gives
// {node, tell(item), gone?()}. Where the focus was on an item that is gone it
// goes to the neighbour, or to the section's heading.
export function refresh(list, items, key, create) {
  const known = entries.get(list) ?? new Map();
  entries.set(list, known);
  const wanted = new Map(items.map((item) => [key(item), item]));
  const lost = [...list.children].findIndex((node) => node.contains(document.activeElement));
  for (const [name, entry] of known) {
    if (wanted.has(name)) continue;
    entry.gone?.();
    entry.node.remove();
    known.delete(name);
  }
  let next = list.firstElementChild;
  for (const [name, item] of wanted) {
    const entry = known.get(name) ?? create(item);
    known.set(name, entry);
    entry.tell(item);
    if (entry.node === next) next = next.nextElementSibling;
    else list.insertBefore(entry.node, next);
  }
  if (lost >= 0 && document.activeElement === document.body) settle(list, lost);
}

function settle(list, index) {
  const neighbour = list.children[Math.min(index, list.children.length - 1)];
  (neighbour?.querySelector('button:not([hidden])') ?? list.closest('section').querySelector('h2')).focus();
}

// announce tells those who do not see the page.
export function announce(text) {
  document.getElementById('announce').textContent = text;
}
