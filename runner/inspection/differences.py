"""What differs between two JSON values, and between two lists of session entries. Pure.

Entries are compared as values, so another spelling of the same JSON is no difference. Refuses to guess moves: an entry
is there, not there, or changed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, TypeAlias, cast, final

from checkpoint.jsontypes import JsonObject


@final
class Absent:
    """The value of a field or item that one side does not have (null is a value)."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()
Side: TypeAlias = Literal["a", "b"]


@dataclass(frozen=True, slots=True)
class Change:
    """`path`: a JSON pointer (RFC 6901) below the compared value; empty for the value itself."""

    path: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry to compare. `id`: as written, None if it has none. `line`: 1-based in its file."""

    id: str | None
    type: str
    line: int
    value: JsonObject


@dataclass(frozen=True, slots=True)
class Only:
    """Only one side has this entry."""

    side: Side
    entry: Entry


@dataclass(frozen=True, slots=True)
class Changed:
    """Both sides have the entry, with different content."""

    a: Entry
    b: Entry
    changes: tuple[Change, ...]


Difference: TypeAlias = Only | Changed


def json_changes(a: Any, b: Any) -> list[Change]:
    """Every place where two JSON values differ, in the order of `a`. Works without recursion, to any depth.

    Numbers are equal by value (1 and 1.0), true is no 1. Lists are compared item by item.
    """
    changes: list[Change] = []
    todo: list[tuple[str, Any, Any]] = [("", a, b)]
    while todo:
        path, one, other = todo.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            left, right = cast("JsonObject", one), cast("JsonObject", other)
            keys = [*left, *(key for key in right if key not in left)]
            pairs = [(key, left.get(key, ABSENT), right.get(key, ABSENT)) for key in keys]
        elif isinstance(one, list) and isinstance(other, list):
            items = zip_longest(cast("list[Any]", one), cast("list[Any]", other), fillvalue=ABSENT)
            pairs = [(str(index), item, its) for index, (item, its) in enumerate(items)]
        else:
            if not _same_leaf(one, other):
                changes.append(Change(path, one, other))
            continue
        todo.extend((f"{path}/{_pointer(key)}", its, others) for key, its, others in reversed(pairs))
    return changes


def _same_leaf(a: Any, b: Any) -> bool:
    """Of two values that are not both objects or both lists."""
    if isinstance(a, bool) or isinstance(b, bool) or isinstance(a, dict | list) or isinstance(b, dict | list):
        return a is b
    return bool(a == b)


def _pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


ReadEntry: TypeAlias = Callable[[int], Entry]


def compare_by_id(
    a_ids: Sequence[str | None],
    b_ids: Sequence[str | None],
    read_a: ReadEntry,
    read_b: ReadEntry,
    start: int = 0,
) -> Iterator[Difference]:
    """Compare two lists of entries by their ids, from `start` on: for two sessions with a common past.

    First those of A in A's order (changed, or only there), then those only in B. The n-th entry with an id is compared
    with the other side's n-th with that id; so are, after `start`, those without an id.
    """
    in_b = {key: place for place, key in _keys(b_ids, start)}
    for place, key in _keys(a_ids, start):
        other = in_b.pop(key, None)
        if other is None:
            yield Only("a", read_a(place))
            continue
        one, its = read_a(place), read_b(other)
        if changes := json_changes(one.value, its.value):
            yield Changed(one, its, tuple(changes))
    for place in in_b.values():
        yield Only("b", read_b(place))


def _keys(ids: Sequence[str | None], start: int) -> Iterator[tuple[int, tuple[str | None, int]]]:
    """(place, (id, how many with that id came before it))."""
    met: dict[str | None, int] = {}
    for place in range(start, len(ids)):
        count = met.get(ids[place], 0)
        met[ids[place]] = count + 1
        yield place, (ids[place], count)
