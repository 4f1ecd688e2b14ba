"""What a terminal record tells about the end of a run."""

import pytest

from runner.replay.told import UNKNOWN, Told, told_by
from settlement.outcome import Undelivered


@pytest.mark.parametrize(
    ("settlement", "ended"),
    [
        ({"kind": "ask_user"}, "interrupted"),
        ({"kind": "success", "text": "x"}, "by_itself"),
        ({"kind": "failure", "reason": "empty_answer"}, "by_itself"),
        ({"kind": "failure", "reason": "output_truncated"}, "by_itself"),
        ({"kind": "failure", "reason": "turn_limit"}, "limit"),
        ({"kind": "failure", "reason": "cost_limit"}, "limit"),
        ({"kind": "failure", "reason": "deadline_exceeded"}, "requested"),
        ({"kind": "failure", "reason": "paused"}, "requested"),
        ({"kind": "failure", "reason": "cancelled"}, "requested"),
        ({"kind": "failure", "reason": "model_overloaded"}, "model"),
        ({"kind": "failure", "reason": "lost"}, "outside"),
        ({"kind": "failure", "reason": "internal"}, "outside"),
        ({"kind": "failure", "reason": 7}, "outside"),
        ({"kind": ["?"]}, "unknown"),
        (None, "unknown"),
    ],
)
def test_how_the_run_ended(settlement: object, ended: str) -> None:
    assert told_by({"settlement": settlement}).ended == ended


def test_everything_else_that_the_session_does_not_hold() -> None:
    told = told_by(
        {
            "settlement": {
                "kind": "failure",
                "reason": "model_rate_limited",
                "retryable": True,
                "withdrawn_questions": ["ask_1", None],
            },
            "questions": [{"tool_name": "ask_user"}, {"tool_name": "survey"}, 3],
            "usage": {"turns": 4, "total_tokens": 900, "cost_usd": 0.5},
            "undelivered": [{"queue": "steering", "text": "wait"}, {"queue": "follow_up"}],
        }
    )

    assert told == Told(
        ended="model",
        reason="model_rate_limited",
        retryable=True,
        asking=frozenset({"ask_user", "survey"}),
        withdrawn=frozenset({"ask_1"}),
        turns=4,
        total_tokens=900,
        cost_usd=0.5,
        undelivered=(Undelivered("steering", "wait"), Undelivered("follow_up", "")),
    )


@pytest.mark.parametrize("body", [{}, {"settlement": [], "questions": 1, "usage": "x", "undelivered": {"a": 1}}])
def test_a_record_of_another_shape_tells_nothing(body: dict[str, object]) -> None:
    assert told_by(body) == UNKNOWN
