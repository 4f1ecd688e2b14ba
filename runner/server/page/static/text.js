// Text that others wrote (models, tools, people), made fit to be shown: as text and nothing else.
// What could change how its neighbours look is made visible: control characters, bidirectional overrides,
// characters without a shape. Long text is cut, and more of it shown on demand.

import { el } from "./dom.js";

const FOLD_CHARACTERS = 4000;
const FOLD_LINES = 40;
const STEP_CHARACTERS = 40000;

// Line feed and tab stay; the joiners U+200C and U+200D are needed by scripts and emoji.
const UNSEEN =
  /\r\n|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]|[\u{e0000}-\u{e007f}]/gu;

/** The text with everything visible that would not be. */
export function visible(text) {
  return text.replace(UNSEEN, (found) => {
    if (found === "\r\n") return "\n";
    const code = found.codePointAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
}

/** One line of at most `limit` characters, for titles and summaries. */
export function oneLine(text, limit = 120) {
  const line = visible(text.slice(0, limit * 4).replace(/\s+/g, " ").trim());
  return line.length > limit ? `${line.slice(0, limit - 1).trimEnd()}…` : line;
}

/** An element with the text in it: all of it if it is short, else its beginning and a button for more. */
export function textBlock(text, { tag = "p", name = "text", className = "text" } = {}) {
  const end = foldAt(text);
  const shown = el(tag, { class: className, dir: "auto" }, visible(text.slice(0, end)));
  if (end === text.length) return shown;
  return el("div", { class: "folded" }, shown, moreButton(text, end, shown, name));
}

function moreButton(text, from, shown, name) {
  let end = from;
  const label = () => `Show more of this ${name} (${size(text.length - end)} left)`;
  const button = el("button", { type: "button", class: "quiet more" }, label());
  button.addEventListener("click", () => {
    const next = whole(text, Math.min(text.length, end + STEP_CHARACTERS));
    shown.append(visible(text.slice(end, next)));
    end = next;
    button.textContent = label();
    if (end < text.length) return;
    shown.tabIndex = -1;
    shown.focus({ preventScroll: true });
    button.remove();
  });
  return button;
}

function foldAt(text) {
  let end = 0;
  for (let line = 0; line < FOLD_LINES; line += 1) {
    const next = text.indexOf("\n", end);
    if (next < 0) return text.length > FOLD_CHARACTERS ? whole(text, FOLD_CHARACTERS) : text.length;
    if (next >= FOLD_CHARACTERS) return whole(text, FOLD_CHARACTERS);
    end = next + 1;
  }
  // A few lines more are not worth a button.
  return text.length - end < 400 ? text.length : end;
}

/** The place, moved before a surrogate pair that it would cut. */
function whole(text, place) {
  const code = text.charCodeAt(place - 1);
  return place < text.length && code >= 0xd800 && code <= 0xdbff ? place - 1 : place;
}

export function size(bytes) {
  if (bytes < 1000) return `${bytes}`;
  return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(bytes < 10_000 ? 1 : 0)} k` : `${(bytes / 1_000_000).toFixed(1)} M`;
}

export function byteSize(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

export function duration(ms) {
  if (!(ms >= 0)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60
    ? `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
