"""The terminal callback on the wire."""

import json
from typing import Any

import jsonschema_rs
import pytest
from pydantic import ValidationError

from settlement.callback import (
    CheckpointRef,
    FailureSettlement,
    SuccessSettlement,
    Terminal,
    Usage,
    build_terminal,
    to_body,
    webhook_id,
)
from settlement.outcome import Interruption, SentQuestion, Undelivered
from settlement.settle import AskUser, Failure, Settlement, Success
from settlement.wire import read
from tests.unit.settlement.samples import (
    ASK_USER,
    FAILURE,
    SUCCESS,
    a_terminal,
    asked,
    commit_of,
    digest_of,
    keep_previous,
)

FIELDS = [
    "version",
    "type",
    "pipeline_id",
    "attempt",
    "session_id",
    "labels",
    "settlement",
    "questions",
    "checkpoint",
    "input_consumed",
    "undelivered",
    "warnings",
    "usage",
    "timings",
    "runner",
]


def body_of(terminal: Terminal) -> dict[str, Any]:
    return json.loads(to_body(terminal))


def built(settlement: Settlement, checkpoint: CheckpointRef | None = None) -> Terminal:
    sample = a_terminal()
    return build_terminal(
        pipeline_id="p1",
        attempt=2,
        session_id="s1",
        labels={"team": "blue"},
        settlement=settlement,
        checkpoint=checkpoint or commit_of("p1"),
        input_consumed=True,
        undelivered=[Undelivered("follow_up", "and then?")],
        warnings=["a torn line was cut"],
        usage=Usage(input=1, cost_usd=0.5),
        timings=sample.timings,
        runner="1.0.0",
    )


# --- shape ---------------------------------------------------------------------------------------------------


def test_the_body_has_every_field_in_the_documented_order():
    body = body_of(a_terminal())
    assert list(body) == FIELDS
    assert list(body["checkpoint"]) == [
        "decision",
        "manifest",
        "digest",
        "parent",
        "entries",
        "bytes",
        "leaf_id",
        "resumable",
    ]
    assert list(body["usage"]) == [
        "input",
        "output",
        "cache_read",
        "cache_write",
        "total_tokens",
        "cost_usd",
        "requests",
        "turns",
    ]
    assert list(body["timings"]) == ["started_at", "settled_at", "restore_ms", "agent_ms", "upload_ms"]


def test_success_says_truncated_only_when_it_is():
    assert body_of(a_terminal())["settlement"] == {"kind": "success", "text": "done", "structured": None}
    cut = SuccessSettlement(text="do", truncated=True)
    assert body_of(a_terminal(settlement=cut))["settlement"] == {
        "kind": "success",
        "text": "do",
        "structured": None,
        "truncated": True,
    }


def test_a_diagnostic_is_there_only_if_a_log_was_kept():
    assert "diagnostic" not in body_of(a_terminal(settlement=FAILURE, checkpoint=keep_previous()))["checkpoint"]
    kept = a_terminal(settlement=FAILURE, checkpoint=keep_previous(diagnostic="sessions/s1/x.zst"))
    assert body_of(kept)["checkpoint"]["diagnostic"] == "sessions/s1/x.zst"


def test_the_same_terminal_gives_the_same_bytes():
    assert to_body(a_terminal(labels={"a": "ü"})) == to_body(a_terminal(labels={"a": "ü"}))


def test_what_is_sent_is_what_is_read():
    terminal = a_terminal(settlement=ASK_USER, questions=asked("call-1", "call-2"))
    assert read(Terminal, to_body(terminal)) == terminal


def test_the_webhook_id_is_that_of_the_pipeline():
    assert webhook_id("p1") == "term_p1"


@pytest.mark.parametrize("settlement", [ASK_USER, SUCCESS, FAILURE])
def test_a_body_is_valid_by_the_schema_that_is_printed(settlement: Any):
    schema = Terminal.model_json_schema(mode="serialization")
    validator = jsonschema_rs.validator_for(schema)
    body = body_of(a_terminal(settlement=settlement))
    assert validator.is_valid(body)
    assert set(schema["required"]) == set(FIELDS)
    assert not validator.is_valid({**body, "settlement": {"kind": "maybe"}})


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settlement", [ASK_USER, SUCCESS])
def test_without_a_checkpoint_there_is_only_failure(settlement: Any):
    with pytest.raises(ValidationError, match="needs a checkpoint to commit"):
        a_terminal(settlement=settlement, checkpoint=keep_previous())


@pytest.mark.parametrize(
    "changes",
    [
        {"manifest": None},
        {"digest": None},
        {"decision": "keep_previous"},
        {"decision": "keep_previous", "manifest": None},
        {"digest": "sha256:ABC"},
        {"entries": -1},
        {"bytes": 1.0},
        {"extra": 1},
    ],
)
def test_a_checkpoint_that_contradicts_itself_is_refused(changes: dict[str, Any]):
    with pytest.raises(ValidationError):
        CheckpointRef.model_validate({**commit_of("p1").model_dump(), **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"pipeline_id": "a.b"},
        {"pipeline_id": "a\n"},
        {"pipeline_id": "x" * 65},
        {"attempt": 0},
        {"attempt": "1"},
        {"labels": {"a": 1}},
        {"unknown": True},
    ],
)
def test_a_terminal_outside_the_contract_is_refused(changes: dict[str, Any]):
    with pytest.raises(ValidationError):
        Terminal.model_validate({**a_terminal().model_dump(), **changes})


def test_a_cost_is_a_number():
    with pytest.raises(ValidationError):
        Usage(cost_usd=float("nan"))


# --- from a settlement ---------------------------------------------------------------------------------------


def test_ask_user_names_its_interruption_and_every_question_of_the_turn():
    settlement = AskUser(
        Interruption("call-1", "ask_user", '{"ask_user_sent": true}'),
        tuple(
            SentQuestion(question.question_id, question.tool_call_id, question.tool_name, "e0000001")
            for question in asked("call-1", "call-2")
        ),
    )
    terminal = built(settlement)
    assert terminal.settlement.model_dump() == {
        "kind": "ask_user",
        "interruption": {
            "kind": "user_input_required",
            "tool_call_id": "call-1",
            "tool_name": "ask_user",
            "result_text": '{"ask_user_sent": true}',
        },
    }
    assert terminal.questions == asked("call-1", "call-2")
    assert terminal.attempt == 2


def test_success_waits_for_no_question():
    terminal = built(Success("all done"))
    assert terminal.settlement == SuccessSettlement(text="all done")
    assert terminal.questions == ()
    assert [(item.queue, item.text) for item in terminal.undelivered] == [("follow_up", "and then?")]


def test_failure_names_the_questions_it_withdraws():
    withdrawn = asked("call-1")[0].question_id
    failure = Failure("persistence_failed", "disk full", True, True, (withdrawn,))
    terminal = built(failure, keep_previous(parent=digest_of("before")))
    assert terminal.settlement == FailureSettlement(
        reason="persistence_failed",
        message="disk full",
        retryable=True,
        resumable=True,
        withdrawn_questions=(withdrawn,),
    )
    assert terminal.questions == ()


def test_a_lone_surrogate_does_not_stop_a_callback():
    assert body_of(built(Success("a\ud800b")))["settlement"]["text"] == "a\ufffdb"
