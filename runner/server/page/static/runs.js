// The runs (pipelines) of a session: how each settled, where its time went, what it cost, what it left as checkpoint.

import { arrange, el, setText } from "./dom.js";
import { clock, runChip, updateRunChip, words } from "./states.js";
import { byteSize, count, duration, oneLine, size, textBlock } from "./text.js";

export class Runs {
  constructor() {
    this._runs = new Map();
    this._list = el("ol", { class: "runs", reversed: true });
    this._totals = el("p", { class: "totals" });
    this.element = el("section", { class: "side", "aria-labelledby": "runs-title" }, el("h2", { id: "runs-title" }, "Runs"), this._totals, this._list);
  }

  update(view) {
    const shown = view.pipelines.map((run, place) => {
      const known = this._runs.get(run.pipeline_id) ?? this._add(run, place);
      known.update(run, view.restore_point);
      return known.element;
    });
    arrange(this._list, shown.reverse());
    setText(this._totals, totals(view.pipelines));
  }

  /** What a heartbeat said. */
  progress(data) {
    this._runs.get(data.pipeline_id)?.progress(data);
  }

  _add(run, place) {
    const made = new Run(run, place + 1);
    this._runs.set(run.pipeline_id, made);
    // The newest is what people came for.
    for (const other of this._runs.values()) if (!other.touched) other.details.open = false;
    made.details.open = true;
    return made;
  }
}

class Run {
  constructor(run, number) {
    this._chip = runChip();
    this._state = null;
    this._running = false;
    this._progress = el("p", { class: "hint", hidden: true });
    this._body = el("div", { class: "inside" });
    const summary = el("summary", {}, el("span", { class: "number" }, `Run ${number}`), this._chip, el("time", { datetime: run.created_at }, clock(run.created_at)));
    this.touched = false;
    summary.addEventListener("click", () => (this.touched = true));
    this.details = el("details", {}, summary, this._progress, this._body);
    this.element = el("li", { class: "run" }, this.details);
  }

  progress(data) {
    setText(this._progress, `Last heard of: ${words(String(data.phase))}, ${count(data.turn, "turn")} finished`);
    this._progress.hidden = !this._running;
  }

  update(run, restorePoint) {
    updateRunChip(this._chip, run);
    this._running = run.standing === "launched";
    this._progress.hidden = !this._running || this._progress.textContent === "";
    const state = JSON.stringify([run, restorePoint?.digest]);
    if (state === this._state) return;
    this._state = state;
    const open = new Set([...this._body.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent));
    this._body.replaceChildren(...parts(run, restorePoint).filter(Boolean));
    for (const details of this._body.querySelectorAll("details")) {
      if (open.has(details.querySelector("summary").textContent)) details.open = true;
    }
  }
}

function parts(run, restorePoint) {
  return [
    settlement(run),
    timeline(run),
    run.usage && part("Usage and cost", usage(run.usage)),
    run.checkpoint && part("Checkpoint", checkpoint(run.checkpoint, restorePoint)),
    list("Warnings", run.warnings.map((warning) => oneLine(String(warning), 400))),
    list("Not delivered", (run.undelivered ?? []).map((item) => oneLine(String(item.text), 400))),
    attempts(run.attempts),
    el("p", { class: "id" }, el("span", {}, "Pipeline "), el("code", {}, run.pipeline_id)),
  ];
}

const part = (title, inner) => el("section", { class: "part" }, el("h4", {}, title), inner);

function settlement(run) {
  const lines = [];
  if (run.refused !== null) lines.push(el("p", { class: "problem", dir: "auto" }, `The server did not commit it: ${oneLine(run.refused, 400)}`));
  if (run.error) lines.push(el("p", { class: "problem", dir: "auto" }, oneLine(run.error, 400)));
  const found = run.settlement;
  if (found?.kind === "success") lines.push(textBlock(oneLine(found.text, 400)));
  if (found?.kind === "ask_user") lines.push(el("p", {}, "It asked, and ended until the answer comes."));
  if (found?.kind === "failure") {
    lines.push(el("p", { class: "reason" }, words(String(found.reason))), textBlock(String(found.message)));
    const hints = [
      found.retryable ? "Trying again may help." : "Trying again would not help.",
      found.resumable ? "The session can go on." : "The session cannot go on from here.",
    ];
    lines.push(el("p", { class: "hint" }, hints.join(" ")));
  }
  return lines.length > 0 ? el("div", { class: "settlement" }, lines) : null;
}

