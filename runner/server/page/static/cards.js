// The question cards of a session's present task: suggested answers as buttons, a free answer, or a form.
// A card stays the same element while it is open, so that nothing typed is lost when something else changes.

import * as api from "./api.js";
import { announce, arrange, el, newId, setText } from "./dom.js";
import { formOf } from "./form.js";
import { foldedElement } from "./messages.js";
import { count, oneLine, textBlock } from "./text.js";

const TOO_LATE = {
  answered_before: "This question was answered before.",
  too_late: "It is too late: the task has gone on or has ended.",
  not_waiting: "The task does not wait for this any more.",
};

export class Cards {
  /** `answered` is called after each answer; `leave` moves the focus when the card that had it is gone. */
  constructor(answered, leave) {
    this._answered = answered;
    this._leave = leave;
    this._cards = new Map();
    this._list = el("div", { class: "cards" });
    this._several = el("p", { class: "hint", hidden: true });
    this.element = el("section", { "aria-label": "Questions", class: "questions-part", hidden: true }, this._several, this._list);
  }

  update(questions) {
    const open = questions.filter((question) => question.standing === "open");
    for (const question of open) {
      if (this._cards.has(question.question_id)) continue;
      this._cards.set(question.question_id, new Card(question, this._answered));
      announce(`Question: ${oneLine(question.question ?? "a form to fill in", 200)}`);
    }
    const focused = document.activeElement;
    const wanted = open.map((question) => this._cards.get(question.question_id));
    open.forEach((question, place) => wanted[place].update(question, place, open.length));
    arrange(this._list, wanted.map((card) => card.element));
    const known = new Set(open.map((question) => question.question_id));
    for (const id of [...this._cards.keys()]) if (!known.has(id)) this._cards.delete(id);
    this.element.hidden = open.length === 0;
    this._several.hidden = open.length < 2;
    setText(this._several, `There are ${count(open.length, "question")}. The agent goes on with the first answer; the others are withdrawn then.`);
    if (focused?.closest?.(".card") && !focused.isConnected) this._leave(wanted[0]?.element ?? null);
  }
}

class Card {
  constructor(question, answered) {
    this._id = question.question_id;
    this._answered = answered;
    this._reply = null; // {id, message}: the same id for each try of one answer
    this._sending = false;
    this._title = el("h3", { id: newId("question"), tabindex: "-1" });
    this._hint = el("p", { class: "hint" });
    this._kept = el("p", { class: "kept", dir: "auto", hidden: true });
    this._problem = el("p", { class: "problem", role: "alert", id: newId("problem") });
    this._answers = el("div", { class: "answers" }, ...this._ways(question));
    this.element = el(
      "article",
      { class: "card", "aria-labelledby": this._title.id },
      this._title,
      question.question === null ? null : textBlock(question.question, { name: "question", className: "text question" }),
      question.context === null ? null : context(question.context),
      this._hint,
      this._answers,
      this._kept,
      this._problem,
    );
  }

  update(question, place, all) {
    setText(this._title, all > 1 ? `Question ${place + 1} of ${all}` : "Question");
    setText(this._hint, question.waiting ? "" : "The agent is still at work. Your answer is kept, and used as soon as it pauses.");
    const kept = question.reply !== null;
    if (kept && this._answers.contains(document.activeElement)) this._title.focus();
    this._answers.hidden = kept;
    this._kept.hidden = !kept;
    setText(this._kept, kept ? `Your answer is kept: ${oneLine(question.reply, 400)}` : "");
  }

  _ways(question) {
    if (question.question === null) return [this._form(question.form)];
    return [this._options(question.options ?? []), this._free(question.options !== null)];
  }

  _options(options) {
    if (options.length === 0) return null;
    const buttons = options.map((option) =>
      el("button", { type: "button", class: "option", dir: "auto", onclick: () => this._send(option) }, oneLine(option, 500)),
    );
    return el("div", { class: "options", role: "group", "aria-label": "Suggested answers" }, buttons);
  }

  _free(other) {
    const key = `answer:${this._id}`;
    const id = newId("answer");
    const hint = newId("hint");
    const box = el("textarea", { id, rows: 2, maxlength: 100_000, dir: "auto", "aria-describedby": `${hint} ${this._problem.id}` });
    box.value = sessionStorage.getItem(key) ?? "";
    box.addEventListener("input", () => sessionStorage.setItem(key, box.value));
    const form = el(
      "form",
      { novalidate: true },
      el("label", { for: id }, other ? "Or in your own words" : "Your answer"),
      box,
      el("div", { class: "buttons" }, el("p", { class: "hint", id: hint }, "Enter sends, Shift+Enter begins a new line."), el("button", { type: "submit", class: "primary" }, "Send")),
    );
    sendsOnEnter(box, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const text = box.value.trim();
      if (text === "") this._refuse("Write an answer first.", box);
      else if (await this._send(text)) sessionStorage.removeItem(key);
    });
    return form;
  }

  _form(schema) {
    const fields = formOf(schema);
    const form = el("form", { class: "schema", novalidate: true }, fields.element, el("div", { class: "buttons" }, el("button", { type: "submit", class: "primary" }, "Send")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const found = fields.read();
      if (found.problem) this._refuse("Something in the form is missing or wrong.", found.control);
      else this._send(JSON.stringify(found.value ?? {}));
    });
    return form;
  }

  _refuse(problem, control) {
    setText(this._problem, problem);
    control?.focus();
  }

  /** True once the server has it. The buttons stay where they are, so that the focus does, too. */
  async _send(message) {
    if (this._sending) return false;
    this._sending = true;
    this.element.setAttribute("aria-busy", "true");
    setText(this._problem, "");
    if (this._reply?.message !== message) this._reply = { id: api.replyId(), message };
    try {
      const outcome = await api.reply(this._id, this._reply.id, message);
      announce(outcome.outcome === "kept" ? "Your answer is kept until the agent pauses." : "Your answer was sent.");
      return true;
    } catch (error) {
      setText(this._problem, TOO_LATE[error.reason] ?? error.message);
      return false;
    } finally {
      this._sending = false;
      this.element.removeAttribute("aria-busy");
      this._answered();
    }
  }
}

function context(text) {
  const inner = textBlock(text, { name: "context" });
  return text.length <= 600 ? el("div", { class: "context" }, inner) : foldedElement("What to know", [inner], "context");
}

/** Enter sends, as in a chat; not while an input method composes. */
export function sendsOnEnter(box, form) {
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.altKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
}
