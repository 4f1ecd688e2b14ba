import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tools.errors import ToolFailed
from runner.tools.mcp_results import description, parameters, progress_text, result_of, tool_name


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", fullmatch=True), st.text(max_size=100))
def test_a_tool_name_is_one_that_models_take_and_begins_with_its_server(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert name.startswith(server[:55])


def test_a_plain_name_is_only_prefixed() -> None:
    assert tool_name("github", "create_issue") == "github__create_issue"


@given(st.text(max_size=80), st.text(max_size=80))
def test_different_tools_have_different_names(one: str, other: str) -> None:
    assert (tool_name("s", one) == tool_name("s", other)) == (one == other)


def test_the_schema_is_passed_on_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
    assert parameters(schema) is schema
    assert parameters({"properties": {}}) == {"type": "object", "properties": {}}
    assert parameters(None) == {"type": "object"}


def test_a_description_is_bounded_and_names_the_server() -> None:
    assert description("s", None) == "No description.\n(Tool of the MCP server s.)"
    assert len(description("s", "x" * 100_000)) < 4200


def test_progress_is_told_as_text() -> None:
    assert progress_text(1, 4, "copying") == "1 of 4: copying"
    assert progress_text(0.5, None, None) == "0.5"


def test_all_kinds_of_content_become_texts_and_images() -> None:
    result = result_of(
        {
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "data": "AA==", "mimeType": "image/png"},
                {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
                {"type": "resource_link", "uri": "file:///x", "name": "x"},
                {"type": "resource", "resource": {"uri": "u", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "u", "blob": "AA==", "mimeType": "image/png"}},
                {"type": "resource", "resource": {"uri": "u", "blob": "AA=="}},
            ],
            "structuredContent": {"n": 1},
        },
        "t",
    )
    assert result["content"] == [
        {"type": "text", "text": "a"},
        {"type": "image", "data": "AA==", "mimeType": "image/png"},
        {"type": "text", "text": "[A block of type 'audio', left out]"},
        {"type": "text", "text": "[Resource x: file:///x]"},
        {"type": "text", "text": "[Resource u]\ninside"},
        {"type": "image", "data": "AA==", "mimeType": "image/png"},
        {"type": "text", "text": "[Resource u: binary, left out]"},
    ]
    assert result["details"] == {"structuredContent": {"n": 1}}


def test_structured_content_alone_becomes_the_text() -> None:
    assert result_of({"content": [], "structuredContent": {"n": "ä"}}, "t")["content"][0]["text"] == '{"n": "ä"}'
    assert result_of({"content": []}, "t")["content"][0]["text"] == "(no output)"


def test_an_error_result_is_a_failure_with_its_text() -> None:
    with pytest.raises(ToolFailed, match=r"^wrong$"):
        result_of({"content": [{"type": "text", "text": "wrong"}], "isError": True}, "t")
    with pytest.raises(ToolFailed, match="t failed without saying why"):
        result_of({"content": [], "isError": True}, "t")
