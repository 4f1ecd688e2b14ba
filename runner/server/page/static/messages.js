// One message of the transcript as elements: words, thinking, tool calls with their results, images.

import { el } from "./dom.js";
import { words } from "./states.js";
import { oneLine, size, textBlock } from "./text.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BASE64 = /^[A-Za-z0-9+/=\s]+$/;
const WHO = { user: "You", assistant: "Agent", custom: "Note", system: "System prompt", toolResult: "Tool" };

/** The blocks of a message's content, whatever form it has. */
export function blocksOf(message) {
  const content = message?.content;
  if (typeof content === "string") return [{ type: "text", text: content }];
  return Array.isArray(content) ? content.filter((block) => block && typeof block === "object") : [];
}

export function textOf(message) {
  return blocksOf(message)
    .filter((block) => block.type === "text" && typeof block.text === "string")
    .map((block) => block.text)
    .join("\n");
}

/** An article for a message. `calls` gets each tool call's element by its id, for the result to come. */
export function messageElement(message, calls) {
  const role = typeof message?.role === "string" ? message.role : "unknown";
  const who = WHO[role] ?? oneLine(role, 40);
  const body = blocksOf(message).map((block) => blockElement(block, role, calls));
  const shown = role === "system" ? foldedElement("System prompt", body) : body;
  const look = `message ${WHO[role] ? role : "custom"}`;
  return el("article", { class: look, "aria-label": who }, el("h3", {}, who), shown, failure(message));
}

function failure(message) {
  const problem = {
    error: () => `The model failed: ${oneLine(String(message.errorMessage ?? "no reason given"), 400)}`,
    aborted: () => "Stopped before it was complete.",
    length: () => "Cut off: the model's limit was reached.",
  }[message?.stopReason];
  return problem ? el("p", { class: "problem" }, problem()) : null;
}

function blockElement(block, role, calls) {
  switch (block.type) {
    case "text":
      if (!block.text) return null;
      return (role === "user" && filledForm(String(block.text))) || proseElement(String(block.text));
    case "thinking":
      return foldedElement("Thinking", [textBlock(String(block.thinking ?? ""), { name: "thought" })], "thinking");
    case "toolCall":
      return callElement(block, calls);
    case "image":
      return imageElement(block, role === "user" ? "Image from you" : "Image");
    default:
      return foldedElement(`Content of type ${oneLine(String(block.type), 40)}`, [jsonElement(block)]);
  }
}

export function foldedElement(title, children, className = "") {
  return el("details", { class: `fold ${className}` }, el("summary", {}, title), el("div", { class: "inside" }, children));
}

const jsonElement = (value) => textBlock(JSON.stringify(value, null, 2) ?? "", { tag: "pre", name: "value", className: "code" });

/** The answer to a form is JSON: one line for each of its values. */
function filledForm(text) {
  if (!text.startsWith("{") || text.length > 20_000) return null;
  let values;
  try {
    values = Object.entries(JSON.parse(text));
  } catch {
    return null;
  }
  const shown = (value) => oneLine(typeof value === "string" ? value : JSON.stringify(value), 400);
  const rows = values.map(([name, value]) => el("div", {}, el("dt", { dir: "auto" }, oneLine(name, 60)), el("dd", { dir: "auto" }, shown(value))));
  return rows.length > 0 ? el("dl", { class: "filled" }, rows) : el("p", { class: "hint" }, "An empty form.");
}

/** Fenced code stands out; everything else stays the words that were written. */
function proseElement(text) {
  const pieces = text.split(/^```[^\n]*\n([\s\S]*?)^```[ \t]*$/m);
  if (pieces.length === 1 || pieces.length > 41) return textBlock(text);
  return el(
    "div",
    {},
    pieces.map((piece, place) => {
      const code = place % 2 === 1;
      const inner = code ? piece.replace(/\n$/, "") : piece.replace(/^\n+|\n+$/g, "");
      return inner && textBlock(inner, code ? { tag: "pre", name: "code", className: "code" } : {});
    }),
  );
}

