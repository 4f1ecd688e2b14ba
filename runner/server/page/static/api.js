// The server's JSON API, as docs/schemas/openapi.json describes it. Every request is bounded in time.

const TIMEOUT_MS = 30_000;

/** What the server refused, or that it could not be reached (`status` 0). */
export class ApiError extends Error {
  constructor(status, reason, detail) {
    super(detail);
    this.status = status;
    this.reason = reason;
  }
}

async function call(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, credentials: "same-origin", signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch {
    throw new ApiError(0, "unreachable", "The server does not answer. What you wrote is still here: try again.");
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new ApiError(answer.status, body?.title ?? "error", sentence(body?.detail ?? answer.statusText));
  return body;
}

const get = (path) => call(path, {});
const post = (path, body) =>
  call(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-runner": "1" },
    body: JSON.stringify(body),
  });

const segment = encodeURIComponent;

export const listSessions = (limit) => get(`/api/sessions?limit=${limit}`);
export const session = (id) => get(`/api/sessions/${segment(id)}`);
export const transcript = (id, before) =>
  get(`/api/sessions/${segment(id)}/transcript${before === undefined ? "" : `?before=${before}`}`);
export const startTask = (message, sessionId) =>
  post("/api/sessions", sessionId ? { message, session_id: sessionId.id, owner: sessionId.owner } : { message });
export const reply = (questionId, replyId, message) =>
  post(`/api/questions/${segment(questionId)}/reply`, { reply_id: replyId, message });
export const cancel = (taskId) => post(`/api/tasks/${segment(taskId)}/cancel`, {});
export const eventsPath = (id, cursor) => `/api/sessions/${segment(id)}/events?after=${segment(cursor)}`;

/** A new one for each answer, the same for each try of it. */
export function replyId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `w-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function sentence(text) {
  const line = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(line) ? line : `${line}.`;
}
