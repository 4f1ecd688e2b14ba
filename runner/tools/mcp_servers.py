"""MCP servers of a run: connected before the agent starts, their tools offered as ours, closed at the end.

Each server's connection lives in a task of its own, because the client must be closed where it was opened. A server
that cannot be connected makes the launch fail; one that dies or hangs later makes its calls error results. Servers get
no answers to what they might ask (sampling, elicitation, roots).
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentTool, ToolResult, UpdateCallback, text_result
from runner.isolation.port import Spawner
from runner.tools.aborting import unless_aborted
from runner.tools.errors import ToolFailed, ToolSetupError
from runner.tools.mcp_results import description, parameters, progress_text, result_of, tool_name
from runner.tools.mcp_settings import McpSettings, McpStdio

if TYPE_CHECKING:
    from mcp import Client

CONNECT_S = 60.0
CALL_S = 600.0
"""One call. A server has no other way to say how long it needs."""
CLOSE_S = 8.0
MAX_TOOLS = 256
"""Of one server."""
_MAX_PAGES = 64
_HTTP_CONNECT_S = 30.0


async def connect_servers(settings: Sequence[McpSettings], spawner: Spawner, workspace: Path) -> "McpServers":
    """Connect all servers, at once. Raises ToolSetupError, with nothing left behind, if one cannot be."""
    for name in ("mcp", "httpx2"):
        # The client's log quotes messages and headers, which may hold secrets.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    servers = McpServers([_Server(each, spawner, workspace) for each in settings])
    try:
        problems = await asyncio.gather(*(server.connect() for server in servers.servers))
    except BaseException:
        await servers.close()
        raise
    found = [problem for problem in problems if problem is not None]
    if found:
        await servers.close()
        raise ToolSetupError("; ".join(found))
    return servers


class McpServers:
    def __init__(self, servers: Sequence["_Server"]) -> None:
        self.servers = servers

    @property
    def tools(self) -> list[AgentTool]:
        """In the order of the spec and of the servers' lists."""
        return [tool for server in self.servers for tool in server.tools]

    async def close(self) -> None:
        """End all connections and servers, within a bound."""
        await asyncio.gather(*(server.close() for server in self.servers))


class _Server:
    def __init__(self, settings: McpSettings, spawner: Spawner, workspace: Path) -> None:
        self._settings = settings
        self._spawner = spawner
        self._workspace = workspace
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[list[AgentTool]] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self.tools: list[AgentTool] = []

    async def connect(self) -> str | None:
        """What kept the server from being connected, or None."""
        self._task = asyncio.ensure_future(self._serve())
        waiting: list[asyncio.Future[Any]] = [self._ready, self._task]
        await asyncio.wait(waiting, timeout=CONNECT_S, return_when=asyncio.FIRST_COMPLETED)
        name = f"the MCP server {self._settings.name!r}"
        if self._ready.done():
            self.tools = self._ready.result()
            return None
        if self._task.done():
            error = None if self._task.cancelled() else self._task.exception()
            return f"{name} cannot be connected ({_reason(error)})"
        await self.close()
        return f"{name} was not ready within {CONNECT_S:g} s"

    async def close(self) -> None:
        self._closing.set()
        task = self._task
        if task is None:
            return
        if not self._ready.done():
            task.cancel()
        await asyncio.wait({task}, timeout=CLOSE_S)
        task.cancel()
        await asyncio.wait({task}, timeout=CLOSE_S)
        if task.done() and not task.cancelled():
            task.exception()

    async def _serve(self) -> None:
        from mcp import Client
        from mcp_types import Implementation

        from runner.version import VERSION

        async with AsyncExitStack() as stack:
            transport = await self._transport(stack)
            client = await stack.enter_async_context(
                Client(
                    transport,
                    cache=None,
                    client_info=Implementation(name="pipeline-runner", version=VERSION),
                    read_timeout_seconds=CONNECT_S / 2,
                )
            )
            self._ready.set_result(await self._list_tools(client))
            await self._closing.wait()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        settings = self._settings
        if isinstance(settings, McpStdio):
            from runner.tools.mcp_transport import process_transport

            process = await self._spawner.start(
                [settings.command, *settings.args],
                cwd=self._workspace,
                env=settings.env,
                merge_stderr=False,
                interactive=True,
            )
            return process_transport(process)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        timeout = httpx2.Timeout(_HTTP_CONNECT_S, read=CALL_S)
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=dict(settings.headers), timeout=timeout))
        return streamable_http_client(settings.url, http_client=http)

    async def _list_tools(self, client: "Client") -> list[AgentTool]:
        tools: list[AgentTool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            tools += [self._tool(client, tool) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        if len(tools) > MAX_TOOLS:
            raise ToolSetupError(f"it has more than {MAX_TOOLS} tools")
        return tools

    def _tool(self, client: "Client", tool: Any) -> AgentTool:
        name = tool_name(self._settings.name, tool.name)

        async def execute(
            _call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: UpdateCallback
        ) -> ToolResult:
            return await unless_aborted(
                self._call(client, tool.name, name, args, on_update), signal, f"The call of {name}"
            )

        return AgentTool(
            name, description(self._settings.name, tool.description), parameters(tool.input_schema), execute, label=name
        )

    async def _call(
        self, client: "Client", tool: str, name: str, args: JsonObject, on_update: UpdateCallback
    ) -> ToolResult:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            on_update(text_result(progress_text(progress, total, message)))

        if self._task is None or self._task.done():
            raise ToolFailed("died", f"{name} cannot be called: its MCP server has ended")
        try:
            result = await client.call_tool(tool, args, read_timeout_seconds=CALL_S, progress_callback=on_progress)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise ToolFailed("died", f"{name} failed: its MCP server has ended") from error
            reason = "timeout" if error.code == REQUEST_TIMEOUT else "failed"
            raise ToolFailed(reason, f"{name} failed: {error.message}") from error
        except Exception as error:
            raise ToolFailed(
                "failed", f"{name} failed: its MCP server's answer is not right ({_reason(error)})"
            ) from error
        return result_of(result.model_dump(mode="json", by_alias=True, exclude_none=True), name)


def _reason(error: BaseException | None) -> str:
    """The first real error in a group of them. A server's own words may hold anything, secrets included: they are not
    told.
    """
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if error is None:
        return "it ended at once"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    code = getattr(error, "code", None)
    if isinstance(code, int):
        return f"error {code} in the handshake"
    return str(error) if isinstance(error, ToolSetupError) else type(error).__name__
