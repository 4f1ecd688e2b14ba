"""What a real model's answer costs us, and anybody who reads such a stream with httpx-sse and `json.loads`.

The measured process: `python -m bench.model_stream adapter|agent|tool API`.

`adapter`, `agent`: microseconds of CPU per streamed event, in the adapter alone and all the way to the session log.
`tool`: milliseconds from the last byte of a turn that calls a tool to the tool's start. Refuses to measure the network:
the bytes come from memory, in pieces as a server would flush them.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
from httpx_sse import EventSource

from checkpoint.session.header import new_header
from checkpoint.session.log import SessionLog
from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.types import (
    AgentEvent,
    AgentTool,
    LlmContext,
    MessageEnd,
    StreamOptions,
    ToolResult,
    TurnContext,
    text_result,
)
from runner.cleaning import clean_stream
from runner.models.answer import Surroundings
from runner.models.calls import APIS, ModelCalls
from runner.models.settings import ModelSettings, Prices
from runner.models.transport import HttpTransport

DELTAS = 10_000
PER_PIECE = 10
TOOL_RUNS = 20
"""A tool's start takes a millisecond: the median of so many is taken."""
_ARGUMENTS = '{"path": "a.txt"}'
_ITEM = {"type": "function_call", "id": "f", "call_id": "t", "name": "read"}


# --- CPU per event ------------------------------------------------------------------------------------------


async def _cpu(api: str, read: Callable[[str, httpx.AsyncBaseTransport], Awaitable[float]]) -> float:
    """Microseconds per event of one answer with `DELTAS` text deltas."""
    return await read(api, _Memory(_pieces(_EVENTS[api]()))) * 1e6 / DELTAS


async def _by_the_adapter(api: str, memory: httpx.AsyncBaseTransport) -> float:
    transport = HttpTransport(lambda: httpx.AsyncClient(transport=memory))
    context = LlmContext("", [{"role": "user", "content": "Hi"}])
    calls = _calls(transport)
    started = time.process_time()
    async for _ in calls(_model(api), context, StreamOptions()):
        pass
    spent = time.process_time() - started
    await transport.aclose()
    return spent


async def _by_the_agent(api: str, memory: httpx.AsyncBaseTransport) -> float:
    """The whole way: adapter, cleaning, loop, session log."""
    with tempfile.TemporaryDirectory(prefix="runner-bench-") as folder:
        agent, transport = _agent(api, memory, Path(folder))
        started = time.process_time()
        await agent.prompt("Hi")
        spent = time.process_time() - started
        await transport.aclose()
    return spent


async def _by_hand(_api: str, memory: httpx.AsyncBaseTransport) -> float:
    async with httpx.AsyncClient(transport=memory) as client:
        started = time.process_time()
        async with client.stream("POST", "http://model/") as response:
            async for sse in EventSource(response).aiter_sse():
                if sse.data != "[DONE]":
                    json.loads(sse.data)
        return time.process_time() - started


def _calls(transport: HttpTransport) -> ModelCalls:
    return ModelCalls(Surroundings(transport), keys={"p": "key-key-key"})


def _model(api: str) -> ModelSettings:
    return ModelSettings(id="m", provider="p", api=api, base_url="http://model", prices=Prices(1, 1, 1, 1))


def _agent(api: str, memory: httpx.AsyncBaseTransport, folder: Path, *tools: AgentTool) -> tuple[Agent, HttpTransport]:
    transport = HttpTransport(lambda: httpx.AsyncClient(transport=memory))
    log = SessionLog.create(folder / "session.jsonl", new_header(str(folder)))
    agent = Agent(stream_fn=clean_stream(_calls(transport)), model=_model(api), tools=list(tools))

    def persist(event: AgentEvent, _signal: AbortSignal | None) -> None:
        if isinstance(event, MessageEnd):
            log.append_message(event.message)

    agent.subscribe(persist)
    return agent, transport


# --- from the last byte to the tool -----------------------------------------------------------------------------


