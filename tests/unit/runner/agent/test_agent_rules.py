"""The rules of a run that hosts build on: order, stopping, terminating, aborting, continuing."""

import asyncio
from collections.abc import Callable

import pytest

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.errors import AgentRefused
from runner.agent.types import (
    AfterToolCallContext,
    AgentEvent,
    MessageEnd,
    ToolResult,
    TurnContext,
    TurnEnd,
    UpdateCallback,
    text_result,
)
from tests.fakes.agent_parts import CountedModel, calls, roles, says, started, stream_of, texts, tool, user

pytestmark = pytest.mark.anyio


def terminating(text: str) -> ToolResult:
    return {**text_result(text), "terminate": True}


async def test_a_turn_ends_with_its_results_then_turn_end_then_preparing_then_the_stop_hook() -> None:
    order: list[str] = []

    def listen(event: AgentEvent, _signal: AbortSignal | None) -> None:
        if isinstance(event, MessageEnd) and event.message["role"] == "toolResult":
            order.append("result")
        if isinstance(event, TurnEnd):
            order.append("turn_end")

    def stop(turn: TurnContext, _signal: AbortSignal | None) -> bool:
        order.append(f"stop? {roles(turn.context.messages)[-1]}")
        return False

    agent = Agent(
        stream_fn=stream_of(calls("a", "b"), says("end")),
        tools=[tool("a"), tool("b")],
        prepare_next_turn=lambda _signal: order.append("prepare"),
        should_stop_after_turn=stop,
    )
    agent.subscribe(listen)
    await agent.prompt("go")
    assert order == [
        *("result", "result", "turn_end", "prepare", "stop? toolResult"),
        *("turn_end", "prepare", "stop? assistant"),
    ]


async def test_the_stop_hook_gets_the_signal_of_the_run() -> None:
    seen: list[AbortSignal | None] = []

    def stop(_turn: TurnContext, signal: AbortSignal | None) -> bool:
        seen.extend([signal, agent.signal])
        return True

    agent = Agent(stream_fn=stream_of(says("x")), should_stop_after_turn=stop)
    await agent.prompt("go")
    assert seen[0] is not None
    assert seen[0] is seen[1]
    assert agent.signal is None


async def test_a_stop_ends_after_the_whole_batch_and_leaves_both_queues() -> None:
    model = CountedModel(calls("ask", "read"), says("never asked for"))
    asked: list[str] = []

    def after(context: AfterToolCallContext, _signal: AbortSignal | None) -> None:
        if context.tool_call["name"] == "ask":
            asked.append(context.tool_call["id"])

    agent = Agent(
        stream_fn=model.stream,
        tools=[tool("ask", "sent"), tool("read", "contents")],
        after_tool_call=after,
        should_stop_after_turn=lambda _turn, _signal: bool(asked),
    )
    agent.subscribe(queue_at_first_turn_end(lambda: agent))
    await agent.prompt("go")
    assert texts(agent.state.messages)[2:] == ["sent", "contents"]
    assert len(model.requests) == 1
    assert texts(list(agent.steering_queue)) == ["steer"]
    assert texts(list(agent.follow_up_queue)) == ["follow up"]
    assert agent.state.error_message is None


def queue_at_first_turn_end(agent: Callable[[], Agent]) -> Callable[[AgentEvent, AbortSignal | None], None]:
    def listen(event: AgentEvent, _signal: AbortSignal | None) -> None:
        if isinstance(event, TurnEnd) and not agent().has_queued_messages():
            agent().steer(user("steer"))
            agent().follow_up(user("follow up"))

    return listen


async def test_a_hook_that_never_stops_changes_nothing() -> None:
    responses: list[JsonObject] = [calls("a"), says("end")]
    with_hook = Agent(
        stream_fn=stream_of(*responses),
        tools=[tool("a")],
        should_stop_after_turn=lambda _turn, _signal: False,
    )
    without = Agent(stream_fn=stream_of(*responses), tools=[tool("a")])
    await with_hook.prompt("go")
    await without.prompt("go")
    assert texts(with_hook.state.messages) == texts(without.state.messages) == ["go", "", "done", "end"]


@pytest.mark.parametrize(
    ("second", "requests"),
    [
        (terminating("b"), 1),
        (text_result("b"), 2),
        ({**text_result("b"), "terminate": 1}, 2),
    ],
)
async def test_only_a_batch_of_which_every_result_terminates_is_not_followed_by_a_request(
    second: ToolResult, requests: int
) -> None:
    model = CountedModel(calls("a", "b"), says("more"))
    agent = Agent(stream_fn=model.stream, tools=[tool("a", terminating("a")), tool("b", second)])
    await agent.prompt("go")
    assert len(model.requests) == requests


