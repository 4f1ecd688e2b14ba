"""The scripted tools of a scenario."""

import asyncio
from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentTool, ToolResult, UpdateCallback, is_json_list, is_json_object
from tests.conformance.loop.actions import Stage
from tests.conformance.loop.recorder import aborted, tick
from tests.conformance.loop.shapes import ScriptedFailure, copied, result


def scripted_tool(stage: Stage, spec: JsonObject) -> AgentTool:
    name: str = spec["name"]

    async def execute(
        tool_call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: UpdateCallback
    ) -> ToolResult:
        stage.recorder.trace.append(f"tool {tool_call_id}")
        stage.recorder.tools.append(
            {
                "toolCallId": tool_call_id,
                "toolName": name,
                "args": copied(args),
                "aborted": aborted(signal),
            }
        )
        stage.update_callbacks[tool_call_id] = on_update
        await tick()
        await stage.recorder.jitter()
        for step in _steps(spec.get("behaviour"), tool_call_id):
            ((verb, value),) = step.items()
            if verb == "return":
                return result(value)
            if verb == "mutateArgs":
                args.update(copied(value))
            await _play(stage, verb, value, signal, on_update)
        return result(f"{name} ok")

    prepare = spec.get("prepareArguments")
    return AgentTool(
        name=name,
        description=spec.get("description", name),
        label=spec.get("label", name),
        parameters=spec.get("parameters", {"type": "object", "properties": {}}),
        execute=execute,
        execution_mode=spec.get("executionMode"),
        prepare_arguments=None if prepare is None else lambda args: _prepared(stage, name, prepare, args),
    )


def _steps(behaviour: Any, tool_call_id: str) -> list[JsonObject]:
    if is_json_object(behaviour):
        return behaviour.get(tool_call_id, behaviour.get("*", []))
    return behaviour or []


async def _play(stage: Stage, verb: str, value: Any, signal: AbortSignal | None, on_update: UpdateCallback) -> None:
    match verb:
        case "update":
            for partial in value if is_json_list(value) else [value]:
                on_update(result(partial))
            await tick()
        case "waitEvent":
            await stage.recorder.wait_event(value)
        case "waitAbort":
            if signal is not None:
                await signal.wait()
            await tick()
        case "waitOp":
            await stage.recorder.wait_op(value)
        case "wait":
            await asyncio.sleep(value / 1000)
        case "do":
            await stage.perform(value)
        case "throwIfAborted":
            if aborted(signal):
                raise ScriptedFailure(value)
        case "throw":
            raise ScriptedFailure(value)
        case "mutateArgs":
            pass
        case _:
            raise ValueError(f"unknown tool step {verb}")


def _prepared(stage: Stage, name: str, rules: JsonObject, args: JsonObject) -> JsonObject:
    stage.recorder.trace.append(f"prepareArguments {name}")
    if "throw" in rules:
        raise ScriptedFailure(rules["throw"])
    prepared: JsonObject = copied(args)
    for old, new in rules.get("rename", {}).items():
        if old in prepared:
            prepared[new] = prepared.pop(old)
    return {
        **prepared,
        **{key: value for key, value in rules.get("defaults", {}).items() if key not in prepared},
    }
