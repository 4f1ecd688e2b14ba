"""The file of a scripted model: read, or refused with the place that is wrong."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.models.script import Call, ScriptInvalid, Words, load_script, parse_script

WORD = {"type": "text", "text": "x"}
CALL = {"type": "toolCall", "name": "t"}


def refusal(script: Any) -> str:
    with pytest.raises(ScriptInvalid) as refused:
        parse_script(script)
    return str(refused.value)


def refusal_of_block(block: Any) -> str:
    return refusal({"responses": [{"content": [WORD, block]}]})


def test_a_script_says_what_to_answer() -> None:
    script = parse_script(
        {
            "responses": [
                {"content": [{"type": "text", "text": "ab", "deltas": ["a", "b"], "delay_ms": 5}, CALL]},
                {
                    "content": [],
                    "stopReason": "error",
                    "errorMessage": "down",
                    "usage": {"input": 3, "output": 4, "cost": 0.5},
                },
                {"throw": "bug", "delay_ms": 1.5},
            ]
        }
    )
    first, second, third = script.responses
    assert first.content == (Words("text", "ab", ("a", "b"), 5), Call(None, "t", {}, ("{}",), 0))
    assert first.stop_reason == "toolUse"
    assert (second.stop_reason, second.error_message) == ("error", "down")
    assert (second.usage["totalTokens"], second.usage["cost"]["total"]) == (7, 0.5)
    assert (third.throw, third.delay_ms) == ("bug", 1.5)


WRONG_SCRIPTS: list[tuple[Any, str]] = [
    ([], "the script must be an object"),
    ({}, "responses is missing"),
    ({"responses": {}}, "responses must be a list"),
    ({"responses": [], "more": 1}, "more is not known here; known are responses"),
    ({"responses": ["x"]}, "responses[0] must be an object"),
    ({"responses": [{}, {"stop": 1}]}, "responses[1].stop is not known here"),
    ({"responses": [{"content": "x"}]}, "responses[0].content must be a list"),
    (
        {"responses": [{"stopReason": "done"}]},
        "responses[0].stopReason must be one of stop, toolUse, length, error, aborted",
    ),
    ({"responses": [{"stopReason": ["stop"]}]}, "responses[0].stopReason must be one of"),
    ({"responses": [{"usage": {"input": -1}}]}, "responses[0].usage.input must be a whole number, 0 or more"),
    ({"responses": [{"usage": {"cost": "1"}}]}, "responses[0].usage.cost must be a number, 0 or more"),
    ({"responses": [{"delay_ms": True}]}, "responses[0].delay_ms must be a number, 0 or more"),
    ({"responses": [{"delay_ms": 1e12}]}, "responses[0].delay_ms must be at most 86400000"),
    ({"responses": [{"errorMessage": None}]}, "responses[0].errorMessage must be a string"),
    ({"responses": [{"throw": "x", "content": []}]}, "responses[0].throw goes with delay_ms only"),
]


@pytest.mark.parametrize(("script", "said"), WRONG_SCRIPTS)
def test_a_wrong_script_is_refused_with_the_place(script: Any, said: str) -> None:
    assert refusal(script).startswith(said)


WRONG_BLOCKS: list[tuple[Any, str]] = [
    ("x", "responses[0].content[1] must be an object"),
    ({"type": "image"}, "responses[0].content[1].type must be text, thinking or toolCall"),
    ({"type": "text"}, "responses[0].content[1].text is missing"),
    ({"type": "thinking", "text": "x"}, "responses[0].content[1].text is not known here"),
    ({"type": "text", "text": "ab", "deltas": ["a"]}, "responses[0].content[1].deltas must add up to text"),
    ({"type": "text", "text": "ab", "deltas": ["ab", 1]}, "responses[0].content[1].deltas[1] must be a string"),
    ({"type": "toolCall"}, "responses[0].content[1].name is missing"),
    ({**CALL, "name": ""}, "responses[0].content[1].name must be a string that is not empty"),
    ({**CALL, "arguments": []}, "responses[0].content[1].arguments must be an object"),
    ({**CALL, "id": 4}, "responses[0].content[1].id must be a string that is not empty"),
]


@pytest.mark.parametrize(("block", "said"), WRONG_BLOCKS)
def test_a_wrong_block_is_refused_with_the_place(block: Any, said: str) -> None:
    assert refusal_of_block(block).startswith(said)


WRONG_FILES: list[tuple[str, str]] = [
    ("{", "is not JSON"),
    (
        '{"responses": [{"content": [{"type": "toolCall", "name": "t", "arguments": {"n": NaN}}]}]}',
        "is not JSON: NaN",
    ),
    ("[" * 100_000, "is not JSON"),
    ('{"responses": 1}', "responses must be a list"),
]


@pytest.mark.parametrize(("text", "said"), WRONG_FILES)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(text)
    with pytest.raises(ScriptInvalid) as refused:
        load_script(path)
    assert str(refused.value).startswith(f"{path}: {said}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptInvalid, match=r"script\.json: cannot be read: No such file"):
        load_script(tmp_path / "script.json")


KEYS = st.sampled_from(["responses", "content", "type", "text", "name", "usage", "deltas", "throw"])
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_value_is_a_script_or_refused(value: Any) -> None:
    with suppress(ScriptInvalid):
        assert parse_script(value).responses is not None
