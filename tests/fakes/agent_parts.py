"""Models, tools and messages for tests of the agent, in as few words as they can be said."""

import asyncio
from typing import Any, Literal

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.types import (
    AgentEvent,
    AgentTool,
    AssistantStream,
    ExecuteTool,
    LlmContext,
    MessageEnd,
    Model,
    StreamFn,
    StreamOptions,
    ToolResult,
    UpdateCallback,
    text_result,
)
from runner.models.script import parse_script
from runner.models.scripted import ScriptedModel

ANYTHING: JsonObject = {"type": "object", "properties": {}}


def says(text: str, **more: Any) -> JsonObject:
    """A response of the script: one text."""
    return {"content": [{"type": "text", "text": text}], **more}


def calls(*names: str, **more: Any) -> JsonObject:
    """A response that calls tools; the ids are the tools' names."""
    return {"content": [call(name) for name in names], **more}


def call(name: str, call_id: str | None = None, **arguments: Any) -> JsonObject:
    return {"type": "toolCall", "id": call_id or name, "name": name, "arguments": arguments}


def user(text: str) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 0}


class CountedModel:
    """A scripted model that keeps what it was asked."""

    def __init__(self, *responses: JsonObject) -> None:
        self._model = ScriptedModel(parse_script({"responses": list(responses)}))
        self.requests: list[list[Message]] = []

    async def stream(self, model: Model, context: LlmContext, options: StreamOptions) -> AssistantStream:
        self.requests.append(list(context.messages))
        return await self._model.stream_fn(model, context, options)


def stream_of(*responses: JsonObject) -> StreamFn:
    return CountedModel(*responses).stream


def tool(
    name: str,
    result: str | ToolResult = "done",
    *,
    execute: ExecuteTool | None = None,
    parameters: JsonObject = ANYTHING,
    execution_mode: Literal["sequential", "parallel"] | None = None,
) -> AgentTool:
    """A tool that gives a text or a result, or does what `execute` does."""

    async def answer(
        _call_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback
    ) -> ToolResult:
        return text_result(result) if isinstance(result, str) else result

    return AgentTool(name, name, parameters, execute or answer, execution_mode=execution_mode)


async def started(agent: Agent) -> "asyncio.Task[None]":
    """Prompt the agent, and go on once its first message is there. The run is left running."""
    seen = asyncio.Event()

    def listen(event: AgentEvent, _signal: AbortSignal | None) -> None:
        if isinstance(event, MessageEnd):
            seen.set()

    agent.subscribe(listen)
    run = asyncio.create_task(agent.prompt("go"))
    await asyncio.wait_for(seen.wait(), 5)
    return run


def roles(messages: list[Message]) -> list[str]:
    return [message["role"] for message in messages]


def texts(messages: list[Message]) -> list[str]:
    """The text of each message; for a result marked as an error, with a leading `!`."""
    return [
        ("!" if message.get("isError") else "") + "".join(block.get("text", "") for block in message["content"])
        for message in messages
    ]
