from dataclasses import dataclass
from itertools import product

import pytest

from checkpoint.jsontypes import Message
from runner.agent.types import AgentContext, ToolExecutionEnd, TurnContext, TurnEnd, TurnStart, text_result
from runner.stop import RequestReason, StopPolicy, another_turn_follows, decide_stop
from settlement.outcome import Stop
from tests.fakes.answers import answer, call


@dataclass(frozen=True)
class Limits:
    max_turns: int | None = None
    max_total_tokens: int | None = None
    max_cost_usd: float | None = None


@dataclass
class Counters:
    turns: int = 0
    total_tokens: int = 0
    cost_usd: float = 0.0


def turn(message: Message, *results: Message) -> TurnContext:
    return TurnContext(message, list(results), AgentContext("", []), [])


class Host:
    """What stands around the policy."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.counters = Counters()
        self.requested: RequestReason | None = None
        self.interrupted = False
        self.queued = False
        self.policy = StopPolicy(
            limits=limits or Limits(),
            counters=lambda: self.counters,
            requested=lambda: self.requested,
            interrupted=lambda: self.interrupted,
        )
        self.policy.begin(prompts=0, queued=lambda: self.queued)

    def stops_after(self, message: Message, *terminates: bool) -> bool:
        """Play a turn whose calls end with these `terminate` hints, then ask."""
        watch = self.policy.watch
        watch.observe(TurnStart())
        for number, terminate in enumerate(terminates):
            result = {**text_result("ok"), "terminate": terminate}
            watch.observe(ToolExecutionEnd(f"call-{number}", "tool", result, False))
        watch.observe(TurnEnd(message, []))
        return self.policy.should_stop_after_turn(turn(message), None)


CALLS = answer("", call("call-0", "tool"))
DONE = answer("Done.")


# --- the decision ---


def test_without_a_reason_nothing_stops() -> None:
    assert decide_stop(interrupted=False, requested=None, limits=Limits(), counters=Counters(10**6, 10**9, 1e6)) is None


@pytest.mark.parametrize(
    ("limits", "below", "at", "reason"),
    [
        (Limits(max_turns=3), Counters(turns=2), Counters(turns=3), "turn_limit"),
        (Limits(max_total_tokens=100), Counters(total_tokens=99), Counters(total_tokens=100), "token_limit"),
        (Limits(max_cost_usd=0.5), Counters(cost_usd=0.49), Counters(cost_usd=0.5), "cost_limit"),
    ],
)
def test_a_limit_stops_when_it_is_reached_and_not_before(
    limits: Limits, below: Counters, at: Counters, reason: str
) -> None:
    assert decide_stop(interrupted=False, requested=None, limits=limits, counters=below) is None
    assert decide_stop(interrupted=False, requested=None, limits=limits, counters=at) == reason


def test_a_question_comes_before_a_request_and_a_request_before_a_limit() -> None:
    limits, counters = Limits(1, 1, 0.1), Counters(1, 1, 0.1)
    assert decide_stop(interrupted=True, requested="paused", limits=limits, counters=counters) == "interruption"
    assert decide_stop(interrupted=False, requested="paused", limits=limits, counters=counters) == "paused"
    assert decide_stop(interrupted=False, requested=None, limits=limits, counters=counters) == "turn_limit"


def test_another_turn_follows_open_tool_work_and_queued_messages_only() -> None:
    for has_calls, all_terminate, queued in product((True, False), repeat=3):
        follows = another_turn_follows(has_calls=has_calls, all_terminate=all_terminate, queued=queued)
        assert follows == (queued or (has_calls and not all_terminate))


# --- the holder ---


def test_an_ordinary_turn_goes_on() -> None:
    host = Host()
    assert not host.stops_after(CALLS, False)
    assert host.policy.stop is None


def test_a_question_stops_after_its_turn() -> None:
    host = Host()
    host.interrupted = True
    assert host.stops_after(CALLS, False)
    assert host.policy.stop == Stop("interruption", another_turn=True)


@pytest.mark.parametrize("reason", ["cancelled", "paused", "deadline_exceeded"])
def test_a_request_from_outside_stops_after_the_turn(reason: RequestReason) -> None:
    host = Host()
    host.requested = reason
    assert host.stops_after(CALLS, False)
    assert host.policy.stop == Stop(reason, another_turn=True)


def test_a_limit_at_a_final_answer_is_remembered_as_no_loss() -> None:
    host = Host(Limits(max_turns=1))
    host.counters.turns = 1
    assert host.stops_after(DONE)
    assert host.policy.stop == Stop("turn_limit", another_turn=False)


def test_a_queued_message_means_that_another_turn_would_have_followed() -> None:
    host = Host(Limits(max_turns=1))
    host.counters.turns, host.queued = 1, True
    assert host.stops_after(DONE)
    assert host.policy.stop == Stop("turn_limit", another_turn=True)


@pytest.mark.parametrize(
    ("terminates", "another"), [((True,), False), ((True, True), False), ((True, False), True), ((), True)]
)
def test_only_a_batch_whose_results_all_terminate_would_have_ended_the_run(
    terminates: tuple[bool, ...], another: bool
) -> None:
    host = Host(Limits(max_turns=1))
    host.counters.turns = 1
    assert host.stops_after(CALLS, *terminates)
    assert host.policy.stop == Stop("turn_limit", another_turn=another)


def test_the_hints_of_an_earlier_turn_do_not_count() -> None:
    host = Host(Limits(max_turns=2))
    host.counters.turns = 1
    assert not host.stops_after(CALLS, False)
    host.counters.turns = 2
    assert host.stops_after(CALLS, True)
    assert host.policy.stop == Stop("turn_limit", another_turn=False)


def test_a_run_does_not_start_with_a_limit_used_up_or_a_stop_asked_for() -> None:
    host = Host(Limits(max_total_tokens=10))
    assert not host.policy.stop_before_run()
    host.counters.total_tokens = 10
    assert host.policy.stop_before_run()
    assert host.policy.stop == Stop("token_limit", another_turn=True)


def test_beginning_again_forgets_the_stop_of_the_run_before() -> None:
    host = Host()
    host.requested = "paused"
    assert host.stops_after(CALLS, False)
    host.policy.begin(prompts=0, queued=lambda: False)
    assert host.policy.stop is None
