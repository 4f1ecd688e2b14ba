"""Events as the lines of `--events` show them."""

import json

import pytest

from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.types import AgentEvent, ToolExecutionUpdate, text_result
from runner.events import event_to_json
from tests.fakes.agent_parts import calls, says, stream_of, tool


@pytest.mark.anyio
async def test_a_run_is_written_in_pis_shape_with_deltas_only() -> None:
    lines: list[str] = []

    def write(event: AgentEvent, _signal: AbortSignal | None) -> None:
        lines.append(json.dumps(event_to_json(event)))

    agent = Agent(
        stream_fn=stream_of(calls("t"), {"content": [{"type": "text", "text": "ab", "deltas": ["a", "b"]}]}),
        tools=[tool("t")],
    )
    agent.subscribe(write)
    await agent.prompt("go")
    events = [json.loads(line) for line in lines]
    updates = [event for event in events if event["type"] == "message_update"]
    assert updates[3:] == [
        {"type": "message_update", "assistantMessageEvent": {"type": "text_start", "contentIndex": 0}},
        {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": "a"}},
        {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "contentIndex": 0, "delta": "b"}},
        {"type": "message_update", "assistantMessageEvent": {"type": "text_end", "contentIndex": 0, "content": "ab"}},
    ]
    assert updates[2]["assistantMessageEvent"]["toolCall"]["name"] == "t"
    shapes = {event["type"]: sorted(event) for event in events}
    assert shapes == {
        "agent_start": ["type"],
        "turn_start": ["type"],
        "message_start": ["message", "type"],
        "message_update": ["assistantMessageEvent", "type"],
        "message_end": ["message", "type"],
        "tool_execution_start": ["args", "toolCallId", "toolName", "type"],
        "tool_execution_end": ["isError", "result", "toolCallId", "toolName", "type"],
        "turn_end": ["message", "toolResults", "type"],
        "agent_end": ["messages", "type"],
    }


def test_an_update_of_a_tool_shows_what_it_reported() -> None:
    event = ToolExecutionUpdate("c1", "t", {"n": 1}, text_result("half"))
    assert event_to_json(event) == {
        "type": "tool_execution_update",
        "toolCallId": "c1",
        "toolName": "t",
        "args": {"n": 1},
        "partialResult": text_result("half"),
    }


@pytest.mark.anyio
async def test_a_text_beyond_ascii_goes_through() -> None:
    ends: list[AgentEvent] = []
    agent = Agent(stream_fn=stream_of(says("ünï")))
    agent.subscribe(lambda event, _signal: ends.append(event))
    await agent.prompt("go")
    assert event_to_json(ends[-1])["messages"][-1]["content"][0]["text"] == "ünï"
