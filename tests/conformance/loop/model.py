"""The scripted model of a scenario: a stream that is pulled, one tick per event."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.session.encoding import encode
from runner.agent.abort import AbortSignal
from runner.agent.types import AssistantStream, LlmContext, Model, StreamEvent, StreamOptions
from tests.conformance.loop.actions import Stage
from tests.conformance.loop.recorder import aborted, tick
from tests.conformance.loop.shapes import ScriptedFailure, as_sent, copied, usage


class ScriptedModel:
    """The k-th request of the scenario plays the k-th response."""

    def __init__(self, stage: Stage, responses: list[JsonObject]) -> None:
        self._stage = stage
        self._responses = responses
        self.requests = 0

    async def stream(self, model: Model, context: LlmContext, options: StreamOptions) -> AssistantStream:
        self.requests += 1
        number = self.requests
        self._record(number, model, context, options)
        if number > len(self._responses):
            raise ScriptedFailure(f"the scenario has no response {number}")
        response = self._responses[number - 1]
        await self._stage.perform(response.get("onRequest"))
        if "throw" in response and "afterEvents" not in response:
            raise ScriptedFailure(response["throw"])
        return ScriptedStream(self._stage, response, model, options.signal)

    def _record(self, number: int, model: Model, context: LlmContext, options: StreamOptions) -> None:
        recorder = self._stage.recorder
        recorder.trace.append(f"request {number}")
        recorder.requests.append(
            {
                "n": number,
                "model": model.id,
                "systemPrompt": context.system_prompt,
                "reasoning": options.reasoning,
                "apiKey": options.api_key,
                "aborted": aborted(options.signal),
                "tools": None if context.tools is None else [tool.name for tool in context.tools],
                "messages": [as_sent(message) for message in context.messages],
            }
        )


class ScriptedStream:
    def __init__(self, stage: Stage, response: JsonObject, model: Model, signal: AbortSignal | None) -> None:
        self._stage = stage
        self._response = response
        self._model = model
        self._signal = signal
        self._delivered: list[Any] = []
        self._final = self._message(_written(response.get("finalContent", response.get("content", []))))

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        events = [] if self._response.get("bare") else list(self._block_events())
        pause = self._response.get("afterEvents", len(events))
        for index in range(len(events) + 1):
            await tick()
            await self._stage.recorder.jitter()
            if index == pause and self._response.get("waitAbort"):
                if self._signal is not None:
                    await self._signal.wait()
                await tick()
                yield self._aborted()
                return
            if index == pause and "throw" in self._response:
                raise ScriptedFailure(self._response["throw"])
            if aborted(self._signal) and not self._response.get("ignoreAbort"):
                yield self._aborted()
                return
            if index < len(events):
                partial = events[index].partial
                self._delivered = [] if partial is None else partial["content"]
                yield events[index]
        if self._response.get("finish") != "end":
            reason = self._final["stopReason"]
            kind = "error" if reason in ("error", "aborted") else "done"
            yield StreamEvent(kind, reason=reason, message=self._final)

    async def result(self) -> Message:
        return self._final

    def _aborted(self) -> StreamEvent:
        self._final = {
            **self._shell(copied(self._delivered)),
            "stopReason": "aborted",
            "errorMessage": self._response.get("abortMessage", "Request was aborted"),
        }
        return StreamEvent("error", reason="aborted", message=self._final)

    def _shell(self, content: list[Any]) -> Message:
        model = self._model
        return {
            "role": "assistant",
            "content": content,
            "api": model.api,
            "provider": model.provider,
            "model": model.id,
            "usage": usage(None),
            "stopReason": "stop",
            "timestamp": 0,
        }

    def _message(self, content: list[JsonObject]) -> Message:
        calls = any(block["type"] == "toolCall" for block in _written(self._response.get("content", [])))
        said = {
            **self._shell(content),
            "usage": usage(self._response.get("usage")),
            "stopReason": self._response.get("stopReason", "toolUse" if calls else "stop"),
        }
        if "errorMessage" in self._response:
            said["errorMessage"] = self._response["errorMessage"]
        return said

    def _block_events(self) -> Iterator[StreamEvent]:
        content: list[JsonObject] = []

        def event(kind: str, index: int | None = None, **more: Any) -> StreamEvent:
            return StreamEvent(kind, partial=self._shell(copied(content)), content_index=index, **more)

        if self._response.get("start", True):
            yield event("start")
        for index, block in enumerate(self._response.get("content", [])):
            kind = block["type"]
            if kind == "toolCall":
                full = {key: value for key, value in block.items() if key != "deltas"}
                content.append({**full, "arguments": {}})
                yield event("toolcall_start", index)
                whole = encode(block["arguments"]).decode()
                for delta in block.get("deltas", [whole]):
                    yield event("toolcall_delta", index, delta=delta)
                content[-1] = full
                yield event("toolcall_end", index, tool_call=copied(full))
                continue
            content.append({"type": kind, kind: ""})
            yield event(f"{kind}_start", index)
            for delta in block.get("deltas", [block[kind]]):
                content[-1][kind] += delta
                yield event(f"{kind}_delta", index, delta=delta)
            content[-1][kind] = block[kind]
            yield event(f"{kind}_end", index, content=block[kind])


def _written(content: list[JsonObject]) -> list[JsonObject]:
    return [{key: value for key, value in block.items() if key != "deltas"} for block in copied(content)]