function imageElement(block, name) {
  const type = String(block.mimeType ?? "");
  const data = String(block.data ?? "");
  if (!IMAGES.has(type) || !BASE64.test(data)) return el("p", { class: "hint" }, "An image that cannot be shown.");
  return el("img", { src: `data:${type};base64,${data}`, alt: name, class: "picture", loading: "lazy" });
}

/** A tool call, folded, with its arguments; the result is put in when it comes. */
function callElement(block, calls) {
  const name = oneLine(String(block.name ?? "tool"), 60);
  const status = el("span", { class: "status" });
  const result = el("div", { class: "result" });
  const asks = name === "ask_user" || name === "collect_form_input";
  const details = el(
    "details",
    { class: `fold call ${asks ? "asks" : ""}` },
    el("summary", {}, el("span", { class: "tool" }, name), el("bdi", { class: "what" }, summaryOf(block.arguments)), status),
    el("div", { class: "inside" }, el("h4", {}, "Arguments"), argumentsElement(block.arguments), result),
  );
  const call = { element: details, status, result, asks, done: false, questionId: null };
  if (typeof block.id === "string") calls.set(block.id, call);
  return details;
}

function summaryOf(given) {
  if (given === null || typeof given !== "object") return "";
  for (const name of ["question", "command", "path", "pattern", "task"]) {
    if (typeof given[name] === "string") return oneLine(given[name], 100);
  }
  const first = Object.values(given).find((value) => typeof value === "string");
  return first === undefined ? "" : oneLine(first, 100);
}

function argumentsElement(given) {
  const command = given?.command;
  if (typeof command === "string" && Object.keys(given).length === 1) {
    return textBlock(command, { tag: "pre", name: "command", className: "code" });
  }
  return jsonElement(given ?? {});
}

/** Put the result into its call. `failed` is said in words. */
export function showResult(call, message) {
  const failed = message.isError === true;
  call.done = true;
  call.questionId = typeof message.details?.question_id === "string" ? message.details.question_id : null;
  setStatus(call, failed ? "failed" : "done", failed ? "failed" : "done");
  const text = textOf(message);
  const shown = text ? [textBlock(text, { tag: "pre", name: "result", className: "code" })] : [];
  const images = blocksOf(message)
    .filter((block) => block.type === "image")
    .map((block) => imageElement(block, "Image from the tool"));
  call.result.replaceChildren(el("h4", {}, failed ? "Error" : "Result"), ...shown, ...images);
  if (!text && images.length === 0) call.result.append(el("p", { class: "hint" }, "Nothing."));
  // Pictures are there to be seen.
  for (const image of images) if (image.tagName === "IMG") call.element.open = true;
}

/** What a running tool has said so far: its end. */
export function showProgress(call, partial) {
  const text = textOf(partial);
  if (call.done || !text) return;
  let shown = call.result.querySelector("pre.progress");
  if (shown === null) {
    shown = el("pre", { class: "code progress", dir: "auto" });
    call.result.replaceChildren(el("h4", {}, "So far"), shown);
  }
  shown.replaceChildren(...textBlock(text.slice(-4000), { tag: "span" }).childNodes);
}

export function setStatus(call, look, text) {
  call.status.dataset.look = look;
  if (call.status.textContent !== text) call.status.textContent = text;
}

/** An entry of the log that is no message, as far as people want to see it. */
export function noteElement(entry) {
  if (entry.type === "compaction" || entry.type === "branch_summary") {
    const title = entry.type === "compaction" ? "What came before was summed up" : "Another branch, summed up";
    return el("div", { class: "note" }, foldedElement(title, [textBlock(String(entry.summary ?? ""), { name: "summary" })]));
  }
  if (entry.type === "unreadable") {
    return el("p", { class: "note problem" }, `A line of the session that cannot be read (${size(entry.bytes ?? 0)} bytes).`);
  }
  return el("div", { class: "note" }, foldedElement(`Entry ${words(oneLine(String(entry.type), 40))}`, [jsonElement(entry)]));
}
