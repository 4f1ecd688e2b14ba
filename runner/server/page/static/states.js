// The names of what people see: states of tasks, kinds of settlements, and times. A state is a word and a mark, never
// a colour alone.

import { el, setAttribute, setText } from "./dom.js";

const STATES = {
  QUEUED: ["Queued", "◌"],
  RUNNING: ["Running", "▸"],
  WAITING_INPUT: ["Waiting for you", "?"],
  SUCCEEDED: ["Succeeded", "✓"],
  FAILED: ["Failed", "✕"],
  CANCELLED: ["Cancelled", "⊘"],
};

const SETTLEMENTS = {
  ask_user: ["Asked", "?", "WAITING_INPUT"],
  success: ["Success", "✓", "SUCCEEDED"],
  failure: ["Failure", "✕", "FAILED"],
};

export const OVER = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);

export const stateName = (state) => STATES[state]?.[0] ?? state;

function mark(chip, look, glyph, name) {
  setAttribute(chip, "data-state", look);
  setText(chip.firstElementChild, glyph);
  setText(chip.lastElementChild, name);
}

function chip() {
  return el("span", { class: "chip" }, el("span", { "aria-hidden": "true", class: "glyph" }), el("span"));
}

export function stateChip(state) {
  const made = chip();
  updateChip(made, state);
  return made;
}

export function updateChip(made, state) {
  const [name, glyph] = STATES[state] ?? [state, "·"];
  mark(made, state, glyph, name);
}

/** Where one run stands: its settlement, or what became of it without one. */
export function updateRunChip(made, run) {
  if (run.refused !== null) mark(made, "FAILED", "✕", "Not committed");
  else if (run.settlement) {
    const [name, glyph, look] = SETTLEMENTS[run.settlement.kind] ?? [run.settlement.kind, "·", "QUEUED"];
    mark(made, look, glyph, name);
  } else if (run.standing === "queued") mark(made, "QUEUED", "◌", "Queued");
  else if (run.standing === "launched") mark(made, "RUNNING", "▸", "Running");
  else if (run.error) mark(made, "FAILED", "✕", "Lost");
  else mark(made, "CANCELLED", "⊘", "Not run");
}

export const runChip = chip;

/** `reply_timeout` and the like, as words. */
export const words = (reason) => reason.replaceAll("_", " ");

export function ago(moment, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(moment)) / 1000);
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  return new Date(moment).toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });
}

export const clock = (moment) => new Date(moment).toLocaleTimeString(undefined, { timeStyle: "medium" });

/** A time that says how long ago it is; `refreshTimes` keeps it true. */
export function since(moment) {
  return el("time", { datetime: moment, title: new Date(moment).toLocaleString(), class: "since" }, ago(moment));
}

export function refreshTimes() {
  for (const time of document.querySelectorAll("time.since")) setText(time, ago(time.getAttribute("datetime")));
}
