import math
from typing import Any

import pytest

from checkpoint.session.encoding import encode

WRITTEN: list[tuple[Any, str]] = [
    ({"a": 1, "b": [True, False, None]}, '{"a":1,"b":[true,false,null]}'),
    ({}, "{}"),
    ([], "[]"),
    ([[], {}, [{}]], "[[],{},[{}]]"),
    ((1, 2), "[1,2]"),
    ("é\u2028\u2029\x85\x7f😀/", '"é\u2028\u2029\x85\x7f😀/"'),
    ('"\\\b\f\n\r\t\0\x1f', '"\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f"'),
    ("cut \ud83d", '"cut \\ud83d"'),
    ("\udfff\ud800", '"\\udfff\\ud800"'),
    ({"k\ud800": "x"}, '{"k\\ud800":"x"}'),
    ("\ud83d\ude00", '"😀"'),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN)
def test_a_value_is_written_as_json_stringify_writes_it(value: Any, text: str) -> None:
    assert encode(value).decode() == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (0.0000243, "0.0000243"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.5e-7, "-1.5e-7"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (-1.25e20, "-125000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (5e-324, "5e-324"),
        (2**53 + 1, "9007199254740992"),
        (123456789012345678901234567890, "1.2345678901234568e+29"),
        (10**400, "null"),
        (math.nan, "null"),
        (math.inf, "null"),
        (-math.inf, "null"),
    ],
)
def test_a_number_is_written_as_javascript_prints_it(value: float, text: str) -> None:
    assert encode(value).decode() == text
    assert encode(["\ud800", value]).decode() == f'["\\ud800",{text}]'


def test_nesting_may_be_as_deep_as_memory_allows() -> None:
    depth = 20_000
    value: Any = 1
    for _ in range(depth):
        value = [value]
    assert encode(value) == b"[" * depth + b"1" + b"]" * depth


@pytest.mark.parametrize("value", [{1: "x"}, {"x": {None: 1}}, {"x": object()}, [b"x"], {1, 2}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="no JSON"):
        encode(value)
