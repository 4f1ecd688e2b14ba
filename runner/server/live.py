"""What happens in a session as it happens: stored events, and the lines that the running process says.

A reader has a cursor, `<event>~<run>~<offset>`: the last event it saw, and how far it has read which process's output.
So it can leave and come back without a gap. Refuses to hold what nobody has read: lines stay in their file.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from runner.server.database import Database
from runner.server.rows import Rows
from runner.server.settings import Folder

LIVE_POLL_S = 0.2
KEEP_ALIVE_S = 15.0
PIECE_BYTES = 1024 * 1024
MAX_LINE_BYTES = 16 * 1024 * 1024
_CURSOR = re.compile(r"([0-9]{1,15})~(?:([A-Za-z0-9][A-Za-z0-9_-]{0,63}\.[0-9]{1,9})~([0-9]{1,15}))?")


class Cursor(Struct, frozen=True):
    event: int
    run: str | None = None
    """`<pipeline>.<attempt>`"""
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.event}~" if self.run is None else f"{self.event}~{self.run}~{self.offset}"


def parse_cursor(text: str) -> Cursor | None:
    match = _CURSOR.fullmatch(text)
    if match is None:
        return None
    event, run, offset = match.groups()
    return Cursor(int(event), run, int(offset or 0))


class Changes:
    """Tells readers that something was stored. Belongs to the loop's thread."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.closing = False

    def close(self) -> None:
        """Readers end."""
        self.closing = True
        self.tell()

    def next(self) -> asyncio.Event:
        """Set at the next change. To be taken before one looks at what is stored."""
        return self._changed

    def tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def cursor_now(rows: Rows, session_id: str) -> Cursor:
    """After all that is stored, and at the start of what the running process says. What a process said whose record was
    judged is in its checkpoint.
    """
    run = next((f"{row['pipeline_id']}.{row['launched']}" for row in _at_work(rows, session_id)), None)
    return Cursor(rows.last_event(), run)


def _at_work(rows: Rows, session_id: str) -> Iterator[JsonObject]:
    for row in rows.pipelines_of(session_id):
        if row["standing"] == "launched" and row["judged"] is None:
            yield dict(row)


async def follow(
    database: Database, changes: Changes, folder: Folder, session_id: str, cursor: Cursor
) -> AsyncIterator[tuple[Cursor, str, str] | None]:
    """(cursor after it, kind, JSON text) for everything behind the cursor, then for what comes; None: keep alive."""
    quiet_s = 0.0
    while not changes.closing:
        changed, start = changes.next(), cursor
        async for cursor, line in _drain(folder, cursor):  # noqa: B020 - it goes on from where it is
            yield cursor, "agent", line
        found = await database.read(lambda rows, after=cursor.event: list(rows.events_after(session_id, after)))
        for number, kind, data in found:
            if kind == "pipeline":
                # What the process said comes before its end.
                async for cursor, line in _drain(folder, cursor):  # noqa: B020 - as above
                    yield cursor, "agent", line
            cursor = _after_event(cursor, number, kind, data)
            yield cursor, kind, data
        if cursor != start:
            quiet_s = 0.0
            continue
        wait_s = LIVE_POLL_S if cursor.run is not None else KEEP_ALIVE_S
        with suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), wait_s)
        quiet_s += wait_s
        if quiet_s >= KEEP_ALIVE_S:
            quiet_s = 0.0
            yield None


async def _drain(folder: Folder, cursor: Cursor) -> AsyncIterator[tuple[Cursor, str]]:
    while lines := await asyncio.to_thread(_new_lines, folder, cursor):
        for cursor, line in lines:
            yield cursor, line


def _after_event(cursor: Cursor, number: int, kind: str, data: str) -> Cursor:
    """Where the reader is after a stored event: it follows the process that was launched, until that has ended."""
    if kind != "pipeline":
        return Cursor(number, cursor.run, cursor.offset)
    said = msgspec.json.decode(data, type=JsonObject)
    run = f"{said['pipeline_id']}.{said['attempt']}"
    if said["standing"] == "launched":
        return Cursor(number, run, cursor.offset if run == cursor.run else 0)
    return Cursor(number) if run == cursor.run else Cursor(number, cursor.run, cursor.offset)


def live_messages(folder: Folder, cursor: Cursor) -> tuple[list[JsonObject], Cursor]:
    """The whole messages that the running process has said, and the cursor after the last of them: what it is saying
    right now is read from its beginning by whoever goes on there.
    """
    messages: list[JsonObject] = []
    place = cursor
    while found := _new_lines(folder, place):
        for place, line in found:
            event = msgspec.json.decode(line, type=JsonObject)["event"]
            if event.get("type") == "message_end":
                messages.append(event["message"])
                cursor = place
    return messages, cursor


def _new_lines(folder: Folder, cursor: Cursor) -> list[tuple[Cursor, str]]:
    """Whole lines behind the cursor, each as the JSON of an `agent` event."""
    if cursor.run is None:
        return []
    pipeline_id, _, attempt = cursor.run.rpartition(".")
    data = _read(folder.events(pipeline_id, int(attempt)), cursor.offset)
    lines: list[tuple[Cursor, str]] = []
    offset = cursor.offset
    for line in data.split(b"\n")[:-1]:
        offset += len(line) + 1
        text = _event(pipeline_id, line)
        if text is not None:
            lines.append((Cursor(cursor.event, cursor.run, offset), text))
    return lines


def _event(pipeline_id: str, line: bytes) -> str | None:
    """None for what is no event: the last line, and whatever a command of one's own may print."""
    try:
        event = msgspec.json.decode(line, type=JsonObject)
    except (msgspec.DecodeError, RecursionError):
        return None
    if event.get("type") in (None, "settled"):
        return None
    return msgspec.json.encode({"pipeline_id": pipeline_id, "event": event}).decode()


def _read(path: Path, offset: int) -> bytes:
    """At least one whole line, if there is one that is not longer than any line may be."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(PIECE_BYTES)
            while b"\n" not in data and len(data) < MAX_LINE_BYTES and (more := file.read(PIECE_BYTES)):
                data += more
            return data
    except OSError:
        return b""
