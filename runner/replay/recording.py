"""A recorded session as a replay reads it: the entries of its active branch, each decoded once.

Refuses what no message can be read from, with the line and how much was read before it.
"""

from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, cast

import msgspec

from checkpoint.jsontypes import JsonObject
from checkpoint.session.decoding import decode_text, parse
from checkpoint.session.index import SessionIndex
from checkpoint.session.indexer import cycle_error
from runner.inspection.errors import SourceFailed


class Line(msgspec.Struct, frozen=True, gc=False):
    """Where an entry's line is in the file, its line end included, and which entry it is."""

    start: int
    end: int
    id: str | None


class Recording(msgspec.Struct, frozen=True):
    """Entries of a branch, decoded, and their lines."""

    entries: list[JsonObject]
    lines: list[Line]

    def until(self, position: int) -> "Recording":
        return Recording(self.entries[: position + 1], self.lines[: position + 1])


def read_branch(path: Path, index: SessionIndex, address: str, *, start: int = 0) -> Recording:
    """The active branch of a session file, root first, without what lies before the position `start` of the file.

    Raises SourceFailed, OSError.
    """
    branch = index.branch()
    if branch.cycle is not None:
        raise SourceFailed("damaged", address, str(cycle_error(index, branch.cycle)).partition(";")[0])
    positions = [position for position in branch.positions if position >= start]
    lines: list[Line] = []
    for position in positions:
        offset, entry_id = index.offsets[position], index.heads[position].id
        lines.append(
            Line(offset, offset + index.lengths[position] + 1, entry_id if isinstance(entry_id, str) else None)
        )
    return Recording(list(_decoded(path, index, positions, address)), lines)


def _decoded(path: Path, index: SessionIndex, positions: list[int], address: str) -> Iterator[JsonObject]:
    if not positions:
        return
    decode = msgspec.json.Decoder().decode
    offsets, lengths = index.offsets, index.lengths
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        for position in positions:
            offset = offsets[position]
            line = data[offset : offset + lengths[position]]
            try:
                value = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                value = _with_care(line)
            if not isinstance(value, dict):
                yield {}
                continue
            entry = cast("JsonObject", value)
            if entry.get("type") == "message" and not isinstance(entry.get("message"), dict):
                raise SourceFailed(
                    "damaged",
                    f"{address}, line {index.lines[position]}",
                    "this `message` entry holds no message",
                    read_bytes=offset,
                    read_lines=index.lines[position] - 1,
                )
            yield entry


def _with_care(line: bytes) -> Any:
    """What the fast decoder does not take: deep nesting, lone surrogates, bytes that are no UTF-8."""
    try:
        return parse(decode_text(line))
    except ValueError:
        return None
