import math
from typing import Any

import pytest

from checkpoint.session.javascript import UNDEFINED, date_ms, identity, to_number, to_text, trim, truthy


def test_trim_takes_the_mark_and_the_unicode_blanks_but_not_the_c1_controls() -> None:
    assert trim("\ufeff\xa0\u2028 \t\v\fx\u3000") == "x"
    assert trim("\x85x\u180e\u200b") == "\x85x\u180e\u200b"


@pytest.mark.parametrize("value", [None, UNDEFINED, False, 0, 0.0, "", math.nan])
def test_what_is_false_in_javascript(value: Any) -> None:
    assert not truthy(value)


@pytest.mark.parametrize("value", [[], {}, "0", True, -1, math.inf])
def test_what_is_true_in_javascript(value: Any) -> None:
    assert truthy(value)


def test_identity_tells_apart_what_python_takes_for_equal() -> None:
    assert identity(True) != identity(1)
    assert identity("1") != identity(1)
    assert identity(None) != identity(UNDEFINED)
    assert identity(1) == identity(1.0)


def test_objects_are_never_identical_to_other_parsed_objects() -> None:
    assert identity({}) != identity({})
    assert identity([]) != identity([])


@pytest.mark.parametrize(
    ("value", "number"),
    [(None, 0), (True, 1), ("3", 3), (" 3 ", 3), ("", 0), ("1e1", 10), (".5", 0.5), ("-2.", -2), (2.5, 2.5)],
)
def test_values_count_as_numbers(value: Any, number: float) -> None:
    assert to_number(value) == number


@pytest.mark.parametrize("value", ["abc", "3x", "1_000", [], {}, UNDEFINED, "٣"])
def test_other_values_are_no_number(value: Any) -> None:
    assert math.isnan(to_number(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [("x", "x"), (UNDEFINED, "undefined"), (None, "null"), (True, "true"), (1.0, "1"), ({}, "[object Object]")],
)
def test_values_inside_a_template(value: Any, text: str) -> None:
    assert to_text(value) == text


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("1970-01-01T00:00:00.000Z", 0),
        ("2026-01-01T00:00:00.5Z", 1767225600500),
        ("2026-01-01T02:00:00.123456+02:00", 1767225600123),
        ("2025-12-31T23:00:00-01:00", 1767225600000),
        ("2026-01-01", 1767225600000),
        ("2026", 1767225600000),
        ("2026-02-30", 1772409600000),
        ("2025-12-31T24:00:00Z", 1767225600000),
        ("1969-12-31T23:59:59.999Z", -1),
        (1767225600000, 1767225600000),
        (1.9, 1),
        (None, 0),
        ("yesterday", None),
        ("", None),
        ("2026-13-01", None),
        ("2026-01-32", None),
        ("2026-01-01T24:00:01Z", None),
        ("2026-01-01T10:60:00Z", None),
        (8.65e15, None),
        (math.inf, None),
        (UNDEFINED, None),
        ({}, None),
    ],
)
def test_dates_are_milliseconds_or_none(value: Any, ms: int | None) -> None:
    assert date_ms(value) == ms
