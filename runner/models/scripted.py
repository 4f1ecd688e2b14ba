"""A model that plays a script: for tests, demos, and replays without a provider.

It behaves like an adapter of a real one: answers stream, an abort ends them with an aborted message that
holds what had arrived, and a failure is an error message. A script that has run out is such a failure, too.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from time import time

from msgspec.structs import replace

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortSignal
from runner.agent.coercion import copied
from runner.agent.types import LlmContext, Model, StreamEvent, StreamOptions
from runner.models.script import (
    Block,
    Call,
    Response,
    Script,
    ScriptInvalid,
    StopReason,
    Words,
    load_script,
    no_usage,
)

__all__ = ["ScriptInvalid", "ScriptThrown", "ScriptedModel", "ScriptedStream", "load_script"]


class ScriptThrown(Exception):
    """What a `throw` of the script raises."""


class ScriptedModel:
    """The k-th request gets the k-th response. Agents that are to be counted apart need one each."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._requests = 0

    async def stream_fn(self, model: Model, context: LlmContext, options: StreamOptions) -> "ScriptedStream":
        """Answer one request. Raises `ScriptThrown` where the script says so."""
        responses = self._script.responses
        self._requests += 1
        if self._requests > len(responses):
            count = len(responses)
            said = f"the script has {count} responses; request {self._requests} has none: add one to the script"
            return ScriptedStream(_error_response(said), model, options.signal, "")
        response = responses[self._requests - 1]
        if response.throw is not None:
            await _pause(response.delay_ms, options.signal)
            raise ScriptThrown(response.throw)
        # Ids follow the length of the context, so that a second process on the same session makes others.
        return ScriptedStream(response, model, options.signal, f"call_{len(context.messages)}")


class ScriptedStream:
    """One answer. The partial message of its events is one object that grows."""

    def __init__(self, response: Response, model: Model, signal: AbortSignal | None, id_prefix: str) -> None:
        self._response = response
        self._model = model
        self._signal = signal
        self._id_prefix = id_prefix
        self._final = self._message(
            [self._whole(block, index) for index, block in enumerate(response.content)],
            response.stop_reason,
            response.usage,
        )
        if response.error_message is not None:
            self._final["errorMessage"] = response.error_message

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        partial = self._message([], "stop", no_usage())
        steps = self._steps(partial)
        while not self._aborted:
            step = next(steps, None)
            if step is None:
                reason = self._response.stop_reason
                kind = "error" if reason in ("error", "aborted") else "done"
                yield StreamEvent(kind, reason=reason, message=self._final)
                return
            if isinstance(step, StreamEvent):
                yield step
            else:
                await _pause(step, self._signal)
        self._final = {**partial, "stopReason": "aborted", "errorMessage": "Request was aborted"}
        yield StreamEvent("error", reason="aborted", message=self._final)

    async def result(self) -> Message:
        """The final message: as scripted, or with what had arrived when it was aborted."""
        return self._final

    @property
    def _aborted(self) -> bool:
        return self._signal is not None and self._signal.aborted

    def _message(self, content: list[JsonObject], stop_reason: StopReason, usage: JsonObject) -> Message:
        return {
            "role": "assistant",
            "content": content,
            "api": self._model.api,
            "provider": self._model.provider,
            "model": self._model.id,
            "usage": usage,
            "stopReason": stop_reason,
            "timestamp": int(time() * 1000),
        }

    def _whole(self, block: Block, index: int) -> JsonObject:
        match block:
            case Words():
                return {"type": block.kind, block.kind: block.text}
            case Call():
                call_id = block.id or f"{self._id_prefix}_{index}"
                return {
                    "type": "toolCall",
                    "id": call_id,
                    "name": block.name,
                    "arguments": copied(block.arguments),
                }

    # --- what is streamed ---

    def _steps(self, partial: Message) -> Iterator[StreamEvent | float]:
        """Events, and pauses in milliseconds between them. `partial` grows as they are taken."""
        yield self._response.delay_ms
        yield StreamEvent("start", partial=partial)
        for index, block in enumerate(self._response.content):
            if block.delay_ms:
                yield block.delay_ms
            yield from self._block_events(block, index, partial)

    def _block_events(self, block: Block, index: int, partial: Message) -> Iterator[StreamEvent]:
        def event(kind: str) -> StreamEvent:
            return StreamEvent(kind, partial=partial, content_index=index)

        whole = self._whole(block, index)
        content: list[JsonObject] = partial["content"]
        match block:
            case Words():
                growing: JsonObject = {**whole, block.kind: ""}
                content.append(growing)
                yield event(f"{block.kind}_start")
                for delta in block.deltas:
                    growing[block.kind] += delta
                    yield replace(event(f"{block.kind}_delta"), delta=delta)
                yield replace(event(f"{block.kind}_end"), content=block.text)
            case Call():
                content.append({**whole, "arguments": {}})
                yield event("toolcall_start")
                for delta in block.deltas:
                    yield replace(event("toolcall_delta"), delta=delta)
                content[index] = whole
                yield replace(event("toolcall_end"), tool_call=whole)


def _error_response(text: str) -> Response:
    return Response((), "error", text, no_usage(), None, 0)


async def _pause(delay_ms: float, signal: AbortSignal | None) -> None:
    """Wait so long or until aborted. Gives way to other tasks in any case, as a network would."""
    if not delay_ms or signal is None:
        await asyncio.sleep(delay_ms / 1000)
        return
    with suppress(TimeoutError):
        await asyncio.wait_for(signal.wait(), delay_ms / 1000)
