"""The example of own tools is loaded as the page says, and the page's numbers are the program's."""

import json
import re
from pathlib import Path

import pytest

from runner.agent.types import ToolResult
from runner.subagent_budget import MAX_AT_ONCE, MAX_SUBAGENTS, MAX_TURNS
from runner.tools import bash, command_output, file_worker, folders, images, mcp_servers, result_limits
from runner.tools.registry import BUILT_IN_TOOLS, load_own_tools, tool_name_problems
from runner.tools.worker import searching
from tests.fakes.importable import importable
from tests.fakes.tool_calls import named, played, text_of

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
FILES = dict(re.findall(r"<!-- file: (.+?) -->\n```\w+\n(.*?)```", PAGE, re.S))

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_the_example_of_own_tools_works_as_described(tmp_path: Path) -> None:
    (tmp_path / "weather_tools.py").write_text(FILES["weather_tools.py"])
    names = json.loads(FILES["spec-tools.json"])["tools"]
    with importable(tmp_path):
        assert tool_name_problems(names) == []
        tools = load_own_tools(names)
    assert [tool.name for tool in tools] == ["forecast", "cities"]
    forecast = named(tools, "forecast")
    assert forecast.parameters == {
        "type": "object",
        "additionalProperties": False,
        "required": ["city"],
        "properties": {
            "city": {"type": "string", "description": "Name of the city."},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        },
    }
    message = await played(tools, "forecast", city="Bern")
    assert json.loads(text_of(message)) == {"city": "Bern", "degrees": 21, "aborted": False}
    assert text_of(await played(tools, "cities")) == '["Bern", "Oslo"]'
    partials: list[ToolResult] = []
    await forecast.execute("c", {"city": "Oslo"}, None, partials.append)
    assert [text_of(partial) for partial in partials] == ["asking for Oslo"]


def test_every_built_in_tool_is_in_the_table() -> None:
    assert re.findall(r"^\| `(\w+)` \| `", PAGE, re.M) == list(BUILT_IN_TOOLS)


def test_the_numbers_of_the_page_are_the_programs() -> None:
    facts = [
        f"| such a file | {folders.MAX_KEPT_BYTES >> 20} MB, all of a run {folders.MAX_ALL_KEPT_BYTES >> 20} MB |",
        f"| `grep` | {searching.GREP_MATCHES} matches, 50 KB, lines of {searching.LINE_CHARS} characters |",
        f"| `find`, `ls` | {searching.FIND_RESULTS} and {searching.LS_ENTRIES} entries, 50 KB |",
        f"`limit` up to {searching.MOST_RESULTS} |",
        f"| {file_worker.CALL_S:g} s, also where a pattern",
        f"a search otherwise ends itself after {searching.SEARCH_S:g} s",
        f"what does not end is killed {file_worker.GRACE_S:g} s later |",
        f"| a call of an MCP server | {mcp_servers.CALL_S:g} s |",
        f"| text of any result, errors too | {result_limits.MAX_TEXT_BYTES >> 10} KB |",
        f"| {result_limits.MAX_IMAGES}, each {images.MAX_IMAGE_BYTES / 1e6:g} MB and {images.MAX_IMAGE_SIDE} pixels",
        f"| `details` of any result | {result_limits.MAX_DETAILS_BYTES >> 10} KB of JSON |",
        f"{command_output.UPDATE_BYTES >> 10} KB of `bash`, {result_limits.MAX_UPDATE_BYTES >> 10} KB of others",
        f"a command is stopped after {bash.DEFAULT_TIMEOUT_S:g} seconds",
        f"and {MAX_TURNS} turns",
        f"at most {MAX_SUBAGENTS} subagents, {MAX_AT_ONCE} at once",
        f"not ready within {mcp_servers.CONNECT_S:g} seconds",
    ]
    assert [fact for fact in facts if fact not in PAGE] == []
