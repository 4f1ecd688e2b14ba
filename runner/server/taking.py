"""What the server does with what runners send, each in one transaction: question, terminal record, heartbeat.

Reads what is stored, lets `settlement` decide, stores what it says. Refuses to answer before that, and to show or
launch anything for a task that is over.
"""

from collections.abc import Callable

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from runner.server.rows import Rows, SessionRow
from settlement.callback import Terminal
from settlement.commit_rule import (
    Commit,
    JudgedBefore,
    Owed,
    Pipeline,
    Refuse,
    Reply,
    ShowCard,
    ShownBefore,
    decide_commit,
    decide_question,
    withdraw_all,
)
from settlement.heartbeat import Heartbeat, HeartbeatAnswer
from settlement.receiving import Problem, ReceivedQuestion, ReceivedTerminal
from settlement.routing import CardPlace
from settlement.tasks import Task, after_terminal


class Moment(Struct, frozen=True):
    """What a transaction may use of the world outside."""

    now_s: float
    new_id: Callable[[], str]
    """The id of a new pipeline."""
    reply_timeout_s: float | None = None

    @property
    def deadline_s(self) -> float | None:
        return None if self.reply_timeout_s is None else self.now_s + self.reply_timeout_s


class _StreamsOf:
    """The streams of one owner, asked for one at a time."""

    def __init__(self, rows: Rows, owner: str) -> None:
        self._rows, self._owner = rows, owner

    def __contains__(self, stream_id: object) -> bool:
        return isinstance(stream_id, str) and self._rows.owns_stream(self._owner, stream_id)


def take_question(rows: Rows, received: ReceivedQuestion, body: str, moment: Moment) -> Problem | None:
    """None: the card is shown, or was before."""
    question = received.question
    found = _found(rows, question.pipeline_id)
    if found is None:
        return _problem(decide_question(None, received, streams=()))
    pipeline, task, session = found
    streams = _StreamsOf(rows, session.owner)
    decision = decide_question(pipeline, received, streams=streams, wanted=not task.over)
    match decision:
        case Problem():
            return decision
        case ShownBefore():
            rows.save_pipeline(pipeline, decision.pipeline)
        case ShowCard(card=card):
            rows.save_pipeline(pipeline, decision.pipeline)
            stream_id = question.stream_id or session.stream_id
            place = CardPlace(card.question_id, pipeline.pipeline_id, task.task_id, stream_id, session.owner)
            rows.add_card(card, place, question.question or "", body)
            say(rows, session.session_id, "card", moment, question_id=card.question_id, standing=card.standing)
    return None


def take_terminal(rows: Rows, received: ReceivedTerminal, body: str, moment: Moment) -> Problem | None:
    """The commit: restore point, task, cards and the next pipeline together, or nothing. None: committed, now or
    before.
    """
    terminal = received.terminal
    found = _found(rows, terminal.pipeline_id)
    if found is None:
        return _problem(decide_commit(None, None, received))
    pipeline, task, session = found
    decision = decide_commit(pipeline, session.restore_point, received, wanted=not task.over)
    match decision:
        case Problem():
            return decision
        case JudgedBefore(refused=refused):
            return refused
        case Commit(restore_point=point):
            rows.move_session(session.session_id, point)
            _judged(rows, task, pipeline, terminal, decision, body, moment)
            return None
        case Refuse(problem=problem):
            _judged(rows, task, pipeline, terminal, decision, body, moment)
            return problem


def _judged(
    rows: Rows,
    task: Task,
    pipeline: Pipeline,
    terminal: Terminal,
    decision: Commit | Refuse,
    body: str,
    moment: Moment,
) -> None:
    rows.save_pipeline(pipeline, decision.pipeline)
    rows.save_body(pipeline.pipeline_id, body)
    say(rows, task.session_id, "settled", moment, pipeline_id=pipeline.pipeline_id, settlement=terminal.settlement.kind)
    for state in after_terminal(task, terminal, decision, deadline_s=moment.deadline_s):
        save_task(rows, state, moment)
    settle_debts(rows, task, decision.pipeline, decision.owed, moment)


