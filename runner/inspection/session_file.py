"""A session in a local file, ready to be walked entry by entry without holding it in memory.

Entries are decoded one at a time, wherever they lie, on active and abandoned branches alike. Refuses (SourceFailed)
what strict reading refuses, with the line and how much was read.
"""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoint.jsontypes import JsonObject
from checkpoint.session.context import entry_reader
from checkpoint.session.errors import SessionDamaged
from checkpoint.session.index import IndexedEntry, SessionIndex
from checkpoint.session.migration import index_file, migrate
from runner.inspection.errors import SourceFailed
from runner.inspection.reading import Damage, Findings

_DAMAGE = re.compile(r"(line \d+)(?:: |, the last one, (?=is torn))(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry, decoded. `value` is empty where the line holds no object."""

    at: IndexedEntry
    value: JsonObject


@dataclass(frozen=True, slots=True)
class SessionFile:
    """`stored`: the bytes as they were stored. `path`: the same in version 3, which is what `index` describes.

    The two differ only for a session of version 1 or 2. Entries of version 1 have no ids of their own; here they are
    numbered, so that the same file always gives the same ids.
    """

    stored: Path
    path: Path
    index: SessionIndex
    old_version: float | None
    """The version of `stored`, if it was migrated."""

    @contextmanager
    def reader(self) -> Generator[Callable[[int], JsonObject]]:
        """Reads single entries by their position. Raises SessionDamaged if the file changed."""
        with self.path.open("rb") as file:
            yield entry_reader(file.fileno(), self.index)

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """All entries in file order from a position on, decoded one by one."""
        with self.reader() as read:
            for position in range(start, len(self.index)):
                yield Entry(self.index.entry(position), read(position))

    def line(self, position: int) -> bytes:
        """The bytes of one entry's line, without the line end."""
        at = self.index.entry(position)
        with self.path.open("rb") as file:
            file.seek(at.offset)
            return file.read(at.length)


def open_session_file(stored: Path, address: str, findings: Findings) -> SessionFile | None:
    """Index the session at `stored`; one of version 1 or 2 is migrated beside it.

    None if a damage that was noted before has left no session. Raises SourceFailed.
    """
    try:
        index, old_version, path = index_file(stored, findings.on_damage), None, stored
        if index.needs_migration:
            old_version, path = index.version, stored.with_suffix(".v3.jsonl")
            index = migrate(stored, path, findings.on_damage, new_id=_numbered())
    except SessionDamaged as error:
        if findings.damage:
            return None
        raise damage_error(error, stored, address) from error
    _sort(index.warnings, address, findings)
    if not findings.strict:
        _add_unsaid(stored, address, findings)
    return SessionFile(stored, path, index, old_version)


def _add_unsaid(stored: Path, address: str, findings: Findings) -> None:
    """Lenient reading takes some things without a word; the first that strict reading stops at is listed too."""
    try:
        index_file(stored)
    except SessionDamaged as error:
        failure = damage_error(error, stored, address)
        if all(failure.place != damage.place for damage in findings.damage):
            findings.damage.append(Damage(failure.place, f"{_what(error)}; read as Pi reads it"))


def _numbered() -> Callable[[set[str]], str]:
    def next_id(known: set[str]) -> str:
        return f"{len(known) + 1:08x}"

    return next_id


def _sort(warnings: list[str], address: str, findings: Findings) -> None:
    """What the reading noted, told apart: damage that was skipped, and what is only worth knowing."""
    for warning in warnings:
        match = _DAMAGE.fullmatch(warning)
        if match is None:
            findings.warnings.append(warning)
        else:
            findings.damage.append(Damage(f"{address}, {match[1]}", match[2]))


def damage_error(error: SessionDamaged, stored: Path, address: str) -> SourceFailed:
    """The error of a damaged line: where it is, and what came before it."""
    place = address if error.line is None else f"{address}, line {error.line}"
    lines, size = _before(stored, error.line)
    reason = "not_a_source" if error.reason in ("not_a_session", "empty") else "damaged"
    skip = (
        ""
        if error.reason in ("not_a_session", "empty", "cycle")
        else " (with `--on-damage skip`, `runner inspect` shows the rest)"
    )
    return SourceFailed(reason, place, _what(error) + skip, read_bytes=size, read_lines=lines)


def _before(stored: Path, line: int | None) -> tuple[int, int]:
    """(lines, bytes) before a line; of the whole file, if no line is to blame."""
    lines, size = 0, 0
    with stored.open("rb") as file:
        for text in file:
            if line is not None and lines + 1 >= line:
                break
            lines += 1
            size += len(text)
    return lines, size


def _what(error: SessionDamaged) -> str:
    """What is wrong, without what a launch would have to do about it."""
    text: Any = str(error).partition(": ")[2]
    return text.partition("; restore ")[0].partition("; check what")[0]
