import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.heartbeat import Heartbeat, HeartbeatUsage, asked_for, to_body
from settlement.wire import read


def test_a_heartbeat_says_who_lives_where_it_is_and_what_it_used() -> None:
    beat = Heartbeat(
        pipeline_id="p1",
        attempt=2,
        session_id="s1",
        phase="agent",
        turn=3,
        usage=HeartbeatUsage(total_tokens=120, cost_usd=0.5, requests=3),
        sent_at="2026-01-01T00:00:00.000Z",
    )

    assert json.loads(to_body(beat)) == {
        "version": 1,
        "type": "heartbeat",
        "pipeline_id": "p1",
        "attempt": 2,
        "session_id": "s1",
        "phase": "agent",
        "turn": 3,
        "usage": {"total_tokens": 120, "cost_usd": 0.5, "requests": 3},
        "sent_at": "2026-01-01T00:00:00.000Z",
    }
    assert read(Heartbeat, to_body(beat)) == beat


@pytest.mark.parametrize("action", ["cancel", "pause", None])
def test_an_answer_asks_to_cancel_to_pause_or_for_nothing_whatever_else_it_says(action: str | None) -> None:
    assert asked_for(json.dumps({"action": action, "since": {"later": [1]}}).encode()) == action


NOT_UNDERSTOOD = [
    b"",
    b"{}",
    b"null",
    b"[]",
    b'"cancel"',
    b"cancel",
    b'{"action":"Cancel"}',
    b'{"action":["cancel"]}',
    b'{"action":"cancel"',
    b'{"action":1}',
    b'{"action":{}}',
    b"\xff",
    b"[" * 4000,
]


@pytest.mark.parametrize("body", NOT_UNDERSTOOD)
def test_an_answer_that_is_not_understood_asks_for_nothing(body: bytes) -> None:
    assert asked_for(body) is None


@given(st.binary(max_size=200))
def test_no_answer_breaks_the_reading(body: bytes) -> None:
    assert asked_for(body) in (None, "cancel", "pause")