def take_heartbeat(rows: Rows, heartbeat: Heartbeat, moment: Moment) -> Problem | HeartbeatAnswer:
    """The answer's body: `cancel` where the task is over, else nothing is asked for."""
    found = _found(rows, heartbeat.pipeline_id)
    if found is None:
        return Problem("unknown-pipeline", f"no pipeline {heartbeat.pipeline_id} was launched by this server")
    pipeline, task, session = found
    if heartbeat.session_id != session.session_id:
        return Problem("wrong-session", f"pipeline {pipeline.pipeline_id} runs session {session.session_id}")
    if heartbeat.attempt < pipeline.heard:
        return Problem("superseded", f"attempt {heartbeat.attempt} was replaced by attempt {pipeline.heard}")
    if heartbeat.attempt > pipeline.heard:
        rows.save_heard(pipeline.pipeline_id, heartbeat.attempt)
    data = heartbeat.model_dump(mode="json", include={"phase", "turn", "usage", "attempt"})
    say(rows, session.session_id, "heartbeat", moment, pipeline_id=pipeline.pipeline_id, **data)
    return HeartbeatAnswer(action="cancel" if task.over and pipeline.judgement is None else None)


# --- what several transactions share ------------------------------------------------------------------------


def save_task(rows: Rows, task: Task, moment: Moment) -> None:
    rows.save_task(task, moment.now_s)
    state = {"state": task.state.value, "reason": task.reason, "deadline_s": task.deadline_s}
    say(rows, task.session_id, "task", moment, task_id=task.task_id, **state)


def end_task(rows: Rows, ended: Task, moment: Moment) -> None:
    """Store a task that a person, a deadline or the orchestrator has ended: its cards are withdrawn with it."""
    save_task(rows, ended, moment)
    for row in rows.pipelines_of_task(ended.task_id):
        found = rows.pipeline(row.pipeline_id)
        if found is not None:
            _, pipeline = found
            withdrawn, owed = withdraw_all(pipeline)
            rows.save_pipeline(pipeline, withdrawn)
            settle_debts(rows, ended, withdrawn, owed, moment)
        if row.standing == "queued":
            rows.mark_ended(row.pipeline_id, None, moment.now_s)


def settle_debts(rows: Rows, task: Task, pipeline: Pipeline, owed: Owed, moment: Moment) -> None:
    """Do what people are owed: show that cards are closed, tell who was not heard, launch a reply."""
    for question_id in owed.withdraw:
        say(rows, task.session_id, "card", moment, question_id=question_id, standing="withdrawn")
    for reply in owed.tell:
        say(rows, task.session_id, "notice", moment, **_not_heard(reply))
    if owed.launch is not None:
        launch_reply(rows, task, pipeline, owed.launch, moment)


def launch_reply(rows: Rows, task: Task, pipeline: Pipeline, reply: Reply, moment: Moment) -> None:
    """Queue the pipeline that goes on with the answer."""
    call_id = next(card.tool_call_id for card in pipeline.cards if card.question_id == reply.question_id)
    say(rows, task.session_id, "card", moment, question_id=reply.question_id, standing="answered")
    given = {"reply": {"tool_call_id": call_id, "message": reply.message}}
    queue_pipeline(rows, task, given, moment)


def queue_pipeline(rows: Rows, task: Task, given: JsonObject, moment: Moment) -> None:
    pipeline_id = moment.new_id()
    rows.add_pipeline(pipeline_id, task.session_id, task.task_id, given, moment.now_s)
    say(rows, task.session_id, "pipeline", moment, pipeline_id=pipeline_id, standing="queued", attempt=0)


def say(rows: Rows, session_id: str, kind: str, moment: Moment, **data: object) -> None:
    """An event for whoever looks at the session."""
    rows.add_event(session_id, kind, data, moment.now_s)


def _not_heard(reply: Reply) -> dict[str, object]:
    text = "Your answer did not reach the agent: the run ended before it could be taken up. Please write again."
    return {"reply_id": reply.reply_id, "question_id": reply.question_id, "message": reply.message, "text": text}


def _found(rows: Rows, pipeline_id: str) -> tuple[Pipeline, Task, SessionRow] | None:
    found = rows.pipeline(pipeline_id)
    if found is None:
        return None
    task_id, pipeline = found
    task, session = rows.task(task_id), rows.session(pipeline.session_id)
    assert task is not None, "a pipeline has a task"
    assert session is not None, "a pipeline has a session"
    return pipeline, task, session


def _problem(decision: object) -> Problem:
    assert isinstance(decision, Problem), "nobody knows this pipeline"
    return decision
