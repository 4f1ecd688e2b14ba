"""The tree of a session as rows to show: where it branches, what was compacted, which branch is the active one. Pure.

A run of entries without a branch is one row, so a long conversation is a short tree. Refuses to follow cycles: entries
that no root leads to are listed at the end.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from checkpoint.session.index import EntryHead
from checkpoint.session.javascript import identity, truthy
from runner.inspection.survey import is_notable


@dataclass(frozen=True, slots=True)
class TreeRow:
    """Entries `first` to `last`, `count` of them, `depth` branches deep. One that is shown alone is both.

    `branches`: how many begin after it; 0 if at most one goes on. `lost`: no root leads here (a cycle).
    """

    depth: int
    first: int
    last: int
    count: int
    active: bool
    branches: int = 0
    lost: bool = False


def tree_rows(
    heads: Sequence[EntryHead], by_id: Mapping[Any, int], active: Container[int], alone: Container[int]
) -> Iterator[TreeRow]:
    """Rows from the roots on, depth first, a branch's entries before those of the next.

    `alone`: positions that get a row of their own (labelled entries, say), beside the first and the last of a branch,
    compactions and the like.
    """
    children, roots = _children(heads, by_id)
    seen = bytearray(len(heads))
    starts = chain(((root, False) for root in roots), ((position, True) for position in range(len(heads))))
    for start, lost in starts:
        todo = [] if seen[start] else [(start, 0)]
        while todo:
            position, depth = todo.pop()
            run, after = _run(position, children, seen)

            def apart(at: int, ends: tuple[int, int] = (run[0], run[-1])) -> tuple[int, bool]:
                by_itself = at in ends or at in alone or is_notable(heads[at].type)
                return (at if by_itself else -1), at in active

            for _, group in groupby(run, apart):
                row = list(group)
                branches = len(after) if row[-1] == run[-1] else 0
                yield TreeRow(depth, row[0], row[-1], len(row), row[0] in active, branches, lost)
            todo.extend((child, depth + 1) for child in reversed(after))


def _run(position: int, children: Mapping[int, Sequence[int]], seen: bytearray) -> tuple[list[int], list[int]]:
    """The entries from `position` to the next branching point or leaf, and the branches that begin there."""
    run: list[int] = []
    while True:
        seen[position] = True
        run.append(position)
        after = [child for child in children.get(position, ()) if not seen[child]]
        if len(after) != 1:
            return run, after
        position = after[0]


def _children(heads: Sequence[EntryHead], by_id: Mapping[Any, int]) -> tuple[dict[int, list[int]], list[int]]:
    children: dict[int, list[int]] = {}
    roots: list[int] = []
    for position in range(len(heads)):
        parent = _parent(heads, by_id, position)
        if parent is None:
            roots.append(position)
        else:
            children.setdefault(parent, []).append(position)
    return children, roots


def _parent(heads: Sequence[EntryHead], by_id: Mapping[Any, int], position: int) -> int | None:
    """None for a root, and for a parent that is not in the file."""
    parent_id = heads[position].parent_id
    return by_id.get(identity(parent_id)) if truthy(parent_id) else None
