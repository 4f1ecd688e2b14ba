"""JSON as JavaScript writes it, and texts without broken characters."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.models.json_text import body_bytes, clean, join_surrogates, js_json, without_surrogates

any_text = st.text(alphabet=st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (1.0, "1"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-7, "1e-7"),
        (1.5e-5, "0.000015"),
        (-1.5e-6, "-0.0000015"),
        (123.456, "123.456"),
        (math.inf, "null"),
        (True, "true"),
        ({"z": 1, "a": 'é\n"'}, '{"z":1,"a":"é\\n\\""}'),
        ([], "[]"),
    ],
)
def test_values_are_written_as_javascript_writes_them(value: object, want: str) -> None:
    assert js_json(value) == want


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_survives_being_written(number: float) -> None:
    assert float(js_json(number)) == number


@given(any_text)
def test_a_cleaned_text_can_always_be_sent(text: str) -> None:
    cleaned = without_surrogates(text)
    cleaned.encode()
    assert without_surrogates(cleaned) is cleaned


def test_halves_of_a_character_are_joined_and_lone_halves_removed() -> None:
    assert join_surrogates("a\ud83d\ude48") == "a\U0001f648"
    assert join_surrogates("a\ud83d") == "a\ud83d"
    assert without_surrogates("x\ude48y \ud83d\ude48\ud83d") == "xy \U0001f648"


@given(st.dictionaries(any_text, any_text))
def test_any_body_becomes_bytes_of_json(body: dict[str, str]) -> None:
    assert json.loads(body_bytes(body)) == clean(body)


def test_numbers_json_does_not_have_become_null() -> None:
    assert body_bytes({"a": [math.inf, math.nan, 1.5]}) == b'{"a":[null,null,1.5]}'
