"""Brings a session of version 1 or 2 into version 3, in a new file; the old one is left as it is.

Refuses to guess: what changes is what Pi changes (tests/corpus/session/FORMAT.md §6), and nothing else. Lines are
written again one by one, so skipped lines and the old JSON style do not come along.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from checkpoint.jsontypes import JsonObject
from checkpoint.session.decoding import decode_text, parse
from checkpoint.session.encoding import encode
from checkpoint.session.header import CURRENT_VERSION
from checkpoint.session.ids import new_entry_id
from checkpoint.session.index import OnDamage, SessionIndex
from checkpoint.session.indexer import SessionIndexer
from checkpoint.session.javascript import is_number, truthy

_PIECE = 1 << 20

NewId: TypeAlias = Callable[[set[str]], str]


def index_file(path: Path, on_damage: OnDamage = "fail") -> SessionIndex:
    """The index of a session file. Raises SessionDamaged, OSError."""
    indexer = SessionIndexer(on_damage)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            indexer.feed(piece)
    return indexer.finish()


def migrate(source: Path, dest: Path, on_damage: OnDamage = "fail", *, new_id: NewId = new_entry_id) -> SessionIndex:
    """Write the session at `source` to `dest` as version 3; returns the index of `dest`, warnings of both
    included.

    Version 1: every entry gets a new id, its predecessor as parent, and a compaction's `firstKeptEntryIndex`
    becomes `firstKeptEntryId`. Below 3: the role `hookMessage` becomes `custom`. `new_id` gives an id that is
    not among those it is given. Raises SessionDamaged for the source, FileExistsError if `dest` exists, ValueError
    if there is nothing to migrate.
    """
    old = index_file(source, on_damage)
    if not old.needs_migration:
        raise ValueError("the session is of the present version; there is nothing to migrate")
    indexer = SessionIndexer(on_damage)
    with source.open("rb") as reader, dest.open("xb") as writer:
        for line in _migrated_lines(reader, old, new_id):
            writer.write(line)
            indexer.feed(line)
        writer.flush()
        os.fsync(writer.fileno())
    new = indexer.finish()
    new.warnings[:0] = [
        *old.warnings,
        f"the session was migrated from version {old.version:g} to {CURRENT_VERSION}",
    ]
    return new


def _migrated_lines(reader: BinaryIO, old: SessionIndex, new_id: NewId) -> Iterator[bytes]:
    """The new lines. Ids are known by their place among the parsed lines, the header being 0."""
    ids: list[str | None] = []
    known: set[str] = set()
    previous: str | None = None
    offset = 0
    for line in reader:
        offset += len(line)
        if offset > old.keep_bytes:
            return
        entry = _parsed(line)
        if entry is None:
            continue
        if entry == {}:
            ids.append(None)
            continue
        if entry.get("type") == "session":
            ids.append(None)
            entry["version"] = CURRENT_VERSION
        elif old.version < 2:
            previous, entry["id"], entry["parentId"] = (entry_id := new_id(known)), entry_id, previous
            known.add(entry_id)
            ids.append(entry_id)
            _name_first_kept(entry, ids)
        _rename_hook(entry)
        yield encode(entry) + b"\n"


def _parsed(line: bytes) -> JsonObject | None:
    """The object of a line; an empty one for another value that Pi counts, None for a line that it skips."""
    try:
        value = parse(decode_text(line))
    except ValueError:
        return None
    if isinstance(value, dict):
        return cast("JsonObject", value)
    return {} if truthy(value) else None


def _name_first_kept(entry: JsonObject, ids: list[str | None]) -> None:
    """A compaction's `firstKeptEntryIndex` as an id; none for a header, a later entry or no entry at all."""
    if entry.get("type") != "compaction" or not is_number(entry.get("firstKeptEntryIndex")):
        return
    index: float = entry.pop("firstKeptEntryIndex")
    if index in range(len(ids)) and (first_kept := ids[int(index)]) is not None:
        entry["firstKeptEntryId"] = first_kept


def _rename_hook(entry: JsonObject) -> None:
    if entry.get("type") == "message" and isinstance(entry.get("message"), dict):
        message: JsonObject = entry["message"]
        if message.get("role") == "hookMessage":
            message["role"] = "custom"
