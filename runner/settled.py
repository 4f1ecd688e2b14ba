"""Runs the agent once, until nothing of it moves any more, and says what happened.

The order is the point. Whatever the run left behind is ended first: the gate through which questions go is
closed, tool executions still in flight are cancelled and awaited, questions on their way are waited for.
Only then is anything read, and the interruption only if there is no prompt error. It refuses to judge (that
is `settlement.settle`) and to wait without a bound: an agent that ignores its abort is cut off.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from checkpoint.jsontypes import Message
from runner.agent.types import Listener
from runner.interruption import InterruptionAdapter
from runner.question_gate import QuestionGate
from runner.run_watch import has_tool_calls, message_text
from runner.stop import RequestReason, StopPolicy
from settlement.outcome import (
    AbortReason,
    LastAssistant,
    ModelFailure,
    Outcome,
    SentQuestion,
    Undelivered,
    run_failed,
)

CUT_OFF_S = 2.0
"""How long cancelled work may take to end, at most half of what is left of the run's time: what ignores even that is
left behind."""
_LEAST_CUT_OFF_S = 0.05
"""Without it, cancelled work would not get to run at all."""

# --- what is needed of the others ---------------------------------------------------------------------------


class SettlingAgent(Protocol):
    """The part of `Agent` that is used here."""

    async def prompt(self, prompt: Sequence[Message]) -> None: ...
    async def continue_(self) -> None: ...
    def abort(self) -> None: ...
    def subscribe(self, listener: Listener) -> Callable[[], object]: ...
    def has_queued_messages(self) -> bool: ...
    @property
    def steering_queue(self) -> tuple[Message, ...]: ...
    @property
    def follow_up_queue(self) -> tuple[Message, ...]: ...
    @property
    def in_flight(self) -> set[asyncio.Task[Any]]: ...
    @property
    def failure(self) -> Exception | None:
        """What ended the run instead of its model."""
        ...


class LogState(Protocol):
    """The part of the session log that is read here."""

    @property
    def broken(self) -> str | None: ...
    @property
    def entries(self) -> int: ...


class StopRequests(Protocol):
    """Who asks the run to stop from outside. Sticky."""

    @property
    def reason(self) -> RequestReason | None: ...
    async def wait_abort(self) -> None:
        """Return once the run is to be aborted: for `cancelled` and `deadline_exceeded`, not for `paused`."""
        ...

    async def wait_urgent(self) -> None:
        """Return once nobody should wait for the agent any more."""
        ...


# --- the run ------------------------------------------------------------------------------------------------


class StartWithPrompt(Struct, frozen=True):
    messages: tuple[Message, ...]


class StartByContinuing(Struct, frozen=True):
    input_taken: bool = True
    """What the outcome says of the input, which is in the log already, if there was one."""


Start: TypeAlias = StartWithPrompt | StartByContinuing


class RunParts(Struct, frozen=True, kw_only=True):
    """What stands around the agent of one run. `policy` and `interruption` are its hooks."""

    policy: StopPolicy
    interruption: InterruptionAdapter
    gate: QuestionGate
    log: LogState
    requests: StopRequests
    classify: Callable[[Message], ModelFailure | None]
    """What the failed message of a model means; None if it does not come from the model's side."""
    end_wait_s: Callable[[], float]
    """How long, from now on, what is left of the run may take: an aborted agent, questions on their way."""
    restored_entries: int | None = None
    """Entries of the log as it was restored; None: as it is when the run starts."""


async def run_agent_until_settled(agent: SettlingAgent, start: Start, parts: RunParts) -> Outcome:
    """One run of the main agent. Ends within the bounds of `parts` once a stop is requested."""
    before = parts.log.entries if parts.restored_entries is None else parts.restored_entries
    parts.interruption.reset()
    parts.policy.begin(
        prompts=len(start.messages) if isinstance(start, StartWithPrompt) else 0,
        queued=agent.has_queued_messages,
    )
    ended = _Ended()
    if not parts.policy.stop_before_run():
        unsubscribe = agent.subscribe(parts.policy.watch.observe)
        try:
            ended = await _run(agent, start, parts)
        finally:
            unsubscribe()
    parts.gate.close()
    await _end_tools(agent, _cut_off_s(parts))
    await parts.gate.drain(parts.end_wait_s())
    return _read(agent, start, parts, ended, appended=parts.log.entries > before)


class _Ended(Struct, frozen=True):
    raised: str | None = None
    aborted_for: AbortReason | None = None


