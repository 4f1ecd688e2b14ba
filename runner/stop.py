"""When the agent stops after a turn: one pure decision, and the thin holder that asks it at the agent's hook.

`should_stop_after_turn` is the only stop mechanism. A question, a limit, a pause and the deadline all end a
run there, between turns, where nothing is torn: the results are in the transcript and no request has been
sent. The holder also remembers whether the loop would have gone on, since a run that had ended anyway is
not one that a limit stopped.
"""

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from checkpoint.head import ProgressStop
from runner.agent.abort import AbortSignal
from runner.agent.types import TurnContext
from runner.run_watch import RunWatch, has_tool_calls
from settlement.outcome import Stop, StopReason

RequestReason: TypeAlias = Literal["cancelled", "paused", "deadline_exceeded"]
"""Why somebody outside asked the run to stop."""


class RunLimits(Protocol):
    """None: no limit. The spec's `limits` has these names."""

    @property
    def max_turns(self) -> int | None: ...
    @property
    def max_total_tokens(self) -> int | None: ...
    @property
    def max_cost_usd(self) -> float | None: ...


class RunCounters(Protocol):
    """What counts against the limits, all attempts (or the whole session) included."""

    @property
    def turns(self) -> int: ...
    @property
    def total_tokens(self) -> int: ...
    @property
    def cost_usd(self) -> float: ...


def decide_stop(
    *, interrupted: bool, requested: RequestReason | None, limits: RunLimits, counters: RunCounters
) -> StopReason | None:
    """Why to stop now, or None. A question comes first, then what somebody asked for, then the limits."""
    if interrupted:
        return "interruption"
    if requested is not None:
        return requested
    if limits.max_turns is not None and counters.turns >= limits.max_turns:
        return "turn_limit"
    if limits.max_total_tokens is not None and counters.total_tokens >= limits.max_total_tokens:
        return "token_limit"
    if limits.max_cost_usd is not None and counters.cost_usd >= limits.max_cost_usd:
        return "cost_limit"
    return None


def another_turn_follows(*, has_calls: bool, all_terminate: bool, queued: bool) -> bool:
    """Whether the loop would go on after this turn: open tool work, or queued messages (they beat
    `terminate`)."""
    return queued or (has_calls and not all_terminate)


def progress_stop(stop: Stop | None, *, another_turn: bool) -> tuple[ProgressStop | None, str | None]:
    """How a run that has just finished a turn stands for a takeover: (`progress.stop`, the limit). None: it goes on; so
    does one that was cancelled, paused or out of time, for a takeover has reasons and a clock of its own.
    """
    if stop is not None and stop.reason == "interruption":
        return "ask_user", None
    if not another_turn:
        return "natural", None
    if stop is not None and stop.reason in ("turn_limit", "token_limit", "cost_limit"):
        return "limit", stop.reason
    return None, None


class StopPolicy:
    """Give `should_stop_after_turn` to the agent.

    `interrupted`, `requested` and `counters` are asked at each turn's end; the counters must by then
    include that turn (a listener of `turn_end` is early enough). `watch` must be subscribed to the agent,
    and `queued` be its `has_queued_messages`: `run_agent_until_settled` sees to both.
    """

    def __init__(
        self,
        *,
        limits: RunLimits,
        counters: Callable[[], RunCounters],
        requested: Callable[[], RequestReason | None],
        interrupted: Callable[[], bool],
    ) -> None:
        self._limits = limits
        self._counters = counters
        self._requested = requested
        self._interrupted = interrupted
        self._queued: Callable[[], bool] = _nothing_queued
        self.watch = RunWatch()
        self.stop: Stop | None = None
        """The stop of this run, if there was one."""
        self.another_turn = True
        """Whether the loop would go on after its last turn."""

    def begin(self, *, prompts: int, queued: Callable[[], bool]) -> None:
        """A run starts: with `prompts` new messages, and `queued` telling whether more are waiting."""
        self.watch.begin(prompts=prompts)
        self._queued = queued
        self.stop = None

    def stop_before_run(self) -> bool:
        """Whether the run must not even start: a limit is used up already, or a stop was asked for."""
        return self._stop_for(self._decide(), another_turn=True)

    def should_stop_after_turn(self, turn: TurnContext, _signal: AbortSignal | None) -> bool:
        follows = another_turn_follows(
            has_calls=has_tool_calls(turn.message),
            all_terminate=self.watch.all_terminate,
            queued=self._queued(),
        )
        self.another_turn = follows
        return self._stop_for(self._decide(), another_turn=follows)

    def _decide(self) -> StopReason | None:
        return decide_stop(
            interrupted=self._interrupted(),
            requested=self._requested(),
            limits=self._limits,
            counters=self._counters(),
        )

    def _stop_for(self, reason: StopReason | None, *, another_turn: bool) -> bool:
        if reason is not None:
            self.stop = Stop(reason, another_turn)
        return reason is not None


def _nothing_queued() -> bool:
    return False