async def test_queued_messages_go_on_after_a_terminating_batch() -> None:
    def steer(context: AfterToolCallContext, _signal: AbortSignal | None) -> None:
        agent.steer(user(f"about {context.tool_call['id']}"))

    agent = Agent(
        stream_fn=stream_of(calls("a"), says("steered"), says("followed")),
        tools=[tool("a", terminating("a"))],
        after_tool_call=steer,
    )
    agent.follow_up(user("later"))
    await agent.prompt("go")
    assert texts(agent.state.messages)[3:] == ["about a", "steered", "later", "followed"]


async def test_an_error_message_ends_the_run_without_running_its_calls() -> None:
    ran: list[str] = []

    async def run(call_id: str, *_: object) -> ToolResult:
        ran.append(call_id)
        return text_result("")

    model = CountedModel(calls("a", stopReason="error", errorMessage="overloaded"))
    agent = Agent(stream_fn=model.stream, tools=[tool("a", execute=run)])
    agent.follow_up(user("later"))
    await agent.prompt("go")
    assert ran == []
    assert roles(agent.state.messages) == ["user", "assistant"]
    assert agent.state.error_message == "overloaded"
    assert agent.has_queued_messages()


async def test_an_abort_is_a_request_that_a_tool_may_ignore() -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    async def stubborn(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
        started.set()
        await finish.wait()
        return text_result("finished all the same")

    agent = Agent(stream_fn=stream_of(calls("a"), says("x")), tools=[tool("a", execute=stubborn)])
    run = asyncio.create_task(agent.prompt("go"))
    await started.wait()
    agent.abort()
    idle = asyncio.create_task(agent.wait_for_idle())
    await asyncio.sleep(0)
    assert agent.state.is_streaming
    assert not idle.done()
    finish.set()
    await asyncio.gather(run, idle)
    assert texts(agent.state.messages)[2] == "finished all the same"
    assert agent.state.messages[-1]["stopReason"] == "aborted"
    assert not agent.state.is_streaming


async def test_the_next_run_does_not_know_of_an_earlier_abort() -> None:
    agent = Agent(stream_fn=stream_of(says("one", delay_ms=60_000), says("two")))
    run = await started(agent)
    agent.abort()
    await run
    assert agent.state.error_message == "Request was aborted"
    await agent.prompt("again")
    assert texts(agent.state.messages)[-1] == "two"
    assert agent.state.error_message is None


async def test_continuing_starts_a_new_run_and_wakes_nothing() -> None:
    model = CountedModel(says("answer"))
    agent = Agent(stream_fn=model.stream, messages=[user("asked before")])
    ends: list[AgentEvent] = []

    def listen(event: AgentEvent, _signal: AbortSignal | None) -> None:
        if event.type in ("message_start", "agent_end"):
            ends.append(event)

    agent.subscribe(listen)
    await agent.continue_()
    assert texts(model.requests[0]) == ["asked before"]
    assert [event.type for event in ends] == ["message_start", "agent_end"]


async def test_continuing_after_an_answer_needs_something_queued() -> None:
    agent = Agent(stream_fn=stream_of(says("one"), says("two")))
    await agent.prompt("go")
    with pytest.raises(AgentRefused) as refused:
        await agent.continue_()
    assert refused.value.reason == "nothing_to_continue"
    agent.follow_up(user("more"))
    await agent.continue_()
    assert texts(agent.state.messages) == ["go", "one", "more", "two"]


async def test_a_second_run_is_refused_while_one_is_active() -> None:
    agent = Agent(stream_fn=stream_of(says("one", delay_ms=60_000)))
    run = await started(agent)
    for second in (agent.prompt("too"), agent.continue_()):
        with pytest.raises(AgentRefused) as refused:
            await second
        assert refused.value.reason == "busy"
    agent.abort()
    await run


async def test_a_listener_that_was_taken_back_hears_nothing_more() -> None:
    heard: list[str] = []
    agent = Agent(stream_fn=stream_of(says("one"), says("two")))
    take_back = agent.subscribe(lambda event, _signal: heard.append(event.type))
    agent.subscribe(lambda event, _signal: take_back() if event.type == "turn_end" else None)
    await agent.prompt("go")
    assert heard[-1] == "turn_end"
