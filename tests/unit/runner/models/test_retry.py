"""The retry decisions, walked through as tables, and whole turns against a server that is overloaded for a
while."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.models.failure import Failure
from runner.models.retry import (
    FailedTurn,
    GiveUp,
    NextModel,
    RetryAfter,
    RetryPolicy,
    Verdict,
    backoff_s,
    decide_turn,
    repeat_request,
)
from tests.fakes.model_server import ModelServer
from tests.unit.runner.models.conftest import Harness, anthropic_model, text_answer

BUSY = Failure("model_overloaded", "busy", transient=True)
LIMITED = Failure("model_rate_limited", "slow", transient=True, retry_after_s=30)
FATAL = Failure("model_invalid_request", "bad")
POLICY = RetryPolicy(max_retries=3, max_delay_s=60)


def turn(failure: Failure, **changes: Any) -> FailedTurn:
    given: dict[str, Any] = {"failure": failure, "attempt": 1, "elapsed_s": 0.0, "deadline_s": None}
    return FailedTurn(**(given | changes))


@pytest.mark.parametrize(
    ("failed", "want"),
    [
        (turn(BUSY), RetryAfter(1.0)),
        (turn(BUSY, attempt=3), RetryAfter(4.0)),
        (turn(BUSY, attempt=4), GiveUp("attempts")),
        (turn(BUSY, attempt=4, fallbacks=1), NextModel()),
        (turn(LIMITED), RetryAfter(30)),
        (turn(Failure("model_rate_limited", "", True, retry_after_s=600)), GiveUp("server_delay")),
        (turn(Failure("model_rate_limited", "", True, retry_after_s=600), fallbacks=2), NextModel()),
        (turn(LIMITED, elapsed_s=80, deadline_s=100), GiveUp("deadline")),
        (turn(LIMITED, elapsed_s=60, deadline_s=100), RetryAfter(30)),
        (turn(FATAL), GiveUp("fatal")),
        (turn(FATAL, fallbacks=1), GiveUp("fatal")),
        (turn(Failure("model_auth", "key"), fallbacks=1), NextModel()),
        (turn(Failure("model_rate_limited", "no money"), fallbacks=1), NextModel()),
        (turn(Failure("context_overflow", "full", transient=True), fallbacks=1), GiveUp("fatal")),
        (turn(Failure("model_refused", "no"), fallbacks=1), GiveUp("fatal")),
        (turn(BUSY, tools_ran=True, fallbacks=1), GiveUp("tools_ran")),
    ],
)
def test_what_becomes_of_a_failed_turn(failed: FailedTurn, want: Verdict) -> None:
    assert decide_turn(failed, POLICY, 0.0) == want


@given(st.integers(1, 10**6), st.floats(0, 0.999), st.floats(0, 1000))
def test_a_pause_is_never_longer_than_the_cap_nor_shorter_than_three_quarters(
    attempt: int, jitter: float, cap: float
) -> None:
    policy = RetryPolicy(max_delay_s=cap)
    pause = backoff_s(attempt, policy, jitter)
    full = backoff_s(attempt, policy, 0.0)
    assert 0.75 * full <= pause <= full
    assert not cap or pause <= cap


@given(
    st.booleans(),
    st.integers(1, 9),
    st.floats(0, 500),
    st.none() | st.floats(1, 500),
    st.none() | st.floats(0, 999),
)
def test_no_pause_reaches_beyond_the_deadline(
    transient: bool, attempt: int, elapsed: float, deadline: float | None, wish: float | None
) -> None:
    failed = turn(
        Failure("model_unavailable", "", transient, wish),
        attempt=attempt,
        elapsed_s=elapsed,
        deadline_s=deadline,
    )
    verdict = decide_turn(failed, POLICY, 0.0)
    if isinstance(verdict, RetryAfter):
        assert transient
        assert deadline is None or elapsed + verdict.delay_s < deadline


@pytest.mark.parametrize(
    ("attempt", "failure", "headers", "want"),
    [
        (0, BUSY, {}, 0.5),
        (5, BUSY, {}, 8.0),
        (0, FATAL, {}, None),
        (0, FATAL, {"x-should-retry": "true"}, 0.5),
        (0, BUSY, {"x-should-retry": "false"}, None),
        (9, BUSY, {}, None),
        (0, LIMITED, {}, 30),
    ],
)
def test_when_a_request_is_repeated(
    attempt: int, failure: Failure, headers: dict[str, str], want: float | None
) -> None:
    verdict = repeat_request(attempt, failure, asked=headers, most=9, cap_s=60, jitter=0.0)
    assert verdict == (failure if want is None else want)


def test_a_server_that_wants_too_long_a_pause_is_not_waited_for() -> None:
    verdict = repeat_request(0, LIMITED, asked={}, most=2, cap_s=10, jitter=0.0)
    assert isinstance(verdict, Failure)
    assert verdict.message == "Server requested 30s retry delay (max: 10s). slow"


@pytest.mark.anyio
async def test_a_turn_survives_three_overloads_with_pauses_of_a_fake_clock(harness: Harness) -> None:
    busy = {
        "status": 529,
        "chunks": [{"text": '{"error":{"type":"overloaded_error","message":"Overloaded"}}'}],
    }
    good = {"headers": {"content-type": "text/event-stream"}, "chunks": [{"text": text_answer("done")}]}
    calls = harness.calls()
    elapsed, pauses = 0.0, list[float]()
    message: dict[str, Any] = {}
    with ModelServer([busy, busy, busy, good]) as server:
        model = anthropic_model(server.base_url)
        for attempt in range(1, 9):
            message = await harness.ask(calls, model).result()
            if calls.last_failure is None:
                break
            verdict = decide_turn(FailedTurn(calls.last_failure, attempt, elapsed, 100.0), RetryPolicy(), 0.0)
            assert isinstance(verdict, RetryAfter)
            pauses.append(verdict.delay_s)
            elapsed += verdict.delay_s
        assert len(server.requests) == 4
    assert pauses == [1.0, 2.0, 4.0]
    assert message["content"][0]["text"] == "done"
