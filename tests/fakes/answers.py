"""A model for tests of the runner: plays prepared final messages, one per request, without deltas."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortSignal
from runner.agent.types import AssistantStream, LlmContext, Model, StreamEvent, StreamOptions

ZERO_USAGE: JsonObject = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}


def call(call_id: str, name: str, **arguments: Any) -> JsonObject:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def answer(text: str = "", *calls: JsonObject, stop_reason: str | None = None, error: str | None = None) -> Message:
    """An assistant message with a text block (if there is text) and tool calls."""
    content = [*([{"type": "text", "text": text}] if text else []), *calls]
    message: Message = {
        "role": "assistant",
        "content": content,
        "api": "scripted",
        "provider": "scripted",
        "model": "scripted-model",
        "usage": ZERO_USAGE,
        "stopReason": stop_reason or ("toolUse" if calls else "stop"),
        "timestamp": 0,
    }
    if error is not None:
        message["errorMessage"] = error
    return message


class Hang:
    """An answer that never comes. It ends with an aborted message at the abort, unless it is `deaf`."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.deaf = deaf


class Answers:
    """Give `stream` to the agent. `requests` holds what each request was sent."""

    def __init__(self, *prepared: Message | Hang | Exception) -> None:
        self._prepared = list(prepared)
        self.requests: list[LlmContext] = []
        self.asked = asyncio.Event()
        """Set by the first request."""

    def stream(self, _model: Model, context: LlmContext, options: StreamOptions) -> AssistantStream:
        self.requests.append(LlmContext(context.system_prompt, list(context.messages), context.tools))
        self.asked.set()
        prepared = self._prepared.pop(0)
        if isinstance(prepared, Exception):
            raise prepared
        return _Stream(prepared, options.signal)


@dataclass
class _Stream:
    prepared: Message | Hang
    signal: AbortSignal | None

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        if isinstance(self.prepared, Hang):
            assert self.signal is not None
            await self.signal.wait()
            if self.prepared.deaf:
                await AbortSignal().wait()
            self.prepared = answer("", stop_reason="aborted", error="Request was aborted")
        failed = self.prepared["stopReason"] in ("error", "aborted")
        yield StreamEvent("error" if failed else "done", message=self.prepared)

    async def result(self) -> Message:
        assert not isinstance(self.prepared, Hang)
        return self.prepared
