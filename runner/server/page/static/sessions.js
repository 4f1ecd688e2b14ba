// The list of sessions beside everything else. Entries stay the same elements while they change, so that focus stays.

import * as api from "./api.js";
import { arrange, el, setAttribute, setText } from "./dom.js";
import { since, stateChip, updateChip } from "./states.js";
import { count, oneLine } from "./text.js";

const STEP = 100;
const SEEN_MS = 2000;
const HIDDEN_MS = 10_000;

export class SessionList {
  /** `changed` gets the summaries whenever they were read; `failed` an ApiError. */
  constructor(changed, failed) {
    this._changed = changed;
    this._failed = failed;
    this._limit = STEP;
    this._items = new Map();
    this._list = document.getElementById("sessions");
    this._more = document.getElementById("sessions-more");
    this._more.addEventListener("click", () => {
      this._limit += STEP;
      this.refresh();
    });
    this._current = null;
    this._timer = null;
    this._reading = null;
    this._stopped = false;
  }

  /** Read the list now, and again every few seconds. */
  refresh() {
    this._reading ??= this._read().finally(() => {
      this._reading = null;
      clearTimeout(this._timer);
      if (!this._stopped) this._timer = setTimeout(() => this.refresh(), document.hidden ? HIDDEN_MS : SEEN_MS);
    });
    return this._reading;
  }

  stop() {
    clearTimeout(this._timer);
    this._stopped = true;
  }

  choose(id) {
    this._current = id;
    for (const [key, item] of this._items) setAttribute(item.link, "aria-current", key === id ? "page" : null);
  }

  async _read() {
    let found;
    try {
      found = (await api.listSessions(this._limit)).sessions;
    } catch (error) {
      this._failed(error);
      return;
    }
    this._show(found);
    this._changed(found);
  }

  _show(summaries) {
    const wanted = summaries.map((summary) => {
      const item = this._items.get(summary.session_id) ?? this._add(summary);
      update(item, summary);
      return item.row;
    });
    const known = new Set(summaries.map((summary) => summary.session_id));
    for (const id of [...this._items.keys()]) if (!known.has(id)) this._items.delete(id);
    arrange(this._list, wanted);
    this._more.hidden = summaries.length < this._limit;
    setText(document.getElementById("sessions-count"), `(${summaries.length}${this._more.hidden ? "" : "+"})`);
    this.choose(this._current);
  }

  _add(summary) {
    const title = el("span", { class: "title", dir: "auto" });
    const chip = stateChip(summary.state);
    const questions = el("span", { class: "questions" });
    const time = el("span", { class: "when" });
    const link = el(
      "a",
      { href: `#/sessions/${encodeURIComponent(summary.session_id)}` },
      title,
      el("span", { class: "meta" }, chip, questions, time),
    );
    const item = { row: el("li", {}, link), link, title, chip, questions, time, changed: null };
    this._items.set(summary.session_id, item);
    return item;
  }
}

function update(item, summary) {
  setText(item.title, oneLine(summary.title, 80) || summary.session_id);
  updateChip(item.chip, summary.state);
  const open = summary.open_questions;
  setText(item.questions, open > 1 ? count(open, "question") : "");
  if (item.changed !== summary.changed_at) {
    item.changed = summary.changed_at;
    item.time.replaceChildren(since(summary.changed_at));
  }
}