async def _run(agent: SettlingAgent, start: Start, parts: RunParts) -> _Ended:
    match start:
        case StartWithPrompt():
            run = asyncio.ensure_future(agent.prompt(list(start.messages)))
        case StartByContinuing():
            run = asyncio.ensure_future(agent.continue_())
    try:
        aborted_for = None
        if not await _first(run, parts.requests.wait_abort(), None):
            aborted_for = await _abort(agent, run, parts)
    finally:
        run.cancel()  # does nothing to a run that has ended
    return _Ended(_raised(run), aborted_for)


async def _abort(agent: SettlingAgent, run: "asyncio.Future[None]", parts: RunParts) -> AbortReason | None:
    """End a run for which somebody will not wait. None if it ended by itself before it was aborted."""
    urgent = parts.requests.wait_urgent
    reason: AbortReason = "cancelled"
    if parts.requests.reason == "deadline_exceeded":
        reason = "deadline_exceeded"
        # The stop hook knows of the deadline, too: a turn that is about to end may do so.
        if await _first(run, urgent(), parts.end_wait_s() / 2):
            return None
    agent.abort()
    if not await _first(run, urgent(), parts.end_wait_s() - _cut_off_s(parts)):
        run.cancel()
        await asyncio.wait({run}, timeout=_cut_off_s(parts))
    return reason


async def _first(run: "asyncio.Future[None]", other: Awaitable[None], timeout_s: float | None) -> bool:
    """Wait for the run, the other, or the time; whether the run has ended."""
    waiting = asyncio.ensure_future(other)
    try:
        await asyncio.wait({run, waiting}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    return run.done()


def _raised(run: "asyncio.Future[None]") -> str | None:
    """The name of what `prompt()` raised; its text may hold anything, so it stays out of the outcome."""
    if not run.done() or run.cancelled():
        return "the run did not end when it was aborted"
    error = run.exception()
    return None if error is None else f"the run raised {type(error).__name__}"


def _cut_off_s(parts: RunParts) -> float:
    return max(_LEAST_CUT_OFF_S, min(CUT_OFF_S, parts.end_wait_s() / 2))


async def _end_tools(agent: SettlingAgent, timeout_s: float) -> None:
    """Cancel what a failed run left in flight, and wait for it."""
    left = set(agent.in_flight)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=timeout_s)
    for task in left:
        if task.done() and not task.cancelled():
            task.exception()  # looked at, so that asyncio does not report it


# --- the outcome --------------------------------------------------------------------------------------------


def _read(agent: SettlingAgent, start: Start, parts: RunParts, ended: _Ended, *, appended: bool) -> Outcome:
    watch, policy = parts.policy.watch, parts.policy
    last = watch.last_assistant
    outcome = Outcome(
        log_broken=parts.log.broken,
        questions=tuple(_logged(question, watch.succeeded_calls) for question in parts.gate.sent),
        stop=policy.stop,
        aborted_for=ended.aborted_for,
        prompt_raised=ended.raised,
        last_assistant=None if last is None else _last_assistant(last),
        terminating_texts=watch.terminating_texts,
        model_failure=_model_failure(agent, last, parts.classify),
        appended=appended,
        input_taken=_input_taken(start, parts),
        undelivered=(
            *_undelivered("steering", agent.steering_queue),
            *_undelivered("follow_up", agent.follow_up_queue),
        ),
    )
    if run_failed(outcome):
        return outcome
    return replace(outcome, interruption=parts.interruption.interruption)


def _logged(question: SentQuestion, succeeded_calls: set[str]) -> SentQuestion:
    return replace(question, result_logged=question.tool_call_id in succeeded_calls)


def _last_assistant(message: Message) -> LastAssistant:
    return LastAssistant(str(message.get("stopReason")), message_text(message), has_tool_calls(message))


def _model_failure(
    agent: SettlingAgent, message: Message | None, classify: Callable[[Message], ModelFailure | None]
) -> ModelFailure | None:
    """None for a good message, and for a failure message that the agent made of what a hook or a listener raised."""
    if message is None or message.get("stopReason") != "error" or agent.failure is not None:
        return None
    return classify(message)


def _input_taken(start: Start, parts: RunParts) -> bool:
    match start:
        case StartWithPrompt():
            return parts.policy.watch.prompts_taken
        case StartByContinuing():
            return start.input_taken


def _undelivered(queue: Literal["steering", "follow_up"], messages: Sequence[Message]) -> list[Undelivered]:
    return [Undelivered(queue, message_text(message)) for message in messages]
