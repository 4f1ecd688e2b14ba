"""JSON differences and the comparison of entries, both pure."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.inspection.differences import (
    ABSENT,
    Change,
    Changed,
    Entry,
    Only,
    compare_by_id,
    json_changes,
)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("a", "b", "changes"),
    [
        ({"x": 1}, {"x": 1.0}, []),
        ({"x": 1}, {"x": True}, [Change("/x", 1, True)]),
        ({"x": None}, {}, [Change("/x", None, ABSENT)]),
        ({"a/b": {"c~d": 1}}, {"a/b": {"c~d": 2}}, [Change("/a~1b/c~0d", 1, 2)]),
        ([1, 2], [1, 2, 3], [Change("/2", ABSENT, 3)]),
        ({"x": []}, {"x": {}}, [Change("/x", [], {})]),
        ("a", "b", [Change("", "a", "b")]),
        ({"x": 1, "y": 2}, {"y": 3, "z": 4}, [Change("/x", 1, ABSENT), Change("/y", 2, 3), Change("/z", ABSENT, 4)]),
    ],
)
def test_every_place_that_differs_is_named(a: Any, b: Any, changes: list[Change]) -> None:
    assert json_changes(a, b) == changes


@given(JSON)
def test_a_value_does_not_differ_from_its_copy(value: Any) -> None:
    assert json_changes(value, deepcopy(value)) == []


@given(JSON, JSON)
def test_what_differs_one_way_differs_the_other_way(a: Any, b: Any) -> None:
    there = {(change.path, repr(change.a), repr(change.b)) for change in json_changes(a, b)}
    back = {(change.path, repr(change.b), repr(change.a)) for change in json_changes(b, a)}
    assert there == back


def test_values_nested_beyond_the_interpreters_stack_are_compared() -> None:
    a: Any = 1
    b: Any = 2
    for _ in range(5000):
        a, b = [a], [b]
    assert [change.path for change in json_changes(a, b)] == ["/0" * 5000]


def entry(entry_id: str | None, line: int, **fields: Any) -> Entry:
    return Entry(entry_id, "message", line, {"id": entry_id, **fields})


def run(entries: list[Entry], others: list[Entry], start: int = 0) -> list[Only | Changed]:
    return list(
        compare_by_id(
            [item.id for item in entries],
            [item.id for item in others],
            entries.__getitem__,
            others.__getitem__,
            start,
        )
    )


def test_entries_with_one_id_are_compared_wherever_they_stand() -> None:
    a = [entry("1", 2, text="x"), entry("2", 3, text="y"), entry("3", 4, text="z")]
    b = [entry("3", 2, text="z"), entry("2", 3, text="changed"), entry("4", 4, text="w")]
    assert run(a, b) == [Only("a", a[0]), Changed(a[1], b[1], (Change("/text", "y", "changed"),)), Only("b", b[2])]


def test_doubled_and_missing_ids_find_their_like() -> None:
    a = [entry("1", 2, n=1), entry("1", 3, n=2), entry(None, 4, n=3)]
    b = [entry("1", 2, n=1), entry("1", 3, n=2), entry(None, 4, n=4)]
    assert run(a, b) == [Changed(a[2], b[2], (Change("/n", 3, 4),))]


@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=6), st.lists(st.sampled_from("abc"), max_size=6))
def test_every_entry_is_accounted_for_once(ids: list[str | None], other_ids: list[str]) -> None:
    a = [entry(given, line) for line, given in enumerate(ids)]
    b = [entry(given, line) for line, given in enumerate(other_ids)]
    found = run(a, b)
    only_a = sum(isinstance(item, Only) and item.side == "a" for item in found)
    only_b = sum(isinstance(item, Only) and item.side == "b" for item in found)
    assert len(a) - only_a == len(b) - only_b
    assert not any(isinstance(item, Changed) for item in found)
