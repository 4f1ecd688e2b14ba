// The page as a whole: which session is shown, the list beside it, the dialogs, and whether the server is there.

import * as api from "./api.js";
import { sendsOnEnter } from "./cards.js";
import { el, setText } from "./dom.js";
import { SessionPage } from "./session.js";
import { SessionList } from "./sessions.js";
import { refreshTimes } from "./states.js";
import { count } from "./text.js";

const TIMES_MS = 30_000;
const byId = (id) => document.getElementById(id);
const main = byId("main");
let shown = null;
let shownId = null;
let signedOut = false;

// --- the server is there, or not --------------------------------------------------------------------------------

const there = { list: true, events: true };

function line(what, connected) {
  there[what] = connected;
  const all = there.list && (there.events || shown === null);
  byId("line").dataset.look = all ? "live" : "lost";
  setText(byId("line"), all ? "Live" : "Connecting again…");
}

function failed(error) {
  if (error.status === 401 && !signedOut) {
    signedOut = true;
    shown?.close();
    sessions.stop();
    main.replaceChildren(el("div", { class: "blank" }, el("h1", {}, "Signed out"), el("p", {}, "The server does not know this browser any more."), el("p", {}, el("a", { href: "/", class: "button primary" }, "Sign in"))));
  }
  if (error.status === 0) line("list", false);
}

// --- which session ----------------------------------------------------------------------------------------------

function wantedId() {
  const match = /^#\/sessions\/([^/]+)$/.exec(location.hash);
  try {
    return match && decodeURIComponent(match[1]);
  } catch {
    return null;
  }
}

function show(id, { focus = false } = {}) {
  toggleSessions(false);
  if (id === shownId) return;
  shown?.close();
  shownId = id;
  sessions.choose(id);
  tellWaiting();
  window.scrollTo(0, 0);
  const toPage = { line: (connected) => line("events", connected), failed, cancel: askToCancel, changed: () => sessions.refresh() };
  const page = new SessionPage(id, main, toPage);
  shown = page;
  page.sync().then(() => focus && shown === page && page.focusTitle());
}

const sessions = new SessionList(listed, failed);

let known = [];

function listed(summaries) {
  known = summaries;
  line("list", true);
  tellWaiting();
  if (wantedId() !== null || shownId !== null) return;
  if (summaries.length > 0) {
    const first = summaries.find((summary) => summary.state === "WAITING_INPUT") ?? summaries[0];
    history.replaceState(null, "", `#/sessions/${encodeURIComponent(first.session_id)}`);
    show(first.session_id);
  } else if (!main.querySelector(".blank")) main.replaceChildren(blank());
}

/** In the title of the window, and as a way to the next session that waits. */
function tellWaiting() {
  const waiting = known.filter((summary) => summary.state === "WAITING_INPUT");
  document.title = waiting.length > 0 ? `(${waiting.length}) Pipeline runner` : "Pipeline runner";
  const others = waiting.filter((summary) => summary.session_id !== shownId);
  byId("waiting").hidden = others.length === 0;
  if (others.length === 0) return;
  byId("waiting").href = `#/sessions/${encodeURIComponent(others[0].session_id)}`;
  setText(byId("waiting"), `${count(others.length, "other task")} ${others.length === 1 ? "waits" : "wait"} for you`);
}

function blank() {
  const start = el("button", { type: "button", class: "primary", onclick: () => openNewTask() }, "Start the first task");
  return el("div", { class: "blank" }, el("h1", {}, "Nothing here yet"), el("p", {}, "A task is what an agent is asked to do. It may ask back, and it ends with an answer."), el("p", {}, start));
}

window.addEventListener("hashchange", () => {
  if (wantedId() !== null) show(wantedId(), { focus: true });
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden) shown?.pause();
  else {
    shown?.resume();
    sessions.refresh();
  }
});

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

function toggleSessions(open) {
  byId("sessions-toggle").setAttribute("aria-expanded", String(open));
}

byId("sessions-toggle").addEventListener("click", () => {
  toggleSessions(byId("sessions-toggle").getAttribute("aria-expanded") !== "true");
});

// --- dialogs ----------------------------------------------------------------------------------------------------

function openNewTask() {
  setText(byId("new-task-error"), "");
  byId("new-task-dialog").showModal();
  byId("new-task-message").focus();
}

byId("new-task").addEventListener("click", openNewTask);
byId("new-task-close").addEventListener("click", () => byId("new-task-dialog").close());
sendsOnEnter(byId("new-task-message"), byId("new-task-form"));
byId("new-task-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const box = byId("new-task-message");
  const text = box.value.trim();
  if (text === "") {
    setText(byId("new-task-error"), "Write what is to be done first.");
    box.focus();
    return;
  }
  await guarded(event.target, byId("new-task-error"), async () => {
    const made = await api.startTask(text, null);
    box.value = "";
    byId("new-task-dialog").close();
    location.hash = `#/sessions/${encodeURIComponent(made.session_id)}`;
    sessions.refresh();
  });
});

let cancelling = null;

function askToCancel(task) {
  cancelling = task;
  setText(byId("cancel-error"), "");
  byId("cancel-dialog").showModal();
}

byId("cancel-keep").addEventListener("click", () => byId("cancel-dialog").close());
byId("cancel-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  await guarded(event.target, byId("cancel-error"), async () => {
    await api.cancel(cancelling.task_id);
    byId("cancel-dialog").close();
    shown?.focusTitle();
    sessions.refresh();
  });
});

/** Once at a time; what the server refuses is said. */
async function guarded(form, problem, act) {
  if (form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  setText(problem, "");
  try {
    await act();
  } catch (error) {
    setText(problem, error.message);
  }
  form.ariaBusy = null;
}

// ----------------------------------------------------------------------------------------------------------------

setInterval(refreshTimes, TIMES_MS);
if (wantedId() !== null) show(wantedId());
sessions.refresh();
