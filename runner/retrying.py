"""Retries of whole turns: an agent whose failed answers are asked for again, on this model or the next.

The failed message stays in the session log and leaves the agent's state, so that it is not sent again; the run then
goes on as a new `continue_()`. Its tool calls were never run (the loop ends a run on a failed message), so nothing
happens twice. What to do is decided in `runner/models/retry.py`; this waits and acts. Refuses to retry what is not the
model's failure: a log that broke, a hook that raised.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from checkpoint.jsontypes import Message
from runner.agent.agent import Agent
from runner.agent.types import Listener, Model, StreamFn, ThinkingLevel

if TYPE_CHECKING:
    from runner.models.failure import Failure
    from runner.models.retry import Verdict


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """One model that the agent may run on: its names, how it is asked, what a failed answer of it means."""

    name: Model
    stream: StreamFn
    failure_of: "Callable[[Message], Failure | None]"
    thinking_level: ThinkingLevel = "off"
    max_retries: int = 4
    max_retry_delay_s: float = 60.0


@dataclass(frozen=True, slots=True)
class DecidedTurn:
    """What failed, and what is done about it; told before it is done, for log and session."""

    failure: "Failure"
    verdict: "Verdict"
    attempt: int
    """The failures of this turn on this model so far, this one included."""
    failed_model: ModelChoice
    next_model: ModelChoice


class RetryingAgent:
    """Runs like the agent it holds. `choices` in order of preference; the first is the agent's own.

    `time_left` is what remains until the deadline, in seconds; `jitter` gives [0, 1).
    """

    def __init__(
        self,
        agent: Agent,
        choices: Sequence[ModelChoice],
        *,
        time_left: Callable[[], float],
        on_verdict: Callable[[DecidedTurn], None],
        jitter: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._agent = agent
        self._choices = list(choices)
        self._time_left = time_left
        self._on_verdict = on_verdict
        self._jitter = jitter
        self._sleep = sleep
        self._aborted = asyncio.Event()

    @property
    def model(self) -> ModelChoice:
        """The one that is asked now."""
        return self._choices[0]

    async def prompt(self, prompt: Sequence[Message]) -> None:
        await self._agent.prompt(prompt)
        await self._retry_failed_turns()

    async def continue_(self) -> None:
        await self._agent.continue_()
        await self._retry_failed_turns()

    def abort(self) -> None:
        self._aborted.set()
        self._agent.abort()

    def subscribe(self, listener: Listener) -> Callable[[], object]:
        return self._agent.subscribe(listener)

    def has_queued_messages(self) -> bool:
        return self._agent.has_queued_messages()

    @property
    def steering_queue(self) -> tuple[Message, ...]:
        return self._agent.steering_queue

    @property
    def follow_up_queue(self) -> tuple[Message, ...]:
        return self._agent.follow_up_queue

    @property
    def in_flight(self) -> set[asyncio.Task[Any]]:
        return self._agent.in_flight

    @property
    def failure(self) -> Exception | None:
        return self._agent.failure

    async def _retry_failed_turns(self) -> None:
        from runner.models.retry import GiveUp, NextModel, RetryAfter

        attempt = 1
        while (failure := self._failed()) is not None:
            verdict = self._decide(failure, attempt)
            failed_model = self.model
            if isinstance(verdict, NextModel):
                self._choices.pop(0)
            self._on_verdict(DecidedTurn(failure, verdict, attempt, failed_model, self.model))
            if isinstance(verdict, GiveUp):
                return
            if isinstance(verdict, RetryAfter) and not await self._wait(verdict.delay_s):
                return
            attempt = attempt + 1 if isinstance(verdict, RetryAfter) else 1
            if await self._again():
                attempt = 1

    def _failed(self) -> "Failure | None":
        """The model's failure that the run ended with; None if it ended well, or by something else."""
        messages = self._agent.state.messages
        if self._aborted.is_set() or self._agent.failure is not None or not messages:
            return None
        last = messages[-1]
        if last.get("role") != "assistant" or last.get("stopReason") != "error":
            return None
        return self.model.failure_of(last)

    def _decide(self, failure: "Failure", attempt: int) -> "Verdict":
        from runner.models.retry import FailedTurn, RetryPolicy, decide_turn

        turn = FailedTurn(
            failure,
            attempt=attempt,
            elapsed_s=0.0,
            deadline_s=self._time_left(),
            fallbacks=len(self._choices) - 1,
        )
        policy = RetryPolicy(self.model.max_retries, self.model.max_retry_delay_s)
        return decide_turn(turn, policy, self._jitter())

    async def _wait(self, delay_s: float) -> bool:
        """False if the wait was ended by an abort."""
        pause, aborted = asyncio.ensure_future(self._sleep(delay_s)), asyncio.ensure_future(self._aborted.wait())
        try:
            await asyncio.wait({pause, aborted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            aborted.cancel()
        return not self._aborted.is_set()

    async def _again(self) -> bool:
        """Run on without the failed message; True if the run got further than that turn before it failed again."""
        state = self._agent.state
        state.messages.pop()
        state.model, state.thinking_level = self.model.name, self.model.thinking_level
        self._agent.stream_fn = self.model.stream
        before = len(state.messages)
        await self._agent.continue_()
        return len(self._agent.state.messages) > before + 1
