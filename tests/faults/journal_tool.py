"""A tool with an effect that can be counted: each execution adds a line to a file. Loaded by the processes under test.

The audit events around the effect are points at which a process can be killed (`killed_run`).
"""

import os
import sys

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentTool, ToolResult, UpdateCallback, text_result

BEFORE, AFTER = "tests.before_effect", "tests.after_effect"


async def _note(call_id: str, args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    sys.audit(BEFORE)
    file = os.open(args["path"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{call_id}\n".encode())
    finally:
        os.close(file)
    sys.audit(AFTER)
    return text_result(f"noted {call_id}")


TOOLS = [
    AgentTool(
        "note",
        "Add a line to a file.",
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        _note,
    )
]
