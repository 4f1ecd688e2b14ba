"""All SQL of the server over its tables: reads and writes of one transaction. Decides nothing; `settlement` does.

Every look-up that a request makes goes by an index, so that ten thousand waiting tasks cost as much as one. Refuses to
be used outside of a transaction: `database.py` opens it, and what a job wrote stays only if all of it did.
"""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from settlement.commit_rule import Card, Judgement, Pipeline, Reply, RestorePoint
from settlement.receiving import Problem
from settlement.routing import Address, CardPlace, quote_key, user_of
from settlement.tasks import Task, TaskState


class SessionRow(Struct, frozen=True):
    session_id: str
    stream_id: str
    owner: str
    created_s: float
    restore_point: RestorePoint | None


class PipelineRow(Struct, frozen=True):
    """A pipeline with what the orchestrator keeps about it. `standing`: `queued`, `launched` or `ended`."""

    pipeline_id: str
    session_id: str
    task_id: str
    input: JsonObject
    standing: str
    attempt: int
    not_before_s: float


class AttemptRow(Struct, frozen=True):
    pipeline_id: str
    attempt: int
    pid: int | None
    born: str | None


class Rows:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def _one(self, sql: str, *values: Any) -> sqlite3.Row | None:
        return self._db.execute(sql, values).fetchone()

    def all(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        return self._db.execute(sql, values).fetchall()

    # --- sessions and tasks ---------------------------------------------------------------------------------

    def session(self, session_id: str) -> SessionRow | None:
        row = self._one("SELECT * FROM sessions WHERE session_id = ?", session_id)
        if row is None:
            return None
        point = None if row["manifest"] is None else RestorePoint(row["digest"], row["manifest"])
        return SessionRow(row["session_id"], row["stream_id"], row["owner"], row["created_s"], point)

    def add_session(self, session_id: str, stream_id: str, owner: str, now_s: float) -> None:
        self._db.execute(
            "INSERT INTO sessions (session_id, stream_id, owner, created_s) VALUES (?, ?, ?, ?)",
            (session_id, stream_id, owner, now_s),
        )

    def move_session(self, session_id: str, point: RestorePoint | None) -> None:
        manifest, digest = (None, None) if point is None else (point.manifest, point.digest)
        self._db.execute(
            "UPDATE sessions SET manifest = ?, digest = ? WHERE session_id = ?", (manifest, digest, session_id)
        )

    def owns_stream(self, owner: str, stream_id: str) -> bool:
        found = self._one("SELECT 1 FROM sessions WHERE owner = ? AND stream_id = ? LIMIT 1", owner, stream_id)
        return found is not None

    def task(self, task_id: str) -> Task | None:
        row = self._one("SELECT * FROM tasks WHERE task_id = ?", task_id)
        return None if row is None else _task(row)

    def last_task(self, session_id: str) -> Task | None:
        row = self._one("SELECT * FROM tasks WHERE session_id = ? ORDER BY number DESC LIMIT 1", session_id)
        return None if row is None else _task(row)

    def add_task(self, task: Task, message: str, now_s: float) -> None:
        self._db.execute(
            "INSERT INTO tasks (task_id, session_id, state, message, created_s, changed_s) VALUES (?, ?, ?, ?, ?, ?)",
            (task.task_id, task.session_id, task.state.value, message, now_s, now_s),
        )

    def save_task(self, task: Task, now_s: float) -> None:
        """Its cards, too, know whether it waits."""
        self._db.execute(
            "UPDATE tasks SET state = ?, reason = ?, deadline_s = ?, changed_s = ? WHERE task_id = ?",
            (task.state.value, task.reason, task.deadline_s, now_s, task.task_id),
        )
        waiting = task.state is TaskState.WAITING_INPUT
        self._db.execute(
            "UPDATE cards SET waiting = ? WHERE pipeline_id IN (SELECT pipeline_id FROM pipelines WHERE task_id = ?) "
            "AND standing = 'open'",
            (waiting, task.task_id),
        )

    def due_tasks(self, now_s: float, limit: int = 100) -> list[Task]:
        return [_task(row) for row in self.all("SELECT * FROM tasks WHERE deadline_s <= ? LIMIT ?", now_s, limit)]

    # --- pipelines, as the rules know them ------------------------------------------------------------------

    def pipeline(self, pipeline_id: str) -> tuple[str, Pipeline] | None:
        """The pipeline and its task's id."""
        row = self._one("SELECT * FROM pipelines WHERE pipeline_id = ?", pipeline_id)
        if row is None:
            return None
        cards = self.all("SELECT * FROM cards WHERE pipeline_id = ? ORDER BY number", pipeline_id)
        kept = self.all("SELECT * FROM replies WHERE pipeline_id = ? AND kept = 1 ORDER BY number", pipeline_id)
        refused = None if row["refused"] is None else Problem(**json.loads(row["refused"]))
        return row["task_id"], Pipeline(
            pipeline_id,
            row["session_id"],
            row["launched"],
            row["heard"],
            tuple(Card(card["question_id"], card["tool_call_id"], card["digest"], card["standing"]) for card in cards),
            tuple(Reply(reply["reply_id"], reply["question_id"], reply["message"]) for reply in kept),
            None if row["judged"] is None else Judgement(row["judged"], refused),
        )

    def save_pipeline(self, before: Pipeline, after: Pipeline) -> None:
        """What has changed; new cards are `add_card`'s, new replies `add_reply`'s."""
        judgement, refused = after.judgement, None
        if judgement is not None and judgement.refused is not None:
            refused = json.dumps({"reason": judgement.refused.reason, "detail": judgement.refused.detail})
        self._db.execute(
            "UPDATE pipelines SET heard = ?, judged = ?, refused = ? WHERE pipeline_id = ?",
            (after.heard, judgement and judgement.digest, refused, after.pipeline_id),
        )
        standing = {card.question_id: card.standing for card in before.cards}
        for card in after.cards:
            if standing.get(card.question_id, card.standing) != card.standing:
                self._db.execute(
                    "UPDATE cards SET standing = ? WHERE question_id = ?", (card.standing, card.question_id)
                )
        for reply in set(before.replies) - set(after.replies):
            self._db.execute("UPDATE replies SET kept = 0 WHERE reply_id = ?", (reply.reply_id,))

    def add_card(self, card: Card, place: CardPlace, text: str, body: str) -> None:
        self._db.execute(
            "INSERT INTO cards (question_id, pipeline_id, task_id, tool_call_id, digest, standing, stream_id, owner, "
            "user, quote, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                card.question_id,
                place.pipeline_id,
                place.task_id,
                card.tool_call_id,
                card.digest,
                card.standing,
                place.stream_id,
                place.owner,
                user_of(place.owner),
                quote_key(text),
                body,
            ),
        )

    def save_heard(self, pipeline_id: str, attempt: int) -> None:
        self._db.execute("UPDATE pipelines SET heard = ? WHERE pipeline_id = ?", (attempt, pipeline_id))

    def save_body(self, pipeline_id: str, body: str) -> None:
        self._db.execute("UPDATE pipelines SET body = ? WHERE pipeline_id = ?", (body, pipeline_id))

    # --- cards, as routing asks for them (settlement.routing.Cards) -----------------------------------------

    def named(self, question_id: str) -> CardPlace | None:
        return _place(self._one("SELECT * FROM cards WHERE question_id = ?", question_id))

    def quoted(self, address: Address, key: str) -> CardPlace | None:
        whose, who = _whose(address)
        sql = f"SELECT * FROM cards WHERE stream_id = ? AND quote = ? AND {whose} "  # noqa: S608 - one of two column names
        values = (address.stream_id, key, who)
        sql += "AND standing = ? ORDER BY number LIMIT 1"
        found = self._one(sql, *values, "open")
        if found is None:
            closed = [self._one(sql, *values, standing) for standing in ("answered", "withdrawn")]
            found = min((row for row in closed if row is not None), key=lambda row: row["number"], default=None)
        return _place(found)

    def first(self, address: Address, *, waiting: bool) -> CardPlace | None:
        whose, who = _whose(address)
        sql = (
            f"SELECT * FROM cards WHERE stream_id = ? AND {whose} AND standing = 'open' AND waiting = ? "  # noqa: S608 - see above
            "AND (waiting = 1 OR replied = 0) ORDER BY number LIMIT 1"
        )
        return _place(self._one(sql, address.stream_id, who, waiting))

    # --- replies --------------------------------------------------------------------------------------------

    def reply_answer(self, reply_id: str) -> tuple[str, JsonObject] | None:
        """The digest of the reply that came under this id, and what was answered."""
        row = self._one("SELECT digest, answer FROM replies WHERE reply_id = ?", reply_id)
        return None if row is None else (row["digest"], json.loads(row["answer"]))

    def add_reply(
        self, reply: Reply, digest: str, pipeline_id: str | None, answer: JsonObject, now_s: float, *, kept: bool
    ) -> None:
        self._db.execute(
            "INSERT INTO replies (reply_id, digest, question_id, pipeline_id, message, kept, answer, at_s) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (reply.reply_id, digest, reply.question_id, pipeline_id, reply.message, kept, json.dumps(answer), now_s),
        )
        if kept:
            self._db.execute("UPDATE cards SET replied = 1 WHERE question_id = ?", (reply.question_id,))

    # --- pipelines, as the orchestrator knows them ----------------------------------------------------------

    def add_pipeline(self, pipeline_id: str, session_id: str, task_id: str, given: JsonObject, now_s: float) -> None:
        self._db.execute(
            "INSERT INTO pipelines (pipeline_id, session_id, task_id, input, standing, created_s) "
            "VALUES (?, ?, ?, ?, 'queued', ?)",
            (pipeline_id, session_id, task_id, json.dumps(given), now_s),
        )

    def pipeline_row(self, pipeline_id: str) -> PipelineRow | None:
        row = self._one("SELECT * FROM pipelines WHERE pipeline_id = ?", pipeline_id)
        return None if row is None else _pipeline_row(row)

    def pipelines_of_task(self, task_id: str) -> list[PipelineRow]:
        return [
            _pipeline_row(row) for row in self.all("SELECT * FROM pipelines WHERE task_id = ? ORDER BY number", task_id)
        ]

    def launchable(self, now_s: float, limit: int) -> list[PipelineRow]:
        """The oldest queued pipelines, at most one of each session, and none beside a pipeline that is at work."""
        rows = self.all(
            "SELECT * FROM pipelines AS mine WHERE standing = 'queued' AND not_before_s <= ? AND NOT EXISTS ("
            "SELECT 1 FROM pipelines AS other WHERE other.standing <> 'ended' AND other.session_id = mine.session_id "
            "AND other.number < mine.number) ORDER BY number LIMIT ?",
            now_s,
            limit,
        )
        return [_pipeline_row(row) for row in rows]

    def launched_pipelines(self) -> list[PipelineRow]:
        return [_pipeline_row(row) for row in self.all("SELECT * FROM pipelines WHERE standing = 'launched'")]

    def unwanted_pipelines(self) -> set[str]:
        """Those at work for a task that is over already."""
        rows = self.all(
            "SELECT pipeline_id FROM pipelines JOIN tasks USING (task_id) WHERE standing = 'launched' AND state IN "
            "('SUCCEEDED', 'FAILED', 'CANCELLED') AND judged IS NULL"
        )
        return {row["pipeline_id"] for row in rows}

    def ordinal(self, pipeline_id: str) -> int:
        """1 for the first pipeline of its session."""
        row = self._one(
            "SELECT count(*) FROM pipelines AS mine JOIN pipelines AS earlier ON earlier.session_id = mine.session_id "
            "AND earlier.number <= mine.number WHERE mine.pipeline_id = ?",
            pipeline_id,
        )
        return 0 if row is None else row[0]

    def mark_launched(self, pipeline_id: str, attempt: int, now_s: float) -> None:
        self._db.execute(
            "UPDATE pipelines SET standing = 'launched', launched = ? WHERE pipeline_id = ?", (attempt, pipeline_id)
        )
        self._db.execute(
            "INSERT INTO attempts (pipeline_id, attempt, started_s) VALUES (?, ?, ?)", (pipeline_id, attempt, now_s)
        )

    def mark_started(self, pipeline_id: str, attempt: int, pid: int, born: str) -> None:
        self._db.execute(
            "UPDATE attempts SET pid = ?, born = ? WHERE pipeline_id = ? AND attempt = ?",
            (pid, born, pipeline_id, attempt),
        )

    def mark_gone(self, pipeline_id: str, attempt: int, exit_code: int | None, now_s: float) -> None:
        self._db.execute(
            "UPDATE attempts SET ended_s = ?, exit = ? WHERE pipeline_id = ? AND attempt = ?",
            (now_s, exit_code, pipeline_id, attempt),
        )

    def mark_queued(self, pipeline_id: str, not_before_s: float) -> None:
        self._db.execute(
            "UPDATE pipelines SET standing = 'queued', not_before_s = ? WHERE pipeline_id = ?",
            (not_before_s, pipeline_id),
        )

    def mark_ended(self, pipeline_id: str, error: str | None, now_s: float) -> None:
        self._db.execute(
            "UPDATE pipelines SET standing = 'ended', error = ?, ended_s = ? WHERE pipeline_id = ?",
            (error, now_s, pipeline_id),
        )

    def attempt(self, pipeline_id: str, attempt: int) -> AttemptRow | None:
        row = self._one("SELECT * FROM attempts WHERE pipeline_id = ? AND attempt = ?", pipeline_id, attempt)
        return None if row is None else AttemptRow(pipeline_id, attempt, row["pid"], row["born"])

    # --- what people see ------------------------------------------------------------------------------------

    def sessions(self, limit: int) -> list[sqlite3.Row]:
        """The youngest first, each with its last task and the number of its open cards."""
        return self.all(
            "SELECT s.session_id, s.stream_id, s.owner, s.created_s, t.task_id, t.state, t.reason, t.message, "
            "t.changed_s, (SELECT count(*) FROM pipelines p JOIN cards c USING (pipeline_id) WHERE p.task_id = "
            "t.task_id AND c.standing = 'open') AS open_questions FROM sessions s JOIN tasks t ON t.number = "
            "(SELECT max(number) FROM tasks WHERE session_id = s.session_id) ORDER BY s.created_s DESC LIMIT ?",
            limit,
        )

    def tasks_of(self, session_id: str) -> list[sqlite3.Row]:
        return self.all("SELECT * FROM tasks WHERE session_id = ? ORDER BY number", session_id)

    def pipelines_of(self, session_id: str) -> list[sqlite3.Row]:
        return self.all("SELECT * FROM pipelines WHERE session_id = ? ORDER BY number", session_id)

    def attempts_of(self, pipeline_id: str) -> list[sqlite3.Row]:
        return self.all("SELECT * FROM attempts WHERE pipeline_id = ? ORDER BY attempt", pipeline_id)

    def cards_of(self, pipeline_id: str) -> list[sqlite3.Row]:
        """Each with the answer that was taken or kept, if any."""
        return self.all(
            "SELECT c.*, (SELECT r.message FROM replies r WHERE r.question_id = c.question_id AND "
            "json_extract(r.answer, '$.outcome') <> 'not_taken' ORDER BY r.number LIMIT 1) AS reply "
            "FROM cards c WHERE c.pipeline_id = ? ORDER BY c.number",
            pipeline_id,
        )

    def notices_of(self, session_id: str) -> list[sqlite3.Row]:
        return self.all(
            "SELECT number, data, at_s FROM events WHERE session_id = ? AND type = 'notice' ORDER BY number", session_id
        )

    # --- events ---------------------------------------------------------------------------------------------

    def add_event(self, session_id: str, kind: str, data: JsonObject, now_s: float) -> None:
        self._db.execute(
            "INSERT INTO events (session_id, type, data, at_s) VALUES (?, ?, ?, ?)",
            (session_id, kind, json.dumps(data), now_s),
        )

    def events_after(self, session_id: str, number: int, limit: int = 200) -> Iterator[tuple[int, str, str]]:
        for row in self.all(
            "SELECT number, type, data FROM events WHERE session_id = ? AND number > ? ORDER BY number LIMIT ?",
            session_id,
            number,
            limit,
        ):
            yield row["number"], row["type"], row["data"]

    def last_event(self) -> int:
        row = self._one("SELECT max(number) FROM events")
        return 0 if row is None or row[0] is None else row[0]


def _task(row: sqlite3.Row) -> Task:
    return Task(row["task_id"], row["session_id"], TaskState(row["state"]), row["reason"], row["deadline_s"])


def _pipeline_row(row: sqlite3.Row) -> PipelineRow:
    given = json.loads(row["input"])
    names = ("standing", "launched", "not_before_s")
    return PipelineRow(row["pipeline_id"], row["session_id"], row["task_id"], given, *(row[name] for name in names))


def _place(row: sqlite3.Row | None) -> CardPlace | None:
    if row is None:
        return None
    return CardPlace(row["question_id"], row["pipeline_id"], row["task_id"], row["stream_id"], row["owner"])


def _whose(address: Address) -> tuple[str, str]:
    return ("owner = ?", address.owner) if address.owner is not None else ("user = ?", address.user)
