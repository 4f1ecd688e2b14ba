"""The tools over the real spawner, at every level that this machine has: what they need is there inside."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from runner.errors import Refused
from runner.isolation.confinement import Level
from runner.isolation.establish import Isolation, build_spawner
from runner.isolation.settings import IsolationSettings
from runner.tools.folders import ToolFolders
from runner.tools.toolbox import Toolbox, ToolSelection, open_toolbox
from tests.fakes.tool_calls import error_from, named, text_from

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["none", "landlock", "namespace"])
async def isolation(request: pytest.FixtureRequest, workspace: Path) -> AsyncIterator[Isolation]:
    level: Level = request.param
    settings = IsolationSettings(workspace=workspace, hidden=(), secrets={}, required=level)
    try:
        isolation = await asyncio.to_thread(build_spawner, settings, dict(os.environ), levels=(level,))
    except Refused as refused:
        pytest.skip(str(refused))
    yield isolation
    await isolation.spawner.close()
    isolation.remove()


@pytest.fixture
async def toolbox(isolation: Isolation, workspace: Path) -> AsyncIterator[Toolbox]:
    folders = ToolFolders(workspace, Path(isolation.grounds.scratch.outputs))
    toolbox = await open_toolbox(ToolSelection(names=None), isolation.spawner, folders, None)
    yield toolbox
    await toolbox.close()


async def test_file_tools_and_commands_share_the_workspace(toolbox: Toolbox) -> None:
    tools = toolbox.tools
    await text_from(named(tools, "write"), path="a/b.sh", content="echo one\n")
    await text_from(named(tools, "edit"), path="a/b.sh", edits=[{"oldText": "one", "newText": "two"}])
    assert await text_from(named(tools, "bash"), command="bash a/b.sh; echo made > c") == "two"
    assert await text_from(named(tools, "read"), path="c") == "made"
    assert await text_from(named(tools, "grep"), pattern="two") == "a/b.sh:1: echo two"
    assert await text_from(named(tools, "ls")) == "a/\nc"


async def test_kept_output_can_be_read_inside(toolbox: Toolbox, isolation: Isolation) -> None:
    kept = Path(isolation.grounds.scratch.outputs) / "bash-1.txt"
    assert f"Full output: {kept}]" in await text_from(named(toolbox.tools, "bash"), command="seq 5000")
    assert (await text_from(named(toolbox.tools, "read"), path=str(kept), offset=4999)) == "4999\n5000"
    assert await text_from(named(toolbox.tools, "bash"), command=f"wc -l < {kept}") == "5000"
    if isolation.level != "none":
        await error_from(named(toolbox.tools, "bash"), command=f"echo x >> {kept}")
        assert kept.read_text().endswith("5000\n")


async def test_how_a_command_ended_is_told_the_same_at_every_level(toolbox: Toolbox) -> None:
    bash = named(toolbox.tools, "bash")
    assert await error_from(bash, command="exit 3") == "The command exited with code 3"
    assert await error_from(bash, command="kill -9 $$") == "The command was ended by SIGKILL"
    assert "took longer than 0.3 seconds" in await error_from(bash, command="sleep 60", timeout=0.3)
