"""Text is cleaned where it enters the agent, so that memory, log and model all hold the same (docs/session-log.md).

Wraps the two places through which foreign text comes: the model's final message and a tool's result. User messages
are cleaned where they are made. Refuses tool results that would end the run, or that no session could be restored with.
"""

import inspect
from collections.abc import AsyncIterator

from msgspec.structs import replace

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.session.context import is_content
from checkpoint.session.encoding import encode
from checkpoint.text import clean_json
from runner.agent.abort import AbortSignal
from runner.agent.types import (
    AgentTool,
    AssistantStream,
    LlmContext,
    Model,
    StreamEvent,
    StreamFn,
    StreamOptions,
    ToolResult,
    UpdateCallback,
    is_json_object,
)


class _CleanStream:
    def __init__(self, stream: AssistantStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        events = aiter(self._stream)
        try:
            async for event in events:
                if event.message is not None:
                    event.message = clean_json(event.message)
                yield event
        finally:  # an answer that is given up closes its connection now, not when it is collected
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    async def result(self) -> Message:
        return clean_json(await self._stream.result())


def clean_stream(stream_fn: StreamFn) -> StreamFn:
    """The same model, whose final messages hold neither lone surrogates nor NUL."""

    async def ask(model: Model, context: LlmContext, options: StreamOptions) -> AssistantStream:
        stream = stream_fn(model, context, options)
        return _CleanStream(await stream if inspect.isawaitable(stream) else stream)

    return ask


class BadResult(Exception):
    """A tool gave what no session log and no model request can hold. The text is for the model."""


def clean_tool(tool: AgentTool) -> AgentTool:
    """The same tool, whose results are clean JSON with content that a session can be restored with. Another result
    is an error of the call.
    """

    async def execute(
        call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: UpdateCallback
    ) -> ToolResult:
        try:
            result = await tool.execute(call_id, args, signal, lambda partial: on_update(_checked(partial)))
        except SystemExit as error:
            raise RuntimeError(f"the tool tried to end the process (exit {error.code})") from error
        except KeyboardInterrupt as error:
            raise RuntimeError("the tool raised KeyboardInterrupt") from error
        return _checked(result)

    return replace(tool, execute=execute)


def _checked(result: ToolResult) -> ToolResult:
    """The clean result. Raises BadResult; what is no object at all is left to the agent."""
    if not is_json_object(result):
        return result
    content = result.get("content")
    if content is not None and not is_content(content):
        raise BadResult("The tool's result cannot be used: its content is neither a text nor a list of blocks.")
    try:
        encode(result)
    except TypeError as error:
        raise BadResult(f"The tool's result cannot be used: it is no JSON ({error}).") from error
    return clean_json(result)
