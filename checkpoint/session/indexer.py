"""Reads a session log once, piece by piece, and says where its entries are. Bodies are checked and forgotten.

Most lines go through a fast decoder that looks only at `type`, `id` and `parentId` and skips the rest. It
refuses every line that `JSON.parse` refuses, and some more (lone surrogates as escapes, very deep nesting,
odd fields); what it refuses is read again in full. So both ways give the same, which a property test checks.

Damage, with `fail` (the default) and with `skip` (Pi's lenient reading):

| in the file                                        | `fail`                       | `skip`             |
|----------------------------------------------------|------------------------------|--------------------|
| no bytes, no header first, a header without id     | error                        | error              |
| header version other than absent, 1, 2, 3          | error                        | compared as Pi does|
| a line that is no JSON, or `null`, `false`, 0, `""`| error                        | skipped, warning   |
| bytes that are no UTF-8                            | error                        | read as U+FFFD     |
| another value that is no object                    | error                        | entry without id   |
| an entry whose type, id or parent is no text       | error                        | kept               |
| two entries with one id                            | error                        | later one, warning |
| last line whole, without its line end              | kept and ended, warning      | the same           |
| last line torn                                     | cut, warning                 | kept and ended     |
| cycle on the active branch                         | error                        | error once followed|
| unknown parent on the active branch                | branch starts there, warning | the same           |
| a second header                                    | ignored, warning             | the same           |
| blank lines, CRLF, unknown types and fields; cycles and unknown parents elsewhere | nothing | nothing |
"""

from array import array
from typing import Any, Final, cast

import msgspec

from checkpoint.jsontypes import JsonObject
from checkpoint.session.decoding import decode_text, parse
from checkpoint.session.errors import DamageReason, SessionDamaged
from checkpoint.session.header import format_version, is_header, is_known_version
from checkpoint.session.index import EntryHead, OnDamage, SessionIndex
from checkpoint.session.javascript import UNDEFINED, identity, trim, truthy


class _PlainHead(EntryHead, gc=False):
    """An entry head as every known writer writes it: what the fast decoder takes."""

    type: str
    id: str
    parent_id: str | None = msgspec.field(default=None, name="parentId")


FAST_DECODER: Final = msgspec.json.Decoder(_PlainHead)
"""Gives the head of a line exactly as full parsing would, or raises DecodeError or RecursionError."""


