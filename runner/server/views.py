"""From stored rows to what people see. Reads within one transaction; decides nothing."""

import json
import sqlite3
from datetime import UTC, datetime
from typing import Any

from runner.server.models import (
    AttemptView,
    NoticeView,
    PipelineView,
    QuestionView,
    SessionList,
    SessionSummary,
    SessionView,
    TaskView,
)
from runner.server.rows import Rows
from settlement.wire import time_text

TITLE_CHARACTERS = 80


def session_list(rows: Rows, limit: int) -> SessionList:
    return SessionList(
        sessions=[
            SessionSummary(
                session_id=row["session_id"],
                stream_id=row["stream_id"],
                owner=row["owner"],
                title=" ".join(row["message"].split())[:TITLE_CHARACTERS],
                task_id=row["task_id"],
                state=row["state"],
                reason=row["reason"],
                open_questions=row["open_questions"],
                created_at=when(row["created_s"]),
                changed_at=when(row["changed_s"]),
            )
            for row in rows.sessions(limit)
        ]
    )


def session_view(rows: Rows, session_id: str, cursor: str) -> SessionView | None:
    session = rows.session(session_id)
    if session is None:
        return None
    point = session.restore_point
    pipelines = rows.pipelines_of(session_id)
    return SessionView(
        session_id=session_id,
        stream_id=session.stream_id,
        owner=session.owner,
        created_at=when(session.created_s),
        tasks=[_task(row) for row in rows.tasks_of(session_id)],
        pipelines=[_pipeline(row, rows.attempts_of(row["pipeline_id"])) for row in pipelines],
        questions=[_question(card) for row in pipelines for card in rows.cards_of(row["pipeline_id"])],
        notices=[_notice(row) for row in rows.notices_of(session_id)],
        restore_point=None if point is None else {"manifest": point.manifest, "digest": point.digest},
        cursor=cursor,
    )


def when(seconds: float) -> str:
    return time_text(datetime.fromtimestamp(seconds, UTC))


def _when(seconds: float | None) -> str | None:
    return None if seconds is None else when(seconds)


def _task(row: sqlite3.Row) -> TaskView:
    return TaskView(
        task_id=row["task_id"],
        state=row["state"],
        reason=row["reason"],
        message=row["message"],
        created_at=when(row["created_s"]),
        changed_at=when(row["changed_s"]),
        deadline_at=_when(row["deadline_s"]),
    )


def _pipeline(row: sqlite3.Row, attempts: list[sqlite3.Row]) -> PipelineView:
    record: dict[str, Any] = {} if row["body"] is None else json.loads(row["body"])
    refused = None if row["refused"] is None else json.loads(row["refused"])["detail"]
    return PipelineView(
        pipeline_id=row["pipeline_id"],
        task_id=row["task_id"],
        standing=row["standing"],
        created_at=when(row["created_s"]),
        ended_at=_when(row["ended_s"]),
        attempts=[
            AttemptView(
                attempt=attempt["attempt"],
                started_at=when(attempt["started_s"]),
                ended_at=_when(attempt["ended_s"]),
                exit=attempt["exit"],
            )
            for attempt in attempts
        ],
        error=row["error"],
        refused=refused,
        settlement=record.get("settlement"),
        timings=record.get("timings"),
        usage=record.get("usage"),
        checkpoint=record.get("checkpoint"),
        warnings=record.get("warnings", []),
        undelivered=record.get("undelivered", []),
    )


def _question(row: sqlite3.Row) -> QuestionView:
    asked = json.loads(row["body"])
    return QuestionView(
        question_id=row["question_id"],
        pipeline_id=row["pipeline_id"],
        task_id=row["task_id"],
        standing=row["standing"],
        waiting=bool(row["waiting"]) and row["standing"] == "open",
        question=asked["question"],
        context=asked["context"],
        options=asked["options"],
        form=asked["form"],
        stream_id=row["stream_id"],
        asked_at=asked["asked_at"],
        reply=row["reply"],
    )


def _notice(row: sqlite3.Row) -> NoticeView:
    return NoticeView(**json.loads(row["data"]), at=when(row["at_s"]))
