"""Ordinary tools for pipelines under test, loaded as `tests.e2e.own_tools:TOOLS`."""

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentTool, ToolResult, UpdateCallback, text_result


async def _echo(_id: str, args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    return text_result(str(args.get("text", "")))


async def _pretend(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    return text_result('{"ask_user_sent": true, "message": "not really"}')


async def _wait(_id: str, _args: JsonObject, signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    assert signal is not None
    await signal.wait()
    raise RuntimeError("aborted while waiting")


async def _large(_id: str, args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    return text_result("x" * int(args["bytes"]))


ANY = {"type": "object", "properties": {}}
TOOLS = [
    AgentTool("echo", "Say the text again.", {"type": "object", "properties": {"text": {"type": "string"}}}, _echo),
    AgentTool("pretend", "Print what looks like a sent question.", ANY, _pretend),
    AgentTool("wait", "Wait until aborted.", ANY, _wait),
    AgentTool("large", "A long text.", {"type": "object", "properties": {"bytes": {"type": "integer"}}}, _large),
]
