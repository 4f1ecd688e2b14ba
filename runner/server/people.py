"""What the server does for people, each in one transaction: a new task, a reply, a chat message, a cancel, a deadline.

Whom a reply is for and what comes of it is `settlement.routing`'s; here it is stored, and the second delivery of a
reply gets the answer of the first.
"""

import hashlib
from typing import Literal

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from runner.server.rows import Rows
from runner.server.taking import Moment, end_task, queue_pipeline, save_task, settle_debts
from settlement.commit_rule import Reply
from settlement.routing import CardPlace, ChatMessage, Keep, NotTaken, Wake, decide_reply, route
from settlement.tasks import Task, cancel, expire
from settlement.wire import json_bytes


class Denied(Struct, frozen=True):
    """A person's request that changes nothing. `reason` is for machines, `detail` says what to do."""

    status: Literal[404, 409, 422]
    reason: str
    detail: str


class NewTask(Struct, frozen=True):
    session_id: str
    task_id: str


def start_task(
    rows: Rows,
    message: str,
    new_task: NewTask,
    stream_id: str | None,
    owner: str,
    moment: Moment,
) -> Denied | NewTask:
    """Queue a task, in a new session or in one whose last task is over."""
    session_id = new_task.session_id
    session = rows.session(session_id)
    if session is None:
        rows.add_session(session_id, stream_id or f"local:{session_id}", owner, moment.now_s)
    elif session.owner != owner or stream_id not in (None, session.stream_id):
        return Denied(422, "other-session", f"session {session_id} has another owner or stream")
    last = rows.last_task(session_id)
    if last is not None and not last.over:
        return Denied(409, "busy", f"session {session_id} is still at work: answer its question, or cancel its task")
    task = Task(new_task.task_id, session_id)
    rows.add_task(task, message, moment.now_s)
    save_task(rows, task, moment)
    queue_pipeline(rows, task, {"message": message}, moment)
    return new_task


def take_message(rows: Rows, message: ChatMessage | None, reply_id: str, moment: Moment) -> JsonObject | Denied:
    """A chat message, for whichever task waits for this person in this stream."""
    if message is None:
        return _answer(NotTaken("skipped"), None)
    said = [message.stream_id, message.platform, message.user, message.text, message.question_id, message.quote]
    known = _known(rows, reply_id, _digest(said))
    if known is not None:
        return known
    place = route(message, rows)
    return _deliver(rows, place, Reply(reply_id, _asked(place), message.text), _digest(said), moment)


def take_reply(rows: Rows, reply: Reply, moment: Moment) -> JsonObject | Denied:
    """A reply that names its question, from someone who may answer every question here."""
    digest = _digest([reply.question_id, reply.message])
    known = _known(rows, reply.reply_id, digest)
    if known is not None:
        return known
    place = rows.named(reply.question_id)
    if place is None:
        return Denied(404, "unknown-question", f"there is no question {reply.question_id}")
    return _deliver(rows, place, reply, digest, moment)


def cancel_task(rows: Rows, task_id: str, moment: Moment) -> Task | Denied:
    """Cancelled, now or before. The process that may still run for it is the orchestrator's to stop."""
    task = rows.task(task_id)
    if task is None:
        return Denied(404, "unknown-task", f"there is no task {task_id}")
    cancelled = cancel(task)
    if cancelled is not None:
        end_task(rows, cancelled, moment)
        return cancelled
    if task.state.value == "CANCELLED":
        return task
    return Denied(409, "task-over", f"task {task_id} has ended as {task.state.value}")


def expire_tasks(rows: Rows, moment: Moment) -> list[Task]:
    """End the tasks whose deadline for a reply has passed."""
    expired = [ended for task in rows.due_tasks(moment.now_s) if (ended := expire(task, moment.now_s)) is not None]
    for task in expired:
        end_task(rows, task, moment)
    return expired


def _deliver(rows: Rows, place: CardPlace | NotTaken, reply: Reply, digest: str, moment: Moment) -> JsonObject | Denied:
    decision: Wake | Keep | NotTaken
    if isinstance(place, NotTaken):
        decision, pipeline_id = place, None
    else:
        decision, pipeline_id = _decide(rows, place, reply, moment), place.pipeline_id
    answer = _answer(decision, None if isinstance(place, NotTaken) else place)
    rows.add_reply(reply, digest, pipeline_id, answer, moment.now_s, kept=isinstance(decision, Keep))
    return answer


def _decide(rows: Rows, place: CardPlace, reply: Reply, moment: Moment) -> Wake | Keep | NotTaken:
    found, task = rows.pipeline(place.pipeline_id), rows.task(place.task_id)
    assert found is not None, "a card has a pipeline"
    assert task is not None, "a card has a task"
    _, pipeline = found
    decision = decide_reply(task, pipeline, reply, moment.now_s)
    if isinstance(decision, Wake):
        rows.save_pipeline(pipeline, decision.pipeline)
        save_task(rows, decision.task, moment)
        settle_debts(rows, decision.task, decision.pipeline, decision.owed, moment)
    return decision


def _answer(decision: Wake | Keep | NotTaken, place: CardPlace | None) -> JsonObject:
    outcome = {Wake: "woken", Keep: "kept", NotTaken: "not_taken"}[type(decision)]
    return {
        "outcome": outcome,
        "reason": decision.reason if isinstance(decision, NotTaken) else None,
        "task_id": None if place is None else place.task_id,
        "question_id": None if place is None else place.question_id,
    }


def _known(rows: Rows, reply_id: str, digest: str) -> JsonObject | Denied | None:
    known = rows.reply_answer(reply_id)
    if known is None:
        return None
    earlier, answer = known
    return answer if earlier == digest else Denied(422, "other-reply", f"reply {reply_id} came before with other words")


def _asked(place: CardPlace | NotTaken) -> str:
    return "" if isinstance(place, NotTaken) else place.question_id


def _digest(said: list[str | None]) -> str:
    return hashlib.sha256(json_bytes(said)).hexdigest()
