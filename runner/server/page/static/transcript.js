// The transcript of a session: the committed entries, then what the running pipeline says. What is complete stands in
// a log that is read out once; what is still being written stands below it and is not.

import * as api from "./api.js";
import { arrange, atEnd, el, setText, toEnd } from "./dom.js";
import { Draft } from "./draft.js";
import { messageElement, noteElement, setStatus, showProgress, showResult } from "./messages.js";
import { count } from "./text.js";

const SILENT = new Set(["model_change", "thinking_level_change", "label", "custom", "session_info", "session", "leaf"]);

export class Transcript {
  constructor(sessionId) {
    this._sessionId = sessionId;
    this._entries = new Map(); // by place in the log
    this._lowest = 0;
    this._items = [];
    this._calls = new Map();
    this._running = false;
    this._questions = new Map();
    this._earlier = el("button", { type: "button", class: "quiet more", hidden: true });
    this._earlier.addEventListener("click", () => this._showEarlier());
    this._log = el("div", { class: "log", role: "log", "aria-label": "Transcript" });
    this._draft = new Draft();
    this.element = el("div", { class: "transcript" }, this._earlier, this._log, this._draft.element);
  }

  /** Read it from the server. Returns the cursor of what comes after. */
  async load() {
    const found = await api.transcript(this._sessionId);
    const stick = atEnd();
    if (found.first > this._lowest + this._entries.size || this._entries.size === 0) {
      this._entries.clear();
      this._lowest = found.first;
    }
    found.entries.forEach((entry, place) => this._entries.set(found.first + place, entry));
    this._lowest = Math.min(this._lowest, found.first);
    for (const place of [...this._entries.keys()]) if (place >= found.total) this._entries.delete(place);
    this._draft.clear();
    this._show(found.live);
    if (stick) toEnd();
    return found.cursor;
  }

  /** One event of the running agent. */
  happened(event) {
    const stick = atEnd();
    const call = this._calls.get(event.toolCallId);
    switch (event.type) {
      case "message_start":
        if (event.message?.role === "assistant") this._draft.begin();
        break;
      case "message_update":
        this._draft.add(event.assistantMessageEvent ?? {});
        break;
      case "message_end":
        if (event.message?.role === "assistant") this._draft.clear();
        this._add({ type: "message", message: event.message });
        break;
      case "tool_execution_update":
        if (call) showProgress(call, event.partialResult);
        break;
      case "tool_execution_end":
        if (call && !call.done) showResult(call, { ...event.result, isError: event.isError });
        break;
      case "agent_end":
        this._draft.clear();
        break;
    }
    this._tellCalls();
    if (stick) toEnd();
  }

  /** Whether a pipeline is at work, and the session's questions by id: what tool calls without a result mean. */
  standing(running, questions) {
    this._running = running;
    this._questions = questions;
    this._tellCalls();
  }

  get empty() {
    return this._log.childElementCount === 0;
  }

  async _showEarlier() {
    this._earlier.disabled = true;
    try {
      const found = await api.transcript(this._sessionId, this._lowest);
      const height = document.scrollingElement.scrollHeight;
      found.entries.forEach((entry, place) => this._entries.set(found.first + place, entry));
      this._lowest = found.first;
      this._show(this._items.filter((item) => item.live).map((item) => item.entry.message));
      document.scrollingElement.scrollTop += document.scrollingElement.scrollHeight - height;
    } catch (error) {
      setText(this._earlier, `${error.message} Show earlier entries`);
    }
    this._earlier.disabled = false;
    if (!this._earlier.hidden) this._earlier.focus({ preventScroll: true });
  }

  /** Elements of entries that were there before stay the same ones: open folds and focus stay with them. What is read
   * anew is not read out: only what is said from now on is. */
  _show(live) {
    this._log.setAttribute("aria-live", "off");
    setTimeout(() => this._log.setAttribute("aria-live", "polite"));
    const before = new Map();
    for (const item of this._items) {
      if (!before.has(item.signature)) before.set(item.signature, []);
      before.get(item.signature).push(item);
    }
    const places = [...this._entries.keys()].sort((left, right) => left - right);
    const wanted = [
      ...places.map((place) => ({ entry: this._entries.get(place), live: false })),
      ...live.map((message) => ({ entry: { type: "message", message }, live: true })),
    ];
    this._items = [];
    this._calls = new Map();
    for (const { entry, live: isLive } of wanted) {
      const signature = signatureOf(entry);
      const known = before.get(signature)?.shift();
      this._take(entry, signature, isLive, known);
    }
    arrange(this._log, this._items.filter((item) => item.element).map((item) => item.element));
    this._earlier.hidden = this._lowest === 0;
    setText(this._earlier, `Show earlier entries (${count(this._lowest, "more", "more")})`);
    this._tellCalls();
  }

  _add(entry) {
    const item = this._take(entry, signatureOf(entry), true, undefined);
    if (item.element) this._log.append(item.element);
  }

  /** The item of an entry; a tool result goes into its call and has no element of its own. */
  _take(entry, signature, live, known) {
    let item = known && { ...known, live };
    const message = entry.type === "message" ? entry.message : null;
    const call = message?.role === "toolResult" ? this._calls.get(message.toolCallId) : undefined;
    if (call) {
      if (!call.done) showResult(call, message);
      item = { entry, signature, live, element: null, calls: new Map() };
    }
    item ??= this._make(entry, signature, live, message);
    for (const [id, made] of item.calls) this._calls.set(id, made);
    this._items.push(item);
    return item;
  }

  _make(entry, signature, live, message) {
    const calls = new Map();
    if (message) return { entry, signature, live, element: messageElement(message, calls), calls };
    if (entry.type === "custom_message" && entry.display !== false) {
      const shown = messageElement({ role: "custom", content: entry.content }, calls);
      return { entry, signature, live, element: shown, calls };
    }
    const silent = SILENT.has(entry.type) || entry.type === "custom_message";
    return { entry, signature, live, element: silent ? null : noteElement(entry), calls };
  }

  _tellCalls() {
    for (const item of this._items) {
      for (const call of item.calls.values()) {
        const runs = this._running && item.live;
        if (!call.done) setStatus(call, runs ? "running" : "none", runs ? "running" : "no result");
        else if (call.questionId) tellQuestion(call, this._questions.get(call.questionId));
      }
    }
  }
}

function tellQuestion(call, question) {
  if (!question) return;
  const names = { open: "waiting for you", answered: "answered", withdrawn: "withdrawn" };
  setStatus(call, question.standing === "open" ? "waiting" : "done", names[question.standing] ?? question.standing);
}

function signatureOf(entry) {
  return entry.type === "message" ? JSON.stringify(entry.message) : JSON.stringify(entry);
}
