"""Retries of whole turns with a clock that stands still: pauses, attempts, the order of models, and what ends them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from checkpoint.jsontypes import Message
from runner.agent.agent import Agent
from runner.agent.types import (
    AgentTool,
    LlmContext,
    MessageEnd,
    Model,
    ModelName,
    StreamEvent,
    StreamOptions,
    text_result,
)
from runner.models.failure import Failure
from runner.models.retry import GiveUp, NextModel, RetryAfter, Verdict
from runner.retrying import DecidedTurn, ModelChoice, RetryingAgent

pytestmark = pytest.mark.anyio
BUSY = Failure("model_overloaded", "busy", transient=True)
FATAL = Failure("model_invalid_request", "bad")
USER: Message = {"role": "user", "content": [{"type": "text", "text": "Go."}]}
CALL: dict[str, Any] = {"type": "toolCall", "id": "call_1", "name": "note", "arguments": {}}
Said = Failure | str | dict[str, Any]
"""What a model does with one request: fail, say something, or call a tool."""


class Stream:
    def __init__(self, message: Message) -> None:
        self._message = message

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        yield StreamEvent("start", partial={**self._message, "content": []})
        kind = "error" if self._message["stopReason"] == "error" else "done"
        yield StreamEvent(kind, reason=self._message["stopReason"], message=self._message)

    async def result(self) -> Message:
        return self._message


class FakeModel:
    """Answers requests in order, the last one again and again; remembers what it was sent."""

    def __init__(self, name: str, *script: Said) -> None:
        self.name = ModelName(name, "acme", "fake")
        self.sent: list[list[str]] = []
        self.levels: list[str | None] = []
        self._script = list(script)

    def stream(self, model: Model, context: LlmContext, options: StreamOptions) -> Stream:
        assert model.id == self.name.id
        self.sent.append([message["role"] for message in context.messages])
        self.levels.append(options.reasoning)
        said = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        message: Message = {"role": "assistant", "provider": "acme", "model": model.id, "content": []}
        if isinstance(said, Failure):
            return Stream({**message, "stopReason": "error", "errorMessage": said.reason, "failure": said})
        if isinstance(said, str):
            return Stream({**message, "content": [{"type": "text", "text": said}], "stopReason": "stop"})
        return Stream({**message, "content": [said], "stopReason": "toolUse"})

    def choice(self, **changes: Any) -> ModelChoice:
        return ModelChoice(self.name, self.stream, lambda message: message.get("failure"), **changes)


@dataclass
class Stage:
    choices: list[ModelChoice]
    left_s: float = 1000.0
    jitter: float = 0.0
    slept: list[float] = field(default_factory=list[float])
    turns: list[DecidedTurn] = field(default_factory=list[DecidedTurn])
    ended: list[Message] = field(default_factory=list[Message])
    runs_of_the_tool: int = 0
    on_sleep: Callable[[], object] = lambda: None
    forever: bool = False

    def build(self) -> RetryingAgent:
        async def note(*_: Any) -> Any:
            self.runs_of_the_tool += 1
            return text_result("noted")

        first = self.choices[0]
        tool = AgentTool("note", "Note.", {"type": "object", "properties": {}}, note)
        self.agent = Agent(stream_fn=first.stream, model=first.name, thinking_level=first.thinking_level, tools=[tool])
        self.agent.subscribe(
            lambda event, _: self.ended.append(event.message) if isinstance(event, MessageEnd) else None
        )
        return RetryingAgent(
            self.agent,
            self.choices,
            time_left=lambda: self.left_s,
            on_verdict=self.turns.append,
            jitter=lambda: self.jitter,
            sleep=self._sleep,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.on_sleep()
        if self.forever:
            await asyncio.Event().wait()

    async def run(self) -> list[str]:
        """The roles of the agent's transcript in the end."""
        await self.build().prompt([USER])
        return [message["role"] for message in self.agent.state.messages]

    @property
    def verdicts(self) -> list[Verdict]:
        return [turn.verdict for turn in self.turns]


async def test_pauses_double_up_to_the_cap_and_the_attempts_end(anyio_backend: str) -> None:
    stage = Stage([FakeModel("m", BUSY).choice(max_retries=4, max_retry_delay_s=5.0)])
    roles = await stage.run()
    assert stage.slept == [1.0, 2.0, 4.0, 5.0]
    assert stage.verdicts[-1] == GiveUp("attempts")
    assert [turn.attempt for turn in stage.turns] == [1, 2, 3, 4, 5]
    assert roles == ["user", "assistant"], "the last failed message stays, for the outcome to be read from"


async def test_jitter_takes_up_to_a_quarter_off(anyio_backend: str) -> None:
    stage = Stage([FakeModel("m", BUSY, BUSY, "Done.").choice()], jitter=1.0)
    await stage.run()
    assert stage.slept == [0.75, 1.5]


async def test_the_servers_own_wish_is_followed_up_to_the_cap(anyio_backend: str) -> None:
    wish = Failure("model_rate_limited", "", transient=True, retry_after_s=7.0)
    stage = Stage([FakeModel("m", wish, "Done.").choice()], jitter=1.0)
    await stage.run()
    assert stage.slept == [7.0]
    capped = Stage([FakeModel("m", wish, "Done.").choice(max_retry_delay_s=6.9)])
    await capped.run()
    assert (capped.slept, capped.verdicts) == ([], [GiveUp("server_delay")])


