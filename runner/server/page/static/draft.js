// The message that is being written right now. Its end is shown, at most once a frame, until the whole message comes.

import { atEnd, el, toEnd } from "./dom.js";
import { visible } from "./text.js";

const SHOWN_CHARACTERS = 4000;
const KINDS = { text: "text", thinking: "text thinking", toolcall: "hint" };

export class Draft {
  constructor() {
    this._blocks = new Map();
    this._frame = null;
    this._body = el("div");
    this.element = el(
      "article",
      { class: "message assistant draft", "aria-label": "Agent, writing", hidden: true },
      el("h3", {}, "Agent ", el("span", { class: "writing" }, "is writing…")),
      this._body,
    );
  }

  begin() {
    this.clear();
    this.element.hidden = false;
  }

  /** An event of the model's answer: `text_delta` and the like. */
  add(event) {
    const [kind, phase] = String(event.type ?? "").split("_");
    if (!(kind in KINDS)) return;
    this.element.hidden = false;
    const block = this._block(event.contentIndex ?? 0, kind, phase);
    if (kind === "toolcall") return;
    if (phase === "delta") block.text += event.delta ?? "";
    // The beginning was missed if the page came later: the whole text is in the end.
    if (phase === "end" && typeof event.content === "string") block.text = event.content;
    block.changed = true;
    this._frame ??= requestAnimationFrame(() => this._flush());
  }

  clear() {
    if (this._frame !== null) cancelAnimationFrame(this._frame);
    this._frame = null;
    this._blocks.clear();
    this._body.replaceChildren();
    this.element.hidden = true;
  }

  _block(index, kind, phase) {
    let block = this._blocks.get(index);
    if (block === undefined) {
      const words = kind === "toolcall" ? "Prepares a tool call…" : "";
      block = { element: el("p", { class: KINDS[kind], dir: "auto" }, words), text: phase === "delta" ? "…" : "", changed: false };
      this._blocks.set(index, block);
      this._body.append(block.element);
    }
    return block;
  }

  _flush() {
    this._frame = null;
    const stick = atEnd();
    for (const block of this._blocks.values()) {
      if (!block.changed) continue;
      block.changed = false;
      const cut = block.text.length > SHOWN_CHARACTERS;
      block.element.textContent = (cut ? "… " : "") + visible(block.text.slice(-SHOWN_CHARACTERS));
    }
    if (stick) toEnd();
  }
}
