"""What is known about a session log without its bodies: where each entry lies, and how entries hang together.

Refuses to hold content: an entry is its type, id, parent and place in the file, nothing else.
"""

from array import array
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from checkpoint.jsontypes import JsonObject
from checkpoint.session.header import needs_migration
from checkpoint.session.javascript import UNDEFINED, identity
from checkpoint.session.tree import Branch, walk

OnDamage: TypeAlias = Literal["fail", "skip"]
"""`fail`: damage is an error that names the line. `skip`: Pi's lenient reading."""


class EntryHead(msgspec.Struct, gc=False):
    """The three fields every entry has. In a log read with `skip` they hold whatever the file has, or
    UNDEFINED.
    """

    type: Any
    id: Any
    parent_id: Any = msgspec.field(default=None, name="parentId")


@dataclass(frozen=True, slots=True)
class IndexedEntry:
    """One entry: `offset` and `length` in bytes, without the line end; `line` is 1-based."""

    type: Any
    id: Any
    parent_id: Any
    offset: int
    length: int
    line: int


@dataclass(slots=True)
class SessionIndex:
    """The index of one session file, in file order; positions count entries from 0, the header is not one.

    `keep_bytes` is the length to keep: less than `size` after a torn last line. `needs_newline` asks for a
    line end to be added before anything is appended. `SessionLog.open` does both.
    """

    header: JsonObject
    version: float
    on_damage: OnDamage
    heads: list[EntryHead]
    offsets: "array[int]"
    lengths: "array[int]"
    lines: "array[int]"
    size: int
    keep_bytes: int
    needs_newline: bool
    warnings: list[str]
    by_id: dict[Any, int] = field(init=False)
    """From `identity(id)` to the position; of two entries with one id the later one counts."""
    _branch: Branch | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.by_id = {
            key if type(key) is str else identity(key): position
            for position, key in enumerate(head.id for head in self.heads)
        }

    def __len__(self) -> int:
        return len(self.heads)

    @property
    def entries(self) -> int:
        """The number of entries."""
        return len(self.heads)

    @property
    def session_id(self) -> str:
        return self.header["id"]

    @property
    def needs_migration(self) -> bool:
        """Whether the file is of version 1 or 2: `migrate` it into a new file first."""
        return needs_migration(self.version)

    @property
    def leaf_id(self) -> str | None:
        """The id of the last entry. (After `skip` it may be any JSON value; None also if that entry has no
        id.)
        """
        leaf = self.heads[-1].id if self.heads else None
        return None if leaf is UNDEFINED else leaf

    def entry(self, position: int) -> IndexedEntry:
        head = self.heads[position]
        return IndexedEntry(
            head.type,
            head.id,
            head.parent_id,
            self.offsets[position],
            self.lengths[position],
            self.lines[position],
        )

    def branch(self) -> Branch:
        """The active branch: from its root to the leaf. Computed once."""
        if self._branch is None:
            self._branch = walk(self.heads, self.by_id)
        return self._branch
