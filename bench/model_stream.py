"""CPU per streamed event: an answer read by an adapter, and the same bytes by httpx-sse and `json.loads`.

Refuses to measure the network: the bytes come from memory, in pieces as a server would flush them.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
from httpx_sse import EventSource

from runner.agent.types import LlmContext, StreamOptions
from runner.models.answer import Surroundings
from runner.models.calls import APIS, ModelCalls
from runner.models.settings import ModelSettings
from runner.models.transport import HttpTransport

DELTAS = 10_000
PER_PIECE = 10


def microseconds(api: str) -> tuple[float, float]:
    """`(ours, reference)` per event of one answer with `DELTAS` text deltas."""
    return asyncio.run(_ours(api)), asyncio.run(_reference(api))


async def _ours(api: str) -> float:
    memory = _Memory(_pieces(api))
    transport = HttpTransport(lambda: httpx.AsyncClient(transport=memory))
    calls = ModelCalls(Surroundings(transport), keys={"p": "key-key-key"})
    model = ModelSettings(id="m", provider="p", api=api, base_url="http://model")
    context = LlmContext("", [{"role": "user", "content": "Hi"}])
    started = time.process_time()
    async for _ in calls(model, context, StreamOptions()):
        pass
    spent = time.process_time() - started
    await transport.aclose()
    return spent * 1e6 / DELTAS


async def _reference(api: str) -> float:
    async with httpx.AsyncClient(transport=_Memory(_pieces(api))) as client:
        started = time.process_time()
        async with client.stream("POST", "http://model/") as response:
            async for sse in EventSource(response).aiter_sse():
                if sse.data != "[DONE]":
                    json.loads(sse.data)
        return (time.process_time() - started) * 1e6 / DELTAS


class _Memory(httpx.AsyncBaseTransport):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_Body(self._pieces))


class _Body(httpx.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


def _pieces(api: str) -> list[bytes]:
    events = [_sse(api, event) for event in _EVENTS[api]()]
    return ["".join(events[at : at + PER_PIECE]).encode() for at in range(0, len(events), PER_PIECE)]


def _sse(api: str, event: dict[str, Any] | str) -> str:
    if isinstance(event, str):
        return f"data: {event}\n\n"
    name = "" if api == "openai-completions" else f"event: {event['type']}\n"
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
    def chunk(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": stop, "logprobs": None}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    return [
        *(chunk({"content": f"word {number} "}) for number in range(DELTAS)),
        chunk({}, "stop"),
        "[DONE]",
    ]


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


if __name__ == "__main__":
    print(json.dumps(microseconds(sys.argv[1])))
