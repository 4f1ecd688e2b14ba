"""Small, valid questions and terminals for tests; each test changes what it is about."""

import hashlib
from typing import Any

from settlement.callback import (
    AskUserSettlement,
    CheckpointRef,
    FailureSettlement,
    InterruptionRef,
    QuestionRef,
    SuccessSettlement,
    Terminal,
    Timings,
    Usage,
    webhook_id,
)
from settlement.question import Question, build_question, question_id
from settlement.receiving import ReceivedQuestion, ReceivedTerminal, receive_question, receive_terminal
from settlement.signing import CallbackSecrets, webhook_headers

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
SECRETS = CallbackSecrets.parse(SECRET)
NOW_S = 1_800_000_000


def digest_of(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def a_question(**changes: Any) -> Question:
    parts: dict[str, Any] = {
        "pipeline_id": "p1",
        "attempt": 1,
        "session_id": "s1",
        "entry_id": "e0000001",
        "tool_call_id": "call-1",
        "tool_name": "ask_user",
        "asked_at": "2026-07-31T10:00:00.000Z",
        "question": "Staging or production?",
    }
    return build_question(**{**parts, **changes})


def asked(*call_ids: str, pipeline_id: str = "p1") -> tuple[QuestionRef, ...]:
    return tuple(
        QuestionRef(
            question_id=question_id(pipeline_id, "e0000001", call_id),
            tool_call_id=call_id,
            tool_name="ask_user",
        )
        for call_id in call_ids
    )


ASK_USER = AskUserSettlement(
    interruption=InterruptionRef(
        tool_call_id="call-1", tool_name="ask_user", result_text='{"ask_user_sent": true, "message": "…"}'
    )
)
SUCCESS = SuccessSettlement(text="done")
FAILURE = FailureSettlement(
    reason="turn_limit", message="too many turns", retryable=False, resumable=True, withdrawn_questions=()
)


def commit_of(name: str, parent: str | None = None) -> CheckpointRef:
    return CheckpointRef(
        decision="commit",
        manifest=f"sessions/s1/checkpoints/{name}.json",
        digest=digest_of(name),
        parent=parent,
        entries=12,
        bytes=40960,
        leaf_id="e0000009",
        resumable=True,
    )


def keep_previous(parent: str | None = None, diagnostic: str | None = None) -> CheckpointRef:
    return CheckpointRef(
        decision="keep_previous",
        manifest=None,
        digest=None,
        parent=parent,
        entries=0,
        bytes=0,
        leaf_id=None,
        resumable=True,
        diagnostic=diagnostic,
    )


def a_terminal(**changes: Any) -> Terminal:
    parts: dict[str, Any] = {
        "pipeline_id": "p1",
        "attempt": 1,
        "session_id": "s1",
        "labels": {},
        "settlement": SUCCESS,
        "questions": (),
        "checkpoint": commit_of("p1"),
        "input_consumed": True,
        "undelivered": (),
        "warnings": (),
        "usage": Usage(),
        "timings": Timings(
            started_at="2026-07-31T10:00:00.000Z",
            settled_at="2026-07-31T10:01:00.000Z",
            restore_ms=10,
            agent_ms=59000,
            upload_ms=0,
        ),
        "runner": "1.0.0",
    }
    return Terminal(**{**parts, **changes})


def received_question(question: Question) -> ReceivedQuestion:
    """As it comes through the server's door."""
    from settlement.question import to_body

    body = to_body(question)
    received = receive_question(SECRETS, webhook_headers(SECRETS, question.question_id, NOW_S, body), body, NOW_S)
    assert isinstance(received, ReceivedQuestion), received
    return received


def received_terminal(terminal: Terminal) -> ReceivedTerminal:
    """As it comes through the server's door."""
    from settlement.callback import to_body

    body = to_body(terminal)
    headers = webhook_headers(SECRETS, webhook_id(terminal.pipeline_id), NOW_S, body)
    received = receive_terminal(SECRETS, headers, body, NOW_S)
    assert isinstance(received, ReceivedTerminal), received
    return received
