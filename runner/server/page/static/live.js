// What happens in one session, as it happens: server-sent events from a cursor on. The browser resumes a broken stream
// by itself with Last-Event-ID; what it gives up on is opened again here, from the same place.

import { eventsPath } from "./api.js";

const KINDS = ["task", "card", "pipeline", "settled", "notice", "heartbeat", "agent"];
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;

export class Live {
  /** `happened(kind, data)` for each event; `line(connected)` when the connection comes and goes. */
  constructor(sessionId, happened, line) {
    this._sessionId = sessionId;
    this._happened = happened;
    this._line = line;
    this._source = null;
    this._timer = null;
    this._wait = FIRST_WAIT_MS;
    this._cursor = null;
  }

  /** Follow from this cursor on, whatever was followed before. While nobody looks, no connection is held, since a
   * browser has few for one server: `resume` opens it. */
  open(cursor) {
    this.close();
    this._cursor = cursor;
    if (document.hidden) return;
    const source = new EventSource(eventsPath(this._sessionId, cursor));
    this._source = source;
    source.addEventListener("open", () => {
      this._wait = FIRST_WAIT_MS;
      this._line(true);
    });
    source.addEventListener("error", () => this._broken(source));
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        this._cursor = event.lastEventId || this._cursor;
        this._happened(kind, JSON.parse(event.data));
      });
    }
  }

  close() {
    clearTimeout(this._timer);
    this._source?.close();
    this._source = null;
  }

  resume() {
    if (this._source === null && this._cursor !== null) this.open(this._cursor);
  }

  _broken(source) {
    if (source !== this._source) return;
    this._line(false);
    if (source.readyState !== EventSource.CLOSED) return;
    this.close();
    this._timer = setTimeout(() => this.open(this._cursor), this._wait);
    this._wait = Math.min(this._wait * 2, LONGEST_WAIT_MS);
  }
}
