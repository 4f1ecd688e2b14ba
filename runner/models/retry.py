"""When to try again, and with which model: pure decisions about values. No clock, no sleep, no randomness
of its own.

Two layers. `repeat_request` repeats an HTTP request before an answer has begun, only where asked to.
`decide_turn` repeats whole turns, which is what the runner does: the failed message leaves the agent's
state, stays in the log, and the run goes on by `continue_()`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from runner.models.failure import Failure

# --- one request ----------------------------------------------------------------------------------------


def repeat_request(
    attempt: int, failure: Failure, *, asked: Mapping[str, str], most: int, cap_s: float, jitter: float
) -> float | Failure:
    """Seconds to wait before repeating the request, or the failure to end with.

    `attempt` counts from 0; `asked` are the answer's headers (`x-should-retry` overrules); `jitter` is in
    [0, 1). A server that wants a longer pause than `cap_s` (0: no cap) is not waited for.
    """
    wish = asked.get("x-should-retry")
    transient = failure.transient if wish not in ("true", "false") else wish == "true"
    if attempt >= most or not transient:
        return failure
    if failure.retry_after_s is None:
        return min(0.5 * 2.0**attempt, 8.0) * (1 - 0.25 * jitter)
    if cap_s and failure.retry_after_s > cap_s:
        text = f"Server requested {failure.retry_after_s:g}s retry delay (max: {cap_s:g}s). {failure.message}"
        return replace(failure, message=text)
    return failure.retry_after_s


# --- whole turns ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    max_retries: int = 4
    """Repeats of one turn on one model (spec `max_retries`)."""
    max_delay_s: float = 60.0
    """Spec `max_retry_delay_s`: the longest pause; a server that asks for more is not waited for. 0: no
    limit."""
    first_delay_s: float = 1.0


@dataclass(frozen=True, slots=True)
class FailedTurn:
    """A turn whose answer failed. Times in seconds on the same monotonic clock."""

    failure: Failure
    attempt: int
    """Failures of this turn on this model so far, this one included: 1, 2, ..."""
    elapsed_s: float
    """Since the run began."""
    deadline_s: float | None
    """Of the run; a pause that reaches beyond it is not begun."""
    tools_ran: bool = False
    """Tool calls of this very message were executed: repeating the turn would execute them twice."""
    fallbacks: int = 0
    """Models that have not been tried yet."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    delay_s: float


@dataclass(frozen=True, slots=True)
class NextModel:
    """Try the same turn on the next model, at once."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    why: str
    """fatal, tools_ran, attempts, deadline or server_delay."""


Verdict: TypeAlias = RetryAfter | NextModel | GiveUp

_DOWN = ("model_overloaded", "model_unavailable", "model_rate_limited")


def decide_turn(turn: FailedTurn, policy: RetryPolicy, jitter: float) -> Verdict:
    """What to do with a failed turn. `jitter` in [0, 1) takes up to a quarter off our own pauses.

    A full context is never retried. Another model is tried when this one is down for longer than we wait,
    or when its key or account is refused; what is wrong with the request would be wrong there too.
    """
    failure = turn.failure
    if turn.tools_ran:
        return GiveUp("tools_ran")
    down = failure.reason in _DOWN or failure.reason == "model_auth"
    if not failure.retryable:
        return NextModel() if down and turn.fallbacks else GiveUp("fatal")
    why = ""
    delay_s = failure.retry_after_s
    if turn.attempt > policy.max_retries:
        why = "attempts"
    elif delay_s is None:
        delay_s = backoff_s(turn.attempt, policy, jitter)
    elif policy.max_delay_s and delay_s > policy.max_delay_s:
        why = "server_delay"
    if not why and not _in_time(turn, delay_s or 0.0):
        why = "deadline"
    if why:
        return NextModel() if down and turn.fallbacks and _in_time(turn, 0.0) else GiveUp(why)
    return RetryAfter(delay_s or 0.0)


def _in_time(turn: FailedTurn, delay_s: float) -> bool:
    return turn.deadline_s is None or turn.elapsed_s + delay_s < turn.deadline_s


def backoff_s(attempt: int, policy: RetryPolicy, jitter: float) -> float:
    """Doubles with each attempt (1, 2, ...) up to the longest pause, less up to a quarter."""
    pause = policy.first_delay_s * 2.0 ** min(attempt - 1, 30)
    if policy.max_delay_s:
        pause = min(pause, policy.max_delay_s)
    return pause * (1 - 0.25 * jitter)
