"""Gives every call in doubt a result, before a run that was taken over goes on.

A question is asked again: under the same id it is the same question, so whether it had arrived or not makes no
difference. Everything else gets an error result that says that nobody knows. Refuses to run a tool.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.text import clean_json
from runner.agent.abort import AbortSignal
from runner.agent.calling import error_text, resolved
from runner.agent.types import AgentTool, ToolResult, text_result
from runner.agent.validation import InvalidArguments, validate_arguments
from runner.takeover import LastTurn, doubtful_text


async def resolve_doubts(
    turn: LastTurn,
    asking: Sequence[AgentTool],
    append: Callable[[Message], None],
    signal: AbortSignal,
    now_ms: Callable[[], int],
) -> LastTurn:
    """The turn with a result for each of its calls. Each new one has been given to `append`, in the calls' order."""
    tools = {tool.name: tool for tool in asking}
    results = list(turn.results)
    for call in turn.doubtful:
        tool = tools.get(str(call.get("name")))
        if tool is None or turn.assistant.get("stopReason") == "length":
            result, is_error = text_result(doubtful_text(turn, call)), True
        else:
            result, is_error = await _ask_again(tool, call, signal)
        message = _result_message(call, result, now_ms(), is_error=is_error)
        append(message)
        results.append(message)
    return replace(turn, results=tuple(results))


async def _ask_again(tool: AgentTool, call: JsonObject, signal: AbortSignal) -> tuple[ToolResult, bool]:
    """The asking tool's result and whether it is an error, by the loop's rules for arguments and failures."""
    try:
        raw = call.get("arguments")
        valid = validate_arguments(tool, raw if tool.prepare_arguments is None else tool.prepare_arguments(raw))
        if isinstance(valid, InvalidArguments):
            return text_result(valid.text), True
        return await resolved(tool.execute(str(call.get("id")), valid.args, signal, _no_update)), False
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its result
        return text_result(error_text(error)), True


def _no_update(_partial: ToolResult) -> None:
    pass


def _result_message(call: JsonObject, result: ToolResult, now_ms: int, *, is_error: bool) -> Message:
    """A tool result as the loop writes it."""
    message: dict[str, Any] = {
        "role": "toolResult",
        "toolCallId": call.get("id"),
        "toolName": call.get("name"),
        "content": result.get("content") or [],
    }
    if result.get("details") is not None:
        message["details"] = result["details"]
    return clean_json({**message, "isError": is_error, "timestamp": now_ms})
