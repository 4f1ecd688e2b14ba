"""The tree of entries: which of them lie on the active branch, from its root to the leaf.

Pure. Refuses to follow a cycle: it is reported as a value, with the entry that is met a second time.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from checkpoint.session.javascript import identity, truthy


class Node(Protocol):
    """What the walk needs of an entry. `parent_id` false in JavaScript's sense makes it a root."""

    @property
    def id(self) -> Any: ...
    @property
    def parent_id(self) -> Any: ...


class Branch(Struct, frozen=True):
    """Positions of the entries, root first. `cycle` is the position met again, `orphan` whether the parent of
    the first entry is not in the file (Pi starts the branch there; so do we)."""

    positions: list[int]
    orphan: bool = False
    cycle: int | None = None


def walk(nodes: Sequence[Node], by_id: dict[Any, int]) -> Branch:
    """The branch of the last entry, followed through the ids as Pi does; linear in its length."""
    if not nodes:
        return Branch([])
    last = len(nodes) - 1
    leaf_id = nodes[last].id
    position = by_id.get(identity(leaf_id), last) if truthy(leaf_id) else last
    met = bytearray(len(nodes))
    positions: list[int] = []
    while not met[position]:
        met[position] = True
        positions.append(position)
        parent_id = nodes[position].parent_id
        if not parent_id and not truthy(parent_id):
            return Branch(positions[::-1])
        parent = by_id.get(parent_id if type(parent_id) is str else identity(parent_id))
        if parent is None:
            return Branch(positions[::-1], orphan=True)
        position = parent
    return Branch(positions[::-1], cycle=position)
