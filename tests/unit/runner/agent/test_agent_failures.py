"""What becomes of a run when something around the model or the tools fails."""

import asyncio

import pytest

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.types import (
    AgentEvent,
    BeforeToolCallContext,
    BeforeToolCallResult,
    MessageEnd,
    ToolExecutionEnd,
    ToolExecutionUpdate,
    ToolResult,
    UpdateCallback,
    text_result,
)
from tests.fakes.agent_parts import CountedModel, calls, roles, says, started, stream_of, texts, tool, user

pytestmark = pytest.mark.anyio


class DiskFull(Exception):
    pass


def failing_on_results(event: AgentEvent, _signal: AbortSignal | None) -> None:
    if isinstance(event, MessageEnd) and event.message["role"] == "toolResult":
        raise DiskFull("no space left")


async def test_a_listener_that_fails_ends_the_run_with_a_failure_message() -> None:
    model = CountedModel(calls("ask", "read"), says("never asked for"))
    stops: list[bool] = []
    agent = Agent(
        stream_fn=model.stream,
        tools=[tool("ask"), tool("read")],
        should_stop_after_turn=lambda _turn, _signal: stops.append(True) or True,
    )
    agent.follow_up(user("later"))
    agent.subscribe(failing_on_results)
    await agent.prompt("go")
    assert roles(agent.state.messages) == ["user", "assistant", "toolResult", "assistant"]
    failure = agent.state.messages[-1]
    assert failure["content"] == [{"type": "text", "text": ""}]
    assert (failure["stopReason"], failure["errorMessage"]) == ("error", "no space left")
    assert agent.state.error_message == "no space left"
    assert stops == []
    assert len(model.requests) == 1
    assert agent.has_queued_messages()
    assert not agent.state.is_streaming


async def test_prompt_raises_only_if_even_the_failure_cannot_be_reported() -> None:
    def always(_event: AgentEvent, _signal: AbortSignal | None) -> None:
        raise DiskFull("still full")

    agent = Agent(stream_fn=stream_of(says("one"), says("two")))
    take_back = agent.subscribe(always)
    with pytest.raises(DiskFull):
        await agent.prompt("go")
    await agent.wait_for_idle()
    take_back()
    await agent.prompt("again")
    assert texts(agent.state.messages)[-1] == "one"


async def test_a_stream_function_that_raises_is_reported_like_that_too() -> None:
    agent = Agent(stream_fn=stream_of({"throw": "adapter bug"}))
    await agent.prompt("go")
    assert agent.state.error_message == "adapter bug"
    assert agent.state.messages[-1]["model"] == "unknown"


async def test_an_exception_without_a_text_is_named() -> None:
    async def run(*_: object) -> ToolResult:
        raise TimeoutError

    agent = Agent(stream_fn=stream_of(calls("a"), says("ok")), tools=[tool("a", execute=run)])
    await agent.prompt("go")
    assert texts(agent.state.messages)[2] == "!TimeoutError"


async def test_executions_that_a_failed_run_left_behind_can_be_found_and_cancelled() -> None:
    cancelled = asyncio.Event()

    async def slow(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return text_result("never")

    def listen(event: AgentEvent, _signal: AbortSignal | None) -> None:
        if isinstance(event, ToolExecutionEnd):
            raise DiskFull("no space left")

    agent = Agent(stream_fn=stream_of(calls("slow", "fast")), tools=[tool("slow", execute=slow), tool("fast")])
    agent.subscribe(listen)
    await agent.prompt("go")
    (left,) = agent.in_flight
    left.cancel()
    await asyncio.wait([left], timeout=5)
    assert cancelled.is_set()
    assert agent.in_flight == set()


async def test_a_good_run_leaves_nothing_in_flight() -> None:
    agent = Agent(stream_fn=stream_of(calls("a", "b"), says("ok")), tools=[tool("a"), tool("b")])
    await agent.prompt("go")
    assert agent.in_flight == set()


async def test_a_cancelled_prompt_leaves_the_agent_idle() -> None:
    agent = Agent(stream_fn=stream_of(says("one", delay_ms=60_000), says("two")))
    run = await started(agent)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not agent.state.is_streaming
    await agent.prompt("again")
    assert texts(agent.state.messages)[-1] == "two"


async def test_a_tool_whose_own_work_was_cancelled_gives_an_error_result() -> None:
    async def run(*_: object) -> ToolResult:
        raise asyncio.CancelledError

    agent = Agent(stream_fn=stream_of(calls("a"), says("ok")), tools=[tool("a", execute=run)])
    await agent.prompt("go")
    assert texts(agent.state.messages)[2:] == ["!Tool a was cancelled", "ok"]


async def test_a_tool_that_gives_no_object_gives_an_error_result() -> None:
    async def run(*_: object) -> ToolResult:
        return None  # pyright: ignore[reportReturnType]

    agent = Agent(stream_fn=stream_of(calls("a"), says("ok")), tools=[tool("a", execute=run)])
    await agent.prompt("go")
    assert texts(agent.state.messages)[2:] == ["!Tool a gave no result object", "ok"]


async def test_a_failing_update_listener_fails_the_run_once_the_tool_is_done() -> None:
    async def run(_id: str, _args: JsonObject, _signal: AbortSignal | None, on_update: UpdateCallback) -> ToolResult:
        on_update(text_result("half"))
        return text_result("whole")

    def listen(event: AgentEvent, _signal: AbortSignal | None) -> None:
        if isinstance(event, ToolExecutionUpdate):
            raise DiskFull("no space left")

    agent = Agent(stream_fn=stream_of(calls("a")), tools=[tool("a", execute=run)])
    agent.subscribe(listen)
    await agent.prompt("go")
    assert agent.state.error_message == "no space left"
    assert roles(agent.state.messages) == ["user", "assistant", "assistant"]


async def test_being_blocked_is_a_result_and_not_a_failure() -> None:
    def guard(_context: BeforeToolCallContext, _signal: AbortSignal | None) -> BeforeToolCallResult:
        return BeforeToolCallResult(block=True, reason="not allowed here")

    agent = Agent(stream_fn=stream_of(calls("a"), says("ok")), tools=[tool("a")], before_tool_call=guard)
    await agent.prompt("go")
    assert texts(agent.state.messages)[2:] == ["!not allowed here", "ok"]
