"""What the orchestrator stores about its processes, each step in one transaction, so that a killed server knows where
it was: queued, launched under this attempt, started as this process, gone, ended.
"""

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from runner.server.relaunching import GiveUp, Gone, Leave, Relaunch
from runner.server.rows import AttemptRow, PipelineRow, Rows
from runner.server.taking import Moment, end_task, save_task, say
from settlement.commit_rule import RestorePoint
from settlement.tasks import step


class Order(Struct, frozen=True):
    """One process to start."""

    pipeline_id: str
    attempt: int
    session_id: str
    stream_id: str
    owner: str
    input: JsonObject
    restore_point: RestorePoint | None
    ordinal: int
    """1 for the first pipeline of its session."""


class Standing(Struct, frozen=True):
    """What a conclusion has to know: see `relaunching.after_exit`."""

    judged: bool
    over: bool
    attempt: int


def begin_launches(rows: Rows, free: int, moment: Moment) -> list[Order]:
    """The processes to start now, at most `free`: stored as launched before any of them is started."""
    orders: list[Order] = []
    for row in rows.launchable(moment.now_s, free):
        task, session, found = rows.task(row.task_id), rows.session(row.session_id), rows.pipeline(row.pipeline_id)
        assert task is not None, "a pipeline has a task"
        assert session is not None, "a pipeline has a session"
        assert found is not None, "it was just read"
        if task.over or found[1].judgement is not None:
            _end(rows, row, None, moment)
            continue
        running = step(task, "launched")
        if running is not None:
            save_task(rows, running, moment)
        attempt = row.attempt + 1
        rows.mark_launched(row.pipeline_id, attempt, moment.now_s)
        _say(rows, row, "launched", attempt, moment)
        point, ordinal = session.restore_point, rows.ordinal(row.pipeline_id)
        orders.append(
            Order(
                row.pipeline_id,
                attempt,
                row.session_id,
                session.stream_id,
                session.owner,
                row.input,
                point,
                ordinal,
            )
        )
    return orders


def stand(rows: Rows, pipeline_id: str) -> Standing:
    row, found = rows.pipeline_row(pipeline_id), rows.pipeline(pipeline_id)
    assert row is not None, "only launched pipelines are asked for"
    assert found is not None, "only launched pipelines are asked for"
    task = rows.task(row.task_id)
    assert task is not None, "a pipeline has a task"
    return Standing(found[1].judgement is not None, task.over, row.attempt)


def conclude(rows: Rows, pipeline_id: str, gone: Gone, ending: Leave | Relaunch | GiveUp, moment: Moment) -> None:
    """Store how the last attempt ended, and what comes next."""
    row = rows.pipeline_row(pipeline_id)
    assert row is not None, "only launched pipelines are concluded"
    rows.mark_gone(pipeline_id, row.attempt, gone.exit_code, moment.now_s)
    match ending:
        case Leave():
            _end(rows, row, None, moment)
        case Relaunch(delay_s=delay_s):
            rows.mark_queued(pipeline_id, moment.now_s + delay_s)
            _say(rows, row, "queued", row.attempt, moment)
        case GiveUp(reason=reason, message=message):
            _end(rows, row, message, moment)
            task = rows.task(row.task_id)
            failed = None if task is None else step(task, "failed", reason=reason)
            if failed is not None:
                end_task(rows, failed, moment)


def launched(rows: Rows) -> list[tuple[PipelineRow, AttemptRow]]:
    """The pipelines that were at work when the server stopped, each with its last attempt."""
    found = [(row, rows.attempt(row.pipeline_id, row.attempt)) for row in rows.launched_pipelines()]
    return [(row, attempt) for row, attempt in found if attempt is not None]


def _end(rows: Rows, row: PipelineRow, error: str | None, moment: Moment) -> None:
    rows.mark_ended(row.pipeline_id, error, moment.now_s)
    _say(rows, row, "ended", row.attempt, moment)


def _say(rows: Rows, row: PipelineRow, standing: str, attempt: int, moment: Moment) -> None:
    say(rows, row.session_id, "pipeline", moment, pipeline_id=row.pipeline_id, standing=standing, attempt=attempt)
