from typing import Any

import pytest

from checkpoint.text import clean_json, clean_text


@pytest.mark.parametrize("text", ["", "plain", "é😀\u2028\x85\ufeff\x01\x7f"])
def test_clean_text_is_the_same_object(text: str) -> None:
    assert clean_text(text) is text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\0b", "a\ufffdb"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("\ud83d\0é", "\ufffd\ufffdé"),
    ],
)
def test_lone_surrogates_and_nul_are_replaced_and_pairs_joined(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


def test_clean_json_is_the_same_object() -> None:
    value = {"a": [1, 2.5, None, True, "x", {"b": ()}]}
    assert clean_json(value) is value


def test_strings_and_keys_at_any_depth_are_cleaned_without_touching_the_original() -> None:
    value: Any = {"a\0": ["\ud800", ("x\0",), {"k": "\0"}], "n": 1}
    assert clean_json(value) == {"a\ufffd": ["\ufffd", ["x\ufffd"], {"k": "\ufffd"}], "n": 1}
    assert value == {"a\0": ["\ud800", ("x\0",), {"k": "\0"}], "n": 1}
    assert clean_json("a\0") == "a\ufffd"


def test_nesting_may_be_as_deep_as_memory_allows() -> None:
    value: Any = "x\0"
    for _ in range(5000):
        value = [value]
    cleaned = clean_json(value)
    for _ in range(5000):
        cleaned = cleaned[0]
    assert cleaned == "x\ufffd"
