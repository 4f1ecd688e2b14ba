"""What the tests of the model adapters share: a model at a scripted server, a way to collect answers."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from runner.agent.abort import AbortController
from runner.agent.types import LlmContext, StreamEvent, StreamOptions
from runner.models.answer import Answer, Surroundings
from runner.models.calls import ModelCalls
from runner.models.settings import CallOptions, ModelSettings, Prices, Timeouts
from runner.models.transport import HttpTransport

KEY = "sk-very-secret-key-0123456789"
PRICES = Prices(input=3, output=15, cache_read=0.3, cache_write=3.75)


def anthropic_sse(*events: dict[str, Any]) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


MESSAGE_START: dict[str, Any] = {
    "type": "message_start",
    "message": {"id": "msg_1", "model": "claude", "usage": {"input_tokens": 10, "output_tokens": 1}},
}


def text_answer(*pieces: str) -> str:
    """A whole Anthropic answer with one block of text."""
    return anthropic_sse(
        MESSAGE_START,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    )


def started_text(text: str) -> str:
    """The beginning of an answer that stops in the middle of its text."""
    return anthropic_sse(
        MESSAGE_START,
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
    )


def anthropic_model(base_url: str, **changes: Any) -> ModelSettings:
    given: dict[str, Any] = {
        "id": "claude",
        "provider": "anthropic",
        "api": "anthropic-messages",
        "base_url": base_url,
        "prices": PRICES,
        "timeouts": Timeouts(connect_s=5, first_byte_s=20, between_events_s=20, total_s=30),
    }
    return ModelSettings(**(given | changes))


@dataclass
class FakeTime:
    """Sleeps that take no time and are remembered."""

    slept: list[float] = field(default_factory=list[float])

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@dataclass
class Harness:
    transport: HttpTransport
    time: FakeTime
    around: Surroundings
    abort: AbortController = field(default_factory=AbortController)

    def calls(self, **options: Any) -> ModelCalls:
        return ModelCalls(self.around, options=CallOptions(**options), keys={"anthropic": KEY, "openai": KEY})

    def ask(self, calls: ModelCalls, model: ModelSettings, messages: list[Any] | None = None) -> Answer:
        context = LlmContext("Be brief.", messages or [{"role": "user", "content": "Hi"}])
        answer = calls(model, context, StreamOptions(signal=self.abort.signal))
        assert isinstance(answer, Answer)
        return answer

    async def collect(self, answer: Answer, on_event: Callable[[StreamEvent], None] | None = None) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        async for event in answer:
            events.append(event)
            if on_event is not None:
                on_event(event)
        return events


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def harness(anyio_backend: str) -> AsyncIterator[Harness]:
    del anyio_backend
    transport = HttpTransport(lambda: httpx.AsyncClient(verify=False))
    time = FakeTime()
    yield Harness(transport, time, Surroundings(transport, sleep=time.sleep, jitter=lambda: 0.0))
    await transport.aclose()
