"""Against a real server process and a real HTTP server, through the official client."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runner.agent.abort import AbortController
from runner.agent.types import AgentTool, ToolResult
from runner.tools.errors import ToolFailed, ToolSetupError
from runner.tools.mcp_servers import McpServers, connect_servers
from runner.tools.mcp_settings import McpHttp, McpStdio
from tests.fakes import mcp_server
from tests.fakes.plain_spawner import PlainSpawner
from tests.fakes.tool_calls import error_from, named, played, result_of, text_from, text_of

pytest.importorskip("mcp")

pytestmark = pytest.mark.anyio


def stdio(name: str = "fake", **env: str) -> McpStdio:
    return McpStdio(name, sys.executable, (mcp_server.__file__,), env)


@pytest.fixture
async def servers(spawner: PlainSpawner, workspace: Path) -> AsyncIterator[McpServers]:
    servers = await connect_servers([stdio(TOKEN="given")], spawner, workspace)
    yield servers
    await servers.close()


def tool(servers: McpServers, name: str) -> AgentTool:
    return named(servers.tools, f"fake__{name}")


async def test_all_pages_of_tools_are_offered_with_prefixed_names_and_their_schemas(servers: McpServers) -> None:
    names = [each.name for each in servers.tools]
    assert names[:7] == [f"fake__{name}" for name in ("add", "picture", "fail", "slow", "hang", "die", "environment")]
    assert names[7].startswith("fake__odd_name__")
    assert tool(servers, "add").parameters == mcp_server.TOOLS[0]["inputSchema"]


async def test_a_call_gives_text_and_structured_details_through_the_agent(servers: McpServers) -> None:
    message = await played(servers.tools, "fake__add", a="1", b=2)
    assert text_of(message) == "3"
    assert message["details"] == {"structuredContent": {"sum": 3}}


async def test_an_image_comes_as_an_image(servers: McpServers) -> None:
    (block,) = (await result_of(tool(servers, "picture")))["content"]
    assert (block["type"], block["mimeType"]) == ("image", "image/png")


async def test_an_error_of_the_tool_is_an_error_result(servers: McpServers) -> None:
    assert await error_from(tool(servers, "fail")) == "it does not work"


async def test_progress_becomes_updates(servers: McpServers) -> None:
    partials: list[ToolResult] = []
    await tool(servers, "slow").execute("c", {}, None, partials.append)
    assert [text_of(partial) for partial in partials] == ["1 of 2: step 1", "2 of 2: step 2"]


async def test_an_abort_cancels_the_call_at_the_server_and_the_next_call_works(
    servers: McpServers, workspace: Path
) -> None:
    log, called, controller = workspace / "log", asyncio.Event(), AbortController()
    hang = tool(servers, "hang").execute("c", {"log": str(log)}, controller.signal, lambda _partial: called.set())
    call = asyncio.ensure_future(hang)
    await asyncio.wait_for(called.wait(), 10)
    controller.abort()
    with pytest.raises(ToolFailed, match="The call of fake__hang was aborted"):
        await asyncio.wait_for(call, 10)
    assert await text_from(tool(servers, "add"), a=1, b=1) == "2"
    assert log.read_text() == "called\ncancelled\n"


async def test_a_server_that_dies_makes_its_calls_error_results(servers: McpServers) -> None:
    assert await error_from(tool(servers, "die")) == "fake__die failed: its MCP server has ended"
    assert await error_from(tool(servers, "add"), a=1, b=1) == "fake__add failed: its MCP server has ended"


async def test_a_server_sees_what_it_is_given_and_nothing_of_the_runner(servers: McpServers) -> None:
    seen = json.loads(await text_from(tool(servers, "environment")))
    assert seen["TOKEN"] == "given"
    assert set(seen) - {"LC_CTYPE"} == {"PATH", "HOME", "LANG", "TOKEN"}


async def test_closing_ends_the_server_and_may_be_done_twice(spawner: PlainSpawner, workspace: Path) -> None:
    servers = await connect_servers([stdio()], spawner, workspace)
    await servers.close()
    await servers.close()
    assert await asyncio.wait_for(spawner.started[0].wait(), 5) is not None
    assert "ended" in await error_from(servers.tools[0], a=1, b=1)


async def test_a_server_that_ignores_its_end_is_killed(spawner: PlainSpawner, workspace: Path) -> None:
    script = f"trap '' TERM; {sys.executable} {mcp_server.__file__}; sleep 60"
    servers = await connect_servers([McpStdio("fake", "bash", ("-c", script))], spawner, workspace)
    await servers.close()
    assert (await spawner.started[0].wait()).signal == "SIGKILL"


async def test_servers_that_cannot_be_connected_are_all_named_and_nothing_is_left(
    spawner: PlainSpawner, workspace: Path
) -> None:
    settings = [
        stdio("good"),
        McpStdio("ends", "false"),
        McpStdio("none", "/nowhere"),
        McpHttp("web", "http://127.0.0.1:9/"),
    ]
    with pytest.raises(ToolSetupError) as caught:
        await connect_servers(settings, spawner, workspace)
    assert "the MCP server 'ends' cannot be connected" in str(caught.value)
    assert "the MCP server 'none' cannot be connected (No such file or directory)" in str(caught.value)
    assert "the MCP server 'web' cannot be connected (ConnectError)" in str(caught.value)
    for process in spawner.started:
        assert await asyncio.wait_for(process.wait(), 5) is not None


async def test_a_set_up_that_is_cancelled_leaves_no_server(spawner: PlainSpawner, workspace: Path) -> None:
    mute = McpStdio("mute", "bash", ("-c", "read -r line; sleep 60"))
    connecting = asyncio.ensure_future(connect_servers([mute], spawner, workspace))
    await asyncio.wait_for(spawner.has_started.wait(), 10)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert (await asyncio.wait_for(spawner.started[0].wait(), 5)).signal == "SIGKILL"


async def test_a_server_over_http_is_called_with_its_headers(spawner: PlainSpawner, workspace: Path) -> None:
    with mcp_server.serve_http() as served:
        servers = await connect_servers([McpHttp("web", served.url, {"authorization": "Bearer x"})], spawner, workspace)
        assert await text_from(named(servers.tools, "web__add"), a=1, b=2) == "3"
        await servers.close()
    assert {each.get("authorization") for each in served.headers} == {"Bearer x"}
    assert spawner.started == []


async def test_a_server_over_http_that_is_gone_makes_its_calls_error_results(
    spawner: PlainSpawner, workspace: Path
) -> None:
    with mcp_server.serve_http() as served:
        servers = await connect_servers([McpHttp("web", served.url)], spawner, workspace)
    assert "web__add failed" in await error_from(named(servers.tools, "web__add"), a=1, b=2)
    await servers.close()


async def test_without_servers_nothing_is_imported(spawner: PlainSpawner, workspace: Path) -> None:
    servers = await connect_servers([], spawner, workspace)
    assert servers.tools == []
    await servers.close()
