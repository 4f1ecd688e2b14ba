import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.jsontypes import JsonObject
from runner.agent.types import AgentTool, ToolResult, UpdateCallback
from runner.tools.errors import ToolFailed
from runner.tools.folders import ToolFolders
from runner.tools.result_limits import (
    MAX_DETAILS_BYTES,
    MAX_IMAGES,
    MAX_TEXT_BYTES,
    MAX_UPDATE_BYTES,
    bounded_result,
    bounded_text,
    bounded_tool,
    bounded_update,
)
from tests.fakes.agent_parts import tool
from tests.fakes.mcp_server import png
from tests.fakes.tool_calls import error_from, text_from, text_of

pytestmark = pytest.mark.anyio


def image(data: bytes | None = None, mime_type: str = "image/png") -> JsonObject:
    return {"type": "image", "data": base64.b64encode(data or png()).decode(), "mimeType": mime_type}


def bounded(result: Any) -> ToolResult:
    return bounded_result(result, lambda _text: None)


@given(st.text(max_size=300), st.integers(40, 200))
def test_a_bounded_text_is_the_text_or_its_beginning_and_end_around_a_note(text: str, size: int) -> None:
    text = text.encode("utf-8", "replace").decode()
    result = bounded_text(text, size, lambda _text: "/kept")
    if len(text.encode()) <= size:
        assert result is text
    else:
        head, rest = result.split("\n\n[... ", 1)
        tail = rest.split("Full text: /kept ...]\n\n", 1)[1]
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head.encode()) + len(tail.encode()) <= size


async def test_a_text_that_is_too_long_is_kept_in_a_file_that_is_named(folders: ToolFolders) -> None:
    text = "".join(f"{number}\n" for number in range(100_000))
    shown = await text_from(bounded_tool(tool("big", text), folders))
    path = folders.outputs / "big-1.txt"
    assert f"Full text: {path}" in shown
    assert path.read_text() == text
    assert len(shown) < MAX_TEXT_BYTES + 200


async def test_an_error_text_is_bounded_as_well_and_a_short_one_untouched(folders: ToolFolders) -> None:
    async def fail(_id: str, args: JsonObject, _signal: object, _update: UpdateCallback) -> ToolResult:
        raise ValueError("x" * args["size"])

    failing = bounded_tool(tool("bad", execute=fail), folders)
    assert await error_from(failing, size=10) == "x" * 10
    assert len(await error_from(failing, size=1_000_000)) < MAX_TEXT_BYTES + 200


def test_a_result_within_the_limits_stays_as_it_is() -> None:
    result = {"content": [{"type": "text", "text": "a"}, image()], "details": {"a": 1}, "terminate": True}
    assert bounded(result) == result


def test_images_that_a_provider_may_refuse_are_left_out_and_told() -> None:
    content = bounded(
        {
            "content": [
                image(png()[:-20]),
                image(png(), "image/jpeg"),
                {"type": "image", "data": "###", "mimeType": "image/png"},
                {"type": "image"},
                *[image()] * (MAX_IMAGES + 1),
            ]
        }
    )["content"]
    assert [block["text"] for block in content if block["type"] == "text"] == [
        "[An image was left out: it is damaged or not whole]",
        "[An image was left out: it is image/png, not image/jpeg]",
        "[An image was left out: it is not base64]",
        "[An image was left out: it has no data]",
        "[An image was left out: it is one too many: a result holds 8 and 10000000 characters of them]",
    ]
    assert sum(block["type"] == "image" for block in content) == MAX_IMAGES


def test_blocks_of_other_types_and_too_many_are_left_out_and_told() -> None:
    content = bounded({"content": [{"type": "audio", "data": "x"}, 5, *[{"type": "text", "text": "a"}] * 300]})[
        "content"
    ]
    assert content[0]["text"] == "[A block of type 'audio' was left out]"
    assert content[1]["text"] == "[A block of type 'None' was left out]"
    assert content[-1]["text"] == "[46 further blocks were left out]"


@pytest.mark.parametrize("details", ["x" * MAX_DETAILS_BYTES, {1, 2}, {1: "x"}])
def test_details_that_are_too_large_or_no_json_are_left_out(details: Any) -> None:
    result = bounded({"content": [], "details": details})
    assert list(result["details"]) == ["leftOut"]
    assert len(json.dumps(result)) < 200


def test_many_texts_are_bounded_together_and_images_stay() -> None:
    result = bounded({"content": [*[{"type": "text", "text": "x" * 1000}] * 100, image()]})
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    assert len(text_of(result)) < MAX_TEXT_BYTES + 200


@pytest.mark.parametrize("result", [None, 5, "text", []])
def test_what_is_no_result_is_a_failure(result: Any) -> None:
    with pytest.raises(ToolFailed):
        bounded(result)


def test_a_result_without_content_has_none() -> None:
    assert bounded({"details": 1})["content"] == []


def test_an_update_is_the_end_of_its_text() -> None:
    partial = bounded_update({"content": [{"type": "text", "text": "a" * 100_000 + "z"}, image()]})
    assert len(text_of(partial)) == MAX_UPDATE_BYTES
    assert text_of(partial).endswith("z")
    assert len(partial["content"]) == 1


async def test_updates_of_a_tool_are_bounded_on_their_way(folders: ToolFolders) -> None:
    async def report(_id: str, _args: JsonObject, _signal: object, on_update: UpdateCallback) -> ToolResult:
        on_update({"content": [{"type": "text", "text": "x" * 100_000}]})
        return {"content": []}

    partials: list[ToolResult] = []
    reporting: AgentTool = bounded_tool(tool("r", execute=report), folders)
    await reporting.execute("c", {}, None, partials.append)
    assert len(text_of(partials[0])) == MAX_UPDATE_BYTES


async def test_where_nothing_can_be_kept_the_text_is_cut_all_the_same(tmp_path: Path) -> None:
    shown = await text_from(bounded_tool(tool("big", "x" * 100_000), ToolFolders(tmp_path, tmp_path / "none")))
    assert "Full text" not in shown