async def _to_the_tool(api: str) -> float:
    """Milliseconds from the last byte of a turn that calls a tool to the tool's start, the message logged between."""
    begun: list[float] = []

    async def run(*_: Any) -> ToolResult:
        begun.append(time.perf_counter())
        return text_result("done")

    memory = _Memory([_sse(event).encode() for event in _CALL[api]])
    tool = AgentTool("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}}, run)
    with tempfile.TemporaryDirectory(prefix="runner-bench-") as folder:
        agent, transport = _agent(api, memory, Path(folder), tool)
        agent.should_stop_after_turn = _stop
        await agent.prompt("Hi")
        await transport.aclose()
    if not begun:
        sys.exit(f"the tool was not called: {agent.state.error_message}")
    return (begun[0] - memory.ended) * 1000


def _stop(_turn: TurnContext, _signal: AbortSignal | None) -> bool:
    return True


async def _to_a_call() -> float:
    """The reference: the last event read by hand, and a function called."""
    memory = _Memory([_sse(event).encode() for event in _CALL[APIS[0]]])
    await _by_hand("", memory)
    return (time.perf_counter() - memory.ended) * 1000


# --- streams in memory --------------------------------------------------------------------------------------


class _Memory(httpx.AsyncBaseTransport):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.ended = 0.0
        """When the last piece was handed out."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Body(self._given()))

    async def _given(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            self.ended = time.perf_counter()
            yield piece


class _Body(httpx.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces


def _pieces(answer: list[dict[str, Any] | str]) -> list[bytes]:
    events = [_sse(event) for event in answer]
    return ["".join(events[at : at + PER_PIECE]).encode() for at in range(0, len(events), PER_PIECE)]


def _sse(event: dict[str, Any] | str) -> str:
    if isinstance(event, str):
        return f"data: {event}\n\n"
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def _anthropic() -> list[dict[str, Any] | str]:
    deltas = [{"type": "text_delta", "text": f"word {number} "} for number in range(DELTAS)]
    return [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


def _completions() -> list[dict[str, Any] | str]:
    return [*(_chunk({"content": f"word {number} "}) for number in range(DELTAS)), _chunk({}, "stop"), "[DONE]"]


def _chunk(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": stop, "logprobs": None}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _responses() -> list[dict[str, Any] | str]:
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    delta = "response.output_text.delta"
    return [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"id": "m", "type": "message"}},
        *({"type": delta, "sequence_number": n, **place, "delta": f"word {n} "} for n in range(DELTAS)),
        {"type": "response.output_item.done", "output_index": 0, "item": {"id": "m", "type": "message"}},
        {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
    ]


_EVENTS: dict[str, Callable[[], list[dict[str, Any] | str]]] = dict(
    zip(APIS, (_anthropic, _completions, _responses), strict=True)
)


_CALL: dict[str, list[dict[str, Any] | str]] = {
    "anthropic-messages": [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "read", "input": {}},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": _ARGUMENTS}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ],
    "openai-completions": [
        _chunk({"tool_calls": [{"index": 0, "id": "t", "function": {"name": "read", "arguments": _ARGUMENTS}}]}),
        _chunk({}, "tool_calls"),
        "[DONE]",
    ],
    "openai-responses": [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": _ITEM},
        {"type": "response.output_item.done", "output_index": 0, "item": {**_ITEM, "arguments": _ARGUMENTS}},
        {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
    ],
}


async def _measured(what: str, api: str) -> tuple[float, float]:
    """`(ours, reference)`."""
    if what == "tool":
        ours = [await _to_the_tool(api) for _ in range(TOOL_RUNS)]
        reference = [await _to_a_call() for _ in range(TOOL_RUNS)]
        return statistics.median(ours), statistics.median(reference)
    read = _by_the_adapter if what == "adapter" else _by_the_agent
    for way in (read, _by_hand):  # what is loaded at the first answer is no cost of an event
        await _cpu(api, way)
    return await _cpu(api, read), await _cpu(api, _by_hand)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measured(*sys.argv[1:]))))