async def test_a_failed_message_leaves_the_transcript_and_is_not_sent_again(anyio_backend: str) -> None:
    model = FakeModel("m", CALL, BUSY, BUSY, "Done.")
    stage = Stage([model.choice()])
    assert await stage.run() == ["user", "assistant", "toolResult", "assistant"]
    assert model.sent == [["user"], *[["user", "assistant", "toolResult"]] * 3]
    assert [message.get("stopReason") for message in stage.ended] == [
        None, "toolUse", None, "error", "error", "stop",
    ], "listeners, such as the session log, saw every message"  # fmt: skip
    assert stage.runs_of_the_tool == 1


async def test_progress_gives_all_attempts_back(anyio_backend: str) -> None:
    model = FakeModel("m", BUSY, BUSY, CALL, BUSY, BUSY, CALL, BUSY, BUSY, "Done.")
    stage = Stage([model.choice(max_retries=2)])
    await stage.run()
    assert stage.slept == [1.0, 2.0] * 3
    assert stage.runs_of_the_tool == 2


async def test_fallbacks_are_tried_in_order_each_with_attempts_and_level_of_its_own(anyio_backend: str) -> None:
    first, second, third = FakeModel("a", BUSY), FakeModel("b", BUSY), FakeModel("c", CALL, "Done.")
    stage = Stage(
        [
            first.choice(max_retries=1, thinking_level="high"),
            second.choice(max_retries=0),
            third.choice(thinking_level="low"),
        ]
    )
    await stage.run()
    assert [len(model.sent) for model in (first, second, third)] == [2, 1, 2]
    assert stage.verdicts == [RetryAfter(1.0), NextModel(), NextModel()]
    assert [(turn.failed_model.name.id, turn.next_model.name.id) for turn in stage.turns] == [
        ("a", "a"),
        ("a", "b"),
        ("b", "c"),
    ]
    assert (first.levels, second.levels, third.levels) == (["high", "high"], [None], ["low", "low"])
    assert stage.agent.state.model.id == "c"


async def test_what_is_wrong_with_the_request_is_wrong_with_every_model(anyio_backend: str) -> None:
    spare = FakeModel("b", "Done.")
    stage = Stage([FakeModel("a", FATAL).choice(), spare.choice()])
    await stage.run()
    assert (stage.verdicts, spare.sent) == ([GiveUp("fatal")], [])


async def test_a_pause_that_reaches_beyond_the_deadline_is_not_begun(anyio_backend: str) -> None:
    wish = Failure("model_rate_limited", "", transient=True, retry_after_s=30.0)
    alone = Stage([FakeModel("a", wish).choice()], left_s=30.0)
    await alone.run()
    assert (alone.verdicts, alone.slept) == ([GiveUp("deadline")], [])

    spare = FakeModel("b", "Done.")
    stage = Stage([FakeModel("a", wish).choice(), spare.choice()], left_s=30.0)
    await stage.run()
    assert (stage.verdicts, len(spare.sent)) == ([NextModel()], 1), "the spare model can be asked at once"

    late = Stage([FakeModel("a", wish).choice(), FakeModel("b", "Done.").choice()], left_s=0.0)
    await late.run()
    assert late.verdicts == [GiveUp("deadline")]


async def test_an_abort_ends_a_pause_at_once_and_asks_nobody(anyio_backend: str) -> None:
    model, spare = FakeModel("a", BUSY), FakeModel("b", "Done.")
    stage = Stage([model.choice(), spare.choice()], forever=True)
    agent = stage.build()
    stage.on_sleep = agent.abort
    await asyncio.wait_for(agent.prompt([USER]), 5)
    assert (len(model.sent), spare.sent) == (1, [])
    assert stage.slept == [1.0]


async def test_an_abort_while_the_model_answers_is_no_failure_of_the_model(anyio_backend: str) -> None:
    model = FakeModel("a", BUSY)
    stage = Stage([model.choice()])
    agent = stage.build()
    stage.agent.subscribe(lambda event, _: agent.abort() if isinstance(event, MessageEnd) else None)
    await agent.prompt([USER])
    assert (stage.turns, len(model.sent)) == ([], 1)


async def test_a_listener_that_fails_is_never_retried(anyio_backend: str) -> None:
    """So is a session log that breaks: it is a listener."""
    model = FakeModel("a", BUSY)
    stage = Stage([model.choice()])
    agent = stage.build()

    def fail(event: Any, _: Any) -> None:
        if isinstance(event, MessageEnd) and event.message.get("role") == "assistant":
            raise OSError("disk full")

    stage.agent.subscribe(fail)
    with pytest.raises(OSError, match="disk full"):
        await agent.prompt([USER])
    assert (stage.turns, len(model.sent)) == ([], 1)


async def test_a_hook_that_raises_is_never_retried(anyio_backend: str) -> None:
    model = FakeModel("a", BUSY)
    stage = Stage([model.choice()])
    agent = stage.build()
    failures = [RuntimeError("once")]

    def fail_once(event: Any, _: Any) -> None:
        if isinstance(event, MessageEnd) and event.message.get("role") == "assistant" and failures:
            raise failures.pop()

    stage.agent.subscribe(fail_once)
    await agent.prompt([USER])
    assert isinstance(agent.failure, RuntimeError)
    assert (stage.turns, len(model.sent)) == ([], 1)


async def test_a_session_that_ends_with_the_users_word_is_continued_with_retries_too(anyio_backend: str) -> None:
    stage = Stage([FakeModel("a", BUSY, "Done.").choice()])
    agent = stage.build()
    stage.agent.state.messages.append(USER)
    await agent.continue_()
    assert [message["role"] for message in stage.agent.state.messages] == ["user", "assistant"]
    assert stage.slept == [1.0]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
