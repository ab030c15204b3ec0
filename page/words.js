// Times, sizes and names in words.

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const units = [['day', 86400], ['hour', 3600], ['minute', 60]];

export function ago(iso) {
  const seconds = (Date.parse(iso) - Date.now()) / 1000;
  if (Math.abs(seconds) < 45) return 'just now';
  const [unit, length] = units.find(([, length]) => Math.abs(seconds) >= length) ?? units.at(-1);
  return relative.format(Math.round(seconds / length), unit);
}

export const date = (iso) => whole.format(Date.parse(iso));

export function lasted(from, to) {
  const seconds = Math.max(0, Math.round((Date.parse(to) - Date.parse(from)) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
}

export function size(bytes) {
  let n = bytes;
  for (const unit of ['bytes', 'KB', 'MB', 'GB']) {
    if (n < 1000 || unit === 'GB') return `${unit === 'bytes' ? n : n.toPrecision(3)} ${unit}`;
    n /= 1024;
  }
  return '';
}

// who is a principal as people know it.
export function who(principal) {
  if (principal === 'local') return 'a local program';
  return principal.startsWith('local:') ? `the local program ${principal.slice(6)}` : principal;
}

export const short = (commit) => commit.slice(0, 12);
