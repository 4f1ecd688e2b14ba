// One session on the page: what was said, what is asked, what can be done, and its runs. Whatever breaks the connection,
// it reads everything again and goes on from there.

import * as api from "./api.js";
import { Cards, sendsOnEnter } from "./cards.js";
import { announce, arrange, el, newId, setText } from "./dom.js";
import { Live } from "./live.js";
import { Runs } from "./runs.js";
import { OVER, clock, since, stateChip, stateName, updateChip, words } from "./states.js";
import { oneLine } from "./text.js";
import { Transcript } from "./transcript.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;

export class SessionPage {
  /** `hooks`: line(connected), cancel(task), changed(), failed(error). */
  constructor(id, place, hooks) {
    this._id = id;
    this._hooks = hooks;
    this._state = null;
    this._view = null;
    this._closed = false;
    this._syncing = null;
    this._syncAgain = false;
    this._refreshing = false;
    this._refreshAgain = false;
    this._wait = FIRST_WAIT_MS;
    this._timer = null;
    this._live = new Live(id, (kind, data) => this._happened(kind, data), hooks.line);
    this._transcript = new Transcript(id);
    this._cards = new Cards(() => this._refresh(), (next) => this._focus(next));
    this._runs = new Runs();
    this._notices = el("div", { class: "notices" });
    this._build(place);
  }

  _build(place) {
    this._chip = stateChip("QUEUED");
    this._title = el("h1", { tabindex: "-1", dir: "auto" }, "…");
    this._reason = el("span", { class: "reason" });
    this._about = el("span", { class: "about" });
    this._cancel = el("button", { type: "button", class: "quiet danger", hidden: true, onclick: () => this._hooks.cancel(this._task) }, "Cancel task");
    this._composer = this._composerElement();
    this._conversation = el("div", { class: "conversation" }, this._transcript.element, this._notices, this._cards.element, this._composer);
    const head = el("div", { class: "head" }, this._title, el("p", { class: "meta" }, this._chip, this._reason, this._about, this._cancel));
    place.replaceChildren(el("div", { class: "session" }, head, this._conversation, this._runs.element));
  }

  /** Read everything, then follow. */
  sync() {
    if (this._syncing) this._syncAgain = true;
    this._syncing ??= this._sync().finally(() => {
      this._syncing = null;
      const again = this._syncAgain;
      this._syncAgain = false;
      if (again && !this._closed) this.sync();
    });
    return this._syncing;
  }

  async _sync() {
    clearTimeout(this._timer);
    this._live.close();
    try {
      const [view, cursor] = await Promise.all([api.session(this._id), this._transcript.load()]);
      if (this._closed) return;
      this._show(view);
      this._wait = FIRST_WAIT_MS;
      this._live.open(cursor);
    } catch (error) {
      if (this._closed) return;
      this._hooks.failed(error);
      if (!(error instanceof api.ApiError)) throw error;
      if (error.status === 404) this._missing();
      else this._later();
    }
  }

  _later() {
    this._timer = setTimeout(() => this.sync(), this._wait);
    this._wait = Math.min(this._wait * 2, LONGEST_WAIT_MS);
  }

  close() {
    this._closed = true;
    clearTimeout(this._timer);
    this._live.close();
  }

  pause() {
    this._live.close();
  }

  resume() {
    this._live.resume();
  }

  focusTitle() {
    this._title.focus({ preventScroll: true });
  }

  /** The state without its transcript, after something that does not change that. */
  async _refresh() {
    if (this._refreshing) {
      this._refreshAgain = true;
      return;
    }
    this._refreshing = true;
    try {
      do {
        this._refreshAgain = false;
        const view = await api.session(this._id);
        if (!this._closed) this._show(view);
      } while (this._refreshAgain && !this._closed);
    } catch (error) {
      this._hooks.failed(error);
    } finally {
      this._refreshing = false;
    }
  }

  _happened(kind, data) {
    if (kind === "agent") this._transcript.happened(data.event);
    else if (kind === "heartbeat") this._runs.progress(data);
    else if (kind === "pipeline" && (data.standing === "ended" || data.attempt > 1)) this.sync();
    else this._refresh();
    if (kind === "task" || kind === "card") this._hooks.changed();
  }

  // --- what is shown ----------------------------------------------------------------------------------------

  get _task() {
    return this._view?.tasks.at(-1) ?? null;
  }

  _show(view) {
    this._view = view;
    const task = this._task;
    const first = oneLine(view.tasks[0].message, 200);
    setText(this._title, first);
    updateChip(this._chip, task.state);
    setText(this._reason, task.reason ? words(task.reason) : "");
    this._about.replaceChildren("Session ", el("code", {}, view.session_id), " · changed ", since(task.changed_at), ...deadline(task));
    this._cancel.hidden = OVER.has(task.state);
    if (this._state !== null && this._state !== task.state) announce(`The task: ${stateName(task.state)}.`);
    this._state = task.state;
    const running = view.pipelines.some((run) => run.standing === "launched");
    this._transcript.standing(running, new Map(view.questions.map((question) => [question.question_id, question])));
    this._showNotices(view.notices.filter((notice) => notice.at >= task.created_at));
    this._cards.update(view.questions.filter((question) => question.task_id === task.task_id));
    this._composer.hidden = !OVER.has(task.state);
    this._runs.update(view);
  }

  _showNotices(notices) {
    const known = new Map([...this._notices.children].map((shown) => [shown.dataset.reply, shown]));
    const wanted = notices.map((notice) => known.get(notice.reply_id) ?? noticeElement(notice));
    arrange(this._notices, wanted);
  }

  _missing() {
    this._title.textContent = "There is no such session";
    this._chip.hidden = true;
    this._runs.element.hidden = true;
    this._conversation.replaceChildren(el("p", {}, "Choose another one, or start a new task."));
    this.focusTitle();
  }

  /** Where the focus goes when the card that had it is gone: to the next card, else to the session's title. */
  _focus(card) {
    const next = card?.querySelector("button, input, textarea, select") ?? this._title;
    next.focus({ preventScroll: next === this._title });
  }

  _composerElement() {
    const id = newId("message");
    const problem = el("p", { class: "problem", role: "alert", id: newId("problem") });
    const box = el("textarea", { id, rows: 2, maxlength: 100_000, dir: "auto", "aria-describedby": problem.id });
    const button = el("button", { type: "submit", class: "primary" }, "Start");
    const form = el("form", { class: "composer", hidden: true, novalidate: true }, el("label", { for: id }, "Next task in this session"), box, el("div", { class: "buttons" }, problem, button));
    sendsOnEnter(box, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const text = box.value.trim();
      setText(problem, text ? "" : "Write what is to be done first.");
      if (!text || form.ariaBusy === "true") return;
      form.ariaBusy = "true";
      try {
        await api.startTask(text, { id: this._id, owner: this._view.owner });
        box.value = "";
        this._title.focus({ preventScroll: true });
      } catch (error) {
        setText(problem, error.message);
      }
      form.ariaBusy = null;
      this._refresh();
      this._hooks.changed();
    });
    return form;
  }
}

function deadline(task) {
  return task.deadline_at === null ? [] : [" · waits until ", el("time", { datetime: task.deadline_at }, clock(task.deadline_at))];
}

function noticeElement(notice) {
  return el(
    "div",
    { class: "notice", role: "note", "data-reply": notice.reply_id },
    el("p", {}, notice.text),
    el("p", { class: "hint", dir: "auto" }, `Your answer was: ${oneLine(notice.message, 300)}`),
  );
}
