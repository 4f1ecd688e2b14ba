"""MCP over the pipes of a process that the spawner started: the official client's stdio transport starts its servers
itself, and so unconfined.

Messages are lines of JSON. What is no message is passed over, as the protocol asks for; a line without end ends the
connection. The server's standard error is read and thrown away: it may hold anything, secrets included.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from runner.isolation.port import ToolProcess
from runner.tools.line_reader import LineReader, LineTooLong

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
END_S = 2.0
"""For a server to end by itself once its input is closed (the protocol's shutdown)."""
_READ_BYTES = 64 * 1024


@asynccontextmanager
async def process_transport(process: ToolProcess) -> AsyncGenerator[tuple[Any, Any]]:
    """The two streams of an MCP client session over a process started `interactive`; ends the process at the end."""
    import anyio

    to_client, for_client = anyio.create_memory_object_stream[Any](0)
    to_server, for_server = anyio.create_memory_object_stream[Any](0)
    tasks = [
        asyncio.ensure_future(_read(process, to_client)),
        asyncio.ensure_future(_write(process, for_server, to_client)),
        asyncio.ensure_future(_drain(process)),
    ]
    try:
        yield for_client, to_server
    finally:
        for stream in (for_client, to_server):
            stream.close()
        await _end(process)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=END_S)
        for stream in (to_client, for_server):
            stream.close()


async def _end(process: ToolProcess) -> None:
    if process.stdin is not None:
        process.stdin.close()
    waiting = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({waiting}, timeout=END_S)
    finally:
        waiting.cancel()
        await process.end()


async def _read(process: ToolProcess, to_client: "MemoryObjectSendStream[Any]") -> None:
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    lines = LineReader(process.stdout, MAX_MESSAGE_BYTES)
    gone = (anyio.ClosedResourceError, anyio.BrokenResourceError)
    with contextlib.suppress(LineTooLong, OSError, *gone):
        async with to_client:  # closed at the end: the session then knows that the server is gone
            while (line := await lines.next()) is not None:
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    continue
                await to_client.send(SessionMessage(message))
    with contextlib.suppress(OSError):  # lest the server hang on a full pipe instead of seeing its input end
        while await process.stdout.read(_READ_BYTES):
            pass


async def _write(
    process: ToolProcess, for_server: "MemoryObjectReceiveStream[Any]", to_client: "MemoryObjectSendStream[Any]"
) -> None:
    assert process.stdin is not None, "servers are started interactive"
    try:
        async with for_server:
            async for item in for_server:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except OSError:
        to_client.close()


async def _drain(process: ToolProcess) -> None:
    if process.stderr is not None:
        with contextlib.suppress(OSError):
            while await process.stderr.read(_READ_BYTES):
                pass
