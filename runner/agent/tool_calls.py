"""The tool calls of one assistant message: prepare, execute, finalise, in parallel or one after the other.

What goes wrong with one call (unknown tool, wrong arguments, blocked, thrown, aborted) is an error result
for the model, never an exception. An exception from here comes from a listener, and fails the run; parallel
calls that are still executing then go on unseen and stay in `LoopConfig.in_flight` until they end.

Order of events (corpus families `tools`, `prepare`, `before`, `abort`):
parallel: every call is started and prepared in turn; then all prepared ones execute together, ends in order
of completion; then the result messages in the order of the calls. Sequential: all of it per call.
"""

import asyncio
from collections.abc import Coroutine
from time import time
from typing import Any, TypeVar

from msgspec import Struct, field

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.calling import error_text, resolved
from runner.agent.types import (
    AfterToolCallContext,
    AfterToolCallResult,
    AgentTool,
    BeforeToolCallContext,
    MessageEnd,
    MessageStart,
    Run,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolResult,
    is_json_object,
    text_result,
)
from runner.agent.validation import InvalidArguments, validate_arguments

T = TypeVar("T")


class Batch(Struct, frozen=True):
    """What the calls of one message came to."""

    messages: list[Message] = field(default_factory=list[Message])
    asks_model_again: bool = False


class _Prepared(Struct, frozen=True):
    """May execute: known, valid, not blocked."""

    tool_call: JsonObject
    tool: AgentTool
    args: Any


class _Finished(Struct, frozen=True):
    tool_call: JsonObject
    result: ToolResult
    is_error: bool


async def run_tool_calls(run: Run, message: Message) -> Batch:
    """Run all tool calls of `message`, which is the last one of the context; the results are not added to it.

    Calls are found by content, whatever the stopReason says. If the output was cut off (`length`), their
    arguments may be too, so none is executed.
    """
    calls = [block for block in message.get("content") or () if _is_tool_call(block)]
    if not calls:
        return Batch()
    if message.get("stopReason") == "length":
        return Batch([await _fail_truncated(run, call) for call in calls], asks_model_again=True)
    if run.config.tool_execution == "sequential" or any(_wants_sequence(run, call) for call in calls):
        finished, messages = await _run_in_sequence(run, message, calls)
    else:
        finished, messages = await _run_in_parallel(run, message, calls)
    ends = bool(finished) and all(call.result.get("terminate") is True for call in finished)
    return Batch(messages, asks_model_again=not ends)


def _is_tool_call(block: Any) -> bool:
    return is_json_object(block) and block.get("type") == "toolCall"


def _find_tool(run: Run, name: str) -> AgentTool | None:
    return next((tool for tool in run.context.tools or () if tool.name == name), None)


def _wants_sequence(run: Run, call: JsonObject) -> bool:
    tool = _find_tool(run, call["name"])
    return tool is not None and tool.execution_mode == "sequential"


async def _fail_truncated(run: Run, call: JsonObject) -> Message:
    await _emit_start(run, call)
    text = (
        f'Tool call "{call["name"]}" was not executed: the response hit the output token limit, '
        "so its arguments may be truncated. Re-issue the tool call with complete arguments."
    )
    finished = _failed(call, text)
    await _emit_end(run, finished)
    return await _emit_message(run, finished)


async def _run_in_sequence(
    run: Run, message: Message, calls: list[JsonObject]
) -> tuple[list[_Finished], list[Message]]:
    finished: list[_Finished] = []
    messages: list[Message] = []
    for call in calls:
        await _emit_start(run, call)
        step = await _prepare(run, message, call)
        if isinstance(step, _Prepared):
            step = await _finalise(run, message, step, await _execute(run, step))
        await _emit_end(run, step)
        finished.append(step)
        messages.append(await _emit_message(run, step))
        if run.aborted:
            break
    return finished, messages


async def _run_in_parallel(
    run: Run, message: Message, calls: list[JsonObject]
) -> tuple[list[_Finished], list[Message]]:
    steps: list[_Prepared | _Finished] = []
    for call in calls:
        await _emit_start(run, call)
        step = await _prepare(run, message, call)
        if isinstance(step, _Finished):
            await _emit_end(run, step)
        steps.append(step)
        if run.aborted:
            break

    async def to_the_end(step: _Prepared) -> _Finished:
        finished = await _finalise(run, message, step, await _execute(run, step))
        await _emit_end(run, finished)
        return finished

    executing = [_tracked(run, to_the_end(step)) for step in steps if isinstance(step, _Prepared)]
    # gather, since the first failure must reach the run at once and must not cancel the others.
    ended = iter(await asyncio.gather(*executing))
    finished = [step if isinstance(step, _Finished) else next(ended) for step in steps]
    return finished, [await _emit_message(run, step) for step in finished]


