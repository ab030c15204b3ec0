// Colours of terminals, made readable on what is behind them.

export const background = [0x14, 0x18, 0x1d];
export const foreground = [0xdf, 0xe4, 0xe9];

const named = [
  [58, 65, 74], [240, 112, 106], [92, 198, 118], [216, 170, 74], [106, 166, 242], [200, 142, 238], [88, 198, 206], [204, 210, 216],
  [130, 138, 148], [255, 152, 144], [136, 224, 152], [242, 206, 122], [152, 198, 255], [224, 180, 255], [138, 226, 232], [248, 250, 252],
];
const cube = [0, 95, 135, 175, 215, 255];
const contrastWanted = 4.5;

// indexed is one of the 256 colours; undefined when there is none.
export function indexed(n) {
  if (!(n >= 0 && n <= 255)) return undefined;
  if (n < 16) return named[n];
  if (n >= 232) return Array(3).fill(8 + 10 * (n - 232));
  const of = n - 16;
  return [cube[Math.floor(of / 36)], cube[Math.floor(of / 6) % 6], cube[of % 6]];
}

export const css = (colour) => `rgb(${colour.map(Math.round).join(' ')})`;

const mixed = (colour, other, share) => colour.map((part, i) => part + (other[i] - part) * share);

export const dimmed = (colour, behind) => mixed(colour, behind, 0.35);

function luminance(colour) {
  const [r, g, b] = colour.map((part) => {
    const c = part / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a, b) {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

// readable is the colour, as little lighter or darker as it needs to be read
// on what is behind it.
export function readable(colour, behind) {
  const end = luminance(behind) < 0.18 ? [255, 255, 255] : [0, 0, 0];
  for (let share = 0; share < 1; share += 0.1) {
    const candidate = mixed(colour, end, share).map(Math.round);
    if (contrast(candidate, behind) >= contrastWanted) return candidate;
  }
  return end;
}