class SessionIndexer:
    """Takes the bytes of a session file in order, in pieces of any size, and gives its index at the end."""

    def __init__(self, on_damage: OnDamage = "fail") -> None:
        self._strict = on_damage == "fail"
        self._on_damage: OnDamage = on_damage
        self._pending: list[bytes] = []
        self._offset = 0
        self._line = 0
        self._header: JsonObject | None = None
        self._has_ids = True
        self._heads: list[EntryHead] = []
        self._offsets = array("Q")
        self._lengths = array("Q")
        self._lines = array("Q")
        self._warnings: list[str] = []

    def feed(self, chunk: bytes) -> None:
        """The next bytes of the file. Raises SessionDamaged as soon as a whole line shows damage."""
        start = 0
        if self._pending:
            end = chunk.find(b"\n")
            if end < 0:
                self._pending.append(chunk)
                return
            self._pending.append(chunk[: end + 1])
            line = self._take_pending()
            self._feed_lines(line, 0, len(line))
            start = end + 1
        stop = chunk.rfind(b"\n", start) + 1
        if stop > start:
            self._feed_lines(chunk, start, stop)
            start = stop
        if start < len(chunk):
            self._pending.append(chunk[start:])

    def finish(self) -> SessionIndex:
        """The index of everything fed. Raises SessionDamaged for what only the end of the file can show."""
        tail = self._take_pending()
        size = self._offset + len(tail)
        keep, needs_newline = self._last_line(tail) if tail else (size, False)
        if self._header is None:
            if size == 0:
                raise SessionDamaged("empty", None, "the file is empty; restore another checkpoint")
            raise self._no_header(max(self._line, 1))
        index = SessionIndex(
            header=self._header,
            version=format_version(self._header),
            on_damage=self._on_damage,
            heads=self._heads,
            offsets=self._offsets,
            lengths=self._lengths,
            lines=self._lines,
            size=size,
            keep_bytes=keep,
            needs_newline=needs_newline,
            warnings=self._warnings,
        )
        self._check_tree(index)
        return index

    # Lines

    def _feed_lines(self, chunk: bytes, start: int, stop: int) -> None:
        """Whole lines only: a line end stands before `stop`. This is the loop that restoring spends its time
        in.
        """
        find, decode, view = chunk.find, FAST_DECODER.decode, memoryview(chunk)
        heads, offsets, lengths, lines = self._heads, self._offsets, self._lengths, self._lines
        base, number = self._offset - start, self._line
        trusted = not self._strict or chunk.isascii()
        while start < stop:
            end = find(b"\n", start)
            number += 1
            line: bytes | memoryview = view[start:end]
            fast = self._header is not None
            if fast and not trusted:
                # Line by line: one line beyond ASCII does not make the whole piece be decoded.
                line = chunk[start:end]
                fast = line.isascii() or _is_utf8(line)
            try:
                head = decode(line) if fast else None
            except (msgspec.DecodeError, RecursionError):
                head = None
            if head is None or head.type == "session":
                self._read_line(bytes(line), base + start, number)
            else:
                heads.append(head)
                offsets.append(base + start)
                lengths.append(end - start)
                lines.append(number)
            start = end + 1
        self._offset = base + stop
        self._line = number

    def _read_line(self, line: bytes, offset: int, number: int) -> None:
        """One line in full, for whatever the fast decoder does not take: the same results, and all the
        damage.
        """
        if self._strict and not _is_utf8(line):
            if self._header is None:
                raise self._no_header(number)
            raise self._damaged("encoding", number, "these bytes are no UTF-8")
        text = decode_text(line)
        if trim(text) == "":
            return
        try:
            value = parse(text)
        except ValueError as error:
            if self._header is None and self._strict:
                raise self._no_header(number) from error
            self._damage("syntax", number, "this is no JSON")
            return
        if not truthy(value):
            self._damage("not_an_object", number, "this is no JSON object")
        elif self._header is None:
            self._read_header(value, number)
        elif isinstance(value, dict) and cast("JsonObject", value).get("type") == "session":
            self._warnings.append(f"line {number} is a second header and is ignored")
        else:
            self._add(self._head(value, number), offset, len(line), number)

    def _read_header(self, value: Any, number: int) -> None:
        if not is_header(value):
            raise self._no_header(number)
        if self._strict and not is_known_version(value):
            message = f"version {value.get('version')!r} of the format is not known (1, 2 and 3 are)"
            raise self._damaged("version", number, message)
        self._header = value
        self._has_ids = not format_version(value) < 2

    def _head(self, value: Any, number: int) -> EntryHead:
        """The three fields. Entries of version 1 have no ids yet, so only the type is asked for."""
        if not isinstance(value, dict):
            self._damage("not_an_object", number, "this is no JSON object", "kept as an entry without id")
            return EntryHead(UNDEFINED, UNDEFINED)
        entry = cast("JsonObject", value)
        head = EntryHead(entry.get("type", UNDEFINED), entry.get("id", UNDEFINED), entry.get("parentId"))
        if self._strict:
            if not isinstance(head.type, str):
                raise self._damaged("entry", number, "this entry has no `type` that is a text")
            if self._has_ids and not isinstance(head.id, str):
                raise self._damaged("entry", number, "this entry has no `id` that is a text")
            if self._has_ids and not isinstance(head.parent_id, (str, type(None))):
                raise self._damaged("entry", number, "the `parentId` of this entry is neither a text nor null")
        return head

    def _add(self, head: EntryHead, offset: int, length: int, number: int) -> None:
        self._heads.append(head)
        self._offsets.append(offset)
        self._lengths.append(length)
        self._lines.append(number)

    def _last_line(self, tail: bytes) -> tuple[int, bool]:
        """A last line without its end: how many bytes to keep, and whether a line end must be added."""
        number = self._line + 1
        end = self._offset + len(tail)
        if self._strict and self._header is not None and _is_torn(tail):
            self._warnings.append(f"line {number}, the last one, is torn; its {len(tail)} bytes were cut")
            return self._offset, False
        self._read_line(tail, self._offset, number)
        self._warnings.append(f"line {number}, the last one, had no line end; one was added")
        return end, True

    # The whole

    def _check_tree(self, index: SessionIndex) -> None:
        if not self._has_ids:
            return
        if self._strict and "" in index.by_id:
            raise self._damaged("entry", index.lines[index.by_id[""]], "the `id` of this entry is empty")
        if len(index.by_id) < len(index.heads):
            self._check_doubles(index)
        branch = index.branch()
        if self._strict and branch.cycle is not None:
            raise cycle_error(index, branch.cycle)
        if branch.orphan:
            self._warnings.append(
                f"line {index.lines[branch.positions[0]]} names a parent that is not in the file; "
                "the conversation starts there"
            )

    def _check_doubles(self, index: SessionIndex) -> None:
        for position, head in enumerate(index.heads):
            last = index.by_id.get(identity(head.id), position)
            if last != position and head.id is not UNDEFINED:
                message = f"its id {head.id!r} is that of line {index.lines[position]} too"
                self._damage("duplicate_id", index.lines[last], message, "it takes that line's place")

    def _damage(self, reason: DamageReason, number: int, message: str, done: str = "skipped") -> None:
        if self._strict:
            raise self._damaged(reason, number, message)
        self._warnings.append(f"line {number}: {message}; {done}")

    def _damaged(self, reason: DamageReason, number: int, message: str) -> SessionDamaged:
        return SessionDamaged(
            reason, number, f"{message}; restore another checkpoint, or set session.on_damage to `skip`"
        )

    def _no_header(self, number: int) -> SessionDamaged:
        return SessionDamaged("not_a_session", number, "this is not the header of a session; check what is restored")

    # Bytes

    def _take_pending(self) -> bytes:
        line = b"".join(self._pending)
        self._pending.clear()
        return line


def cycle_error(index: SessionIndex, position: int) -> SessionDamaged:
    return SessionDamaged(
        "cycle",
        index.lines[position],
        "this entry is its own ancestor, so the conversation has no beginning; restore another checkpoint",
    )


def _is_torn(tail: bytes) -> bool:
    """Whether a last line without its end is no whole entry: no JSON object, or not even text."""
    if not _is_utf8(tail):
        return True
    text = decode_text(tail)
    if trim(text) == "":
        return False
    try:
        return not isinstance(parse(text), dict)
    except ValueError:
        return True


def _is_utf8(data: bytes | memoryview) -> bool:
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
