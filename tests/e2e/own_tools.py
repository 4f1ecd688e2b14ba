"""Ordinary tools for pipelines under test, loaded as `tests.e2e.own_tools:TOOLS`."""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

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


async def _hold(_id: str, args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    await asyncio.to_thread(_until_there, Path(args["path"]))
    return text_result("let go")


def _until_there(path: Path) -> None:
    ends = time.monotonic() + 60
    while not path.exists() and time.monotonic() < ends:
        time.sleep(0.02)  # the test that makes it is another process


async def _stubborn(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    """Ignores its abort."""
    await asyncio.sleep(60)
    return text_result("done at last")


async def _deaf(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    """Ignores even that it is cancelled."""
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


async def _block(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    """Holds the event loop, as a request without a timeout would."""
    _until_there(Path("/no/such/file"))
    return text_result("done at last")


async def _block_when_there(
    _id: str, args: JsonObject, _signal: AbortSignal | None, update: UpdateCallback
) -> ToolResult:
    """Holds the event loop once a file in the workspace is there, and says so before."""
    await asyncio.to_thread(_until_there, Path("workspace") / args["path"])
    update(text_result("holding"))
    await asyncio.sleep(0)
    _until_there(Path("/no/such/file"))
    return text_result("done at last")


async def _secrets(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    names = ("CALLBACK_SECRET", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "PIPELINE_SPEC")
    return text_result(f"found: {[name for name in names if name in os.environ]}")


async def _exit(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    sys.exit(3)


async def _print(_id: str, args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    print(args["text"])
    os.write(1, b"written by a child of the tool\n")
    return text_result("printed", {"not_a_number": float("nan")})


async def _finish(_id: str, args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    """Asks for the end of the tool loop."""
    return {**text_result(str(args.get("text", ""))), "terminate": True}


def _leave_a_line(path: Path) -> None:
    with path.open("a") as file:
        file.write("ran\n")


async def _count(_id: str, args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    """Leaves a line in a file, so that a test sees how often it ran, and kills its process if it is told to."""
    await asyncio.to_thread(_leave_a_line, Path(args["path"]))
    if args.get("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    return text_result("counted")


ANY: JsonObject = {"type": "object", "properties": {}}
TOOLS = [
    AgentTool("echo", "Say the text again.", {"type": "object", "properties": {"text": {"type": "string"}}}, _echo),
    AgentTool("pretend", "Print what looks like a sent question.", ANY, _pretend),
    AgentTool("wait", "Wait until aborted.", ANY, _wait),
    AgentTool("large", "A long text.", {"type": "object", "properties": {"bytes": {"type": "integer"}}}, _large),
    AgentTool("hold", "Wait until a file is there.", ANY, _hold),
    AgentTool("stubborn", "Take a minute.", ANY, _stubborn),
    AgentTool("deaf", "Never end.", ANY, _deaf),
    AgentTool("block", "Let nobody else run for a minute.", ANY, _block),
    AgentTool("blocks_when_there", "Wait for a file, then let nobody else run.", ANY, _block_when_there),
    AgentTool("secrets", "Look for secrets.", ANY, _secrets),
    AgentTool("exit", "End the process.", ANY, _exit),
    AgentTool("print", "Print on standard output.", ANY, _print),
    AgentTool("finish", "Say the text and end the run.", ANY, _finish),
    AgentTool("count", "Leave a line in a file.", ANY, _count),
]
TOOLS_AGAIN = TOOLS[:1]