def _tracked(run: Run, execution: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    task = asyncio.create_task(execution)
    run.config.in_flight.add(task)
    task.add_done_callback(run.config.in_flight.discard)
    return task


# --- the three phases of a call -----------------------------------------------------------------------------


async def _prepare(run: Run, message: Message, call: JsonObject) -> _Prepared | _Finished:
    tool = _find_tool(run, call["name"])
    if tool is None:
        return _failed(call, f"Tool {call['name']} not found")
    try:
        raw = call.get("arguments")
        valid = validate_arguments(tool, raw if tool.prepare_arguments is None else tool.prepare_arguments(raw))
        if isinstance(valid, InvalidArguments):
            return _failed(call, valid.text)
        refusal = await _ask_before(run, message, call, valid.args)
    except Exception as error:  # noqa: BLE001 - whatever a hook raises is this call's result
        return _failed(call, error_text(error))
    if run.aborted:
        return _failed(call, "Operation aborted")
    if refusal is not None:
        return _failed(call, refusal)
    return _Prepared(call, tool, valid.args)


async def _ask_before(run: Run, message: Message, call: JsonObject, args: Any) -> str | None:
    """The reason why the hook blocks the call, or None."""
    hook = run.config.before_tool_call
    if hook is None:
        return None
    answer = await resolved(hook(BeforeToolCallContext(message, call, args, run.context), run.signal))
    if answer is None or not answer.block:
        return None
    return answer.reason or "Tool execution was blocked"


async def _execute(run: Run, step: _Prepared) -> _Finished:
    """Run the tool. Returns once its updates have been delivered, too; those that come later are dropped."""
    call = step.tool_call
    reports: list[asyncio.Task[None]] = []
    settled = False

    def on_update(partial: ToolResult) -> None:
        if not settled:
            event = ToolExecutionUpdate(call["id"], call["name"], call.get("arguments"), partial)
            reports.append(asyncio.create_task(run.emit(event)))

    try:
        result: Any = await resolved(step.tool.execute(call["id"], step.args, run.signal, on_update))
        if is_json_object(result):
            executed = _Finished(call, result, is_error=False)
        else:
            executed = _failed(call, f"Tool {call['name']} gave no result object")
    except asyncio.CancelledError:
        if _is_being_cancelled():
            raise
        executed = _failed(call, f"Tool {call['name']} was cancelled")
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its result
        executed = _failed(call, error_text(error))
    finally:
        settled = True
    if reports:
        await asyncio.gather(*reports)
    return executed


def _is_being_cancelled() -> bool:
    """Whether somebody cancelled the task that we run in (and not only something that the tool awaited)."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _finalise(run: Run, message: Message, step: _Prepared, executed: _Finished) -> _Finished:
    hook = run.config.after_tool_call
    if hook is None:
        return executed
    asked = AfterToolCallContext(message, step.tool_call, step.args, executed.result, executed.is_error, run.context)
    try:
        override = await resolved(hook(asked, run.signal))
    except Exception as error:  # noqa: BLE001 - whatever a hook raises is this call's result
        return _failed(step.tool_call, error_text(error))
    return executed if override is None else _overridden(executed, override)


def _overridden(executed: _Finished, override: AfterToolCallResult) -> _Finished:
    given = {
        "content": override.content,
        "details": override.details,
        "usage": override.usage,
        "terminate": override.terminate,
    }
    changes = {key: value for key, value in given.items() if value is not None}
    is_error = executed.is_error if override.is_error is None else override.is_error
    return _Finished(executed.tool_call, {**executed.result, **changes}, is_error)


def _failed(call: JsonObject, text: str) -> _Finished:
    return _Finished(call, text_result(text), is_error=True)


# --- events -------------------------------------------------------------------------------------------------


async def _emit_start(run: Run, call: JsonObject) -> None:
    await run.emit(ToolExecutionStart(call["id"], call["name"], call.get("arguments")))


async def _emit_end(run: Run, finished: _Finished) -> None:
    call = finished.tool_call
    await run.emit(ToolExecutionEnd(call["id"], call["name"], finished.result, finished.is_error))


async def _emit_message(run: Run, finished: _Finished) -> Message:
    message = _result_message(finished)
    await run.emit(MessageStart(message))
    await run.emit(MessageEnd(message))
    return message


def _result_message(finished: _Finished) -> Message:
    result = finished.result
    message: Message = {
        "role": "toolResult",
        "toolCallId": finished.tool_call["id"],
        "toolName": finished.tool_call["name"],
        "content": [] if result.get("content") is None else result["content"],
    }
    for key in ("details", "usage"):
        if result.get(key) is not None:
            message[key] = result[key]
    if result.get("addedToolNames"):
        message["addedToolNames"] = result["addedToolNames"]
    message["isError"] = finished.is_error
    message["timestamp"] = int(time() * 1000)
    return message