// --- time ---------------------------------------------------------------------------------------------------

/** [name, from, to] in milliseconds since the run was queued. A phase's end is known by its length only. */
export function phases(run) {
  const from = Date.parse(run.created_at);
  const at = (moment) => (moment ? Date.parse(moment) - from : null);
  const launched = at(run.attempts.at(-1)?.started_at);
  const found = [];
  const add = (name, start, end) => {
    if (start !== null && end !== null) found.push([name, Math.max(0, start), Math.max(start, end)]);
  };
  add("Queue", 0, launched);
  const times = run.timings;
  if (!times) {
    add("Process", launched, at(run.ended_at));
    return found;
  }
  const started = at(times.started_at);
  const settled = at(times.settled_at);
  const agentEnd = Math.max(started, settled - times.upload_ms);
  const agentStart = Math.max(started, agentEnd - times.agent_ms);
  const restoreStart = Math.max(started, agentStart - times.restore_ms);
  // A record of an earlier attempt may be older than the process that delivered it.
  add("Start", Math.min(launched ?? started, started), started);
  add("Claim", started, restoreStart);
  if (times.restore_ms > 0) add("Restore", restoreStart, agentStart);
  add("Agent", agentStart, agentEnd);
  add("Upload", agentEnd, settled);
  add("Callback", settled, at(run.ended_at));
  return found;
}

function timeline(run) {
  const found = phases(run);
  if (found.length === 0) return null;
  const whole = Math.max(1, ...found.map(([, , end]) => end));
  const rows = found.map(([name, start, end]) => {
    const bar = el("span", { class: "track", "aria-hidden": "true" }, el("span", { class: "fill", "data-phase": name }));
    bar.firstElementChild.style.setProperty("--from", `${(100 * start) / whole}%`);
    bar.firstElementChild.style.setProperty("--long", `${(100 * (end - start)) / whole}%`);
    return el("li", {}, el("span", { class: "name" }, name), bar, el("span", { class: "long" }, duration(end - start)));
  });
  return part("Timeline", el("ol", { class: "timeline" }, rows));
}

// --- numbers ------------------------------------------------------------------------------------------------

const money = (dollars) => (dollars === 0 ? "$0" : `$${dollars < 0.01 ? dollars.toPrecision(2) : dollars.toFixed(2)}`);

function facts(pairs) {
  return el("dl", {}, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function usage(used) {
  const cache = used.cache_read + used.cache_write;
  return facts([
    ["Cost", money(used.cost_usd)],
    ["Tokens", `${size(used.input)} in, ${size(used.output)} out`],
    ...(cache > 0 ? [["Cache", `${size(used.cache_read)} read, ${size(used.cache_write)} written`]] : []),
    ["Turns", `${used.turns} (${count(used.requests, "request")})`],
  ]);
}

function checkpoint(found, restorePoint) {
  const committed = found.decision === "commit";
  const current = committed && restorePoint?.digest === found.digest;
  return el(
    "div",
    {},
    facts([
      ["Decision", committed ? (current ? "Committed, the session's restore point" : "Committed") : "Nothing new; the one before stays"],
      ["Entries", `${found.entries.toLocaleString("en")} (${byteSize(found.bytes)})`],
      ...(committed ? [["Digest", el("code", { class: "digest" }, found.digest)]] : []),
    ]),
    committed ? el("details", { class: "fold" }, el("summary", {}, "Where it lies"), el("div", { class: "inside" }, el("code", { class: "digest" }, found.manifest))) : null,
    found.diagnostic ? el("p", { class: "hint" }, "Kept for a look, not to restore: ", el("code", { class: "digest" }, found.diagnostic)) : null,
  );
}

function list(title, texts) {
  return texts.length > 0 ? part(title, el("ul", { class: "plain" }, texts.map((text) => el("li", { dir: "auto" }, text)))) : null;
}

function attempts(found) {
  if (found.length < 2) return null;
  const rows = found.map((one) => `Attempt ${one.attempt}: ${one.ended_at === null ? "runs" : `ended${one.exit === null ? "" : `, exit ${one.exit}`}`}`);
  return list("Attempts", rows);
}

function totals(runs) {
  const used = runs.map((run) => run.usage).filter(Boolean);
  if (used.length === 0) return runs.length === 0 ? "None yet." : "";
  const sum = (name) => used.reduce((total, one) => total + one[name], 0);
  return `${count(runs.length, "run")} · ${money(sum("cost_usd"))} · ${size(sum("total_tokens"))} tokens`;
}
