"""What may come in over the control channel, and what goes back: JSON lines, pure.

Refuses what it does not know (a type, a field), because a command that is misspelt and ignored is one that its sender
believes in. Every refusal has a reason for programs and a sentence for people. No line is held that is longer than
`MAX_LINE_BYTES`.
"""

import json
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from checkpoint.text import clean_text

MAX_LINE_BYTES = 64 * 1024
MAX_ID_CHARS = 200

CommandType: TypeAlias = Literal["steer", "follow_up", "pause", "cancel"]
RefusalReason: TypeAlias = Literal[
    "line_too_long",
    "not_json",
    "unknown_type",
    "unknown_field",
    "bad_text",
    "bad_id",
    "stopping",
    "ending",
    "queue_full",
    "not_allowed",
]
CommandId: TypeAlias = str | int | None


class Command(Struct, frozen=True):
    type: CommandType
    text: str = ""
    """Of `steer` and `follow_up`; clean, and more than blanks."""
    id: CommandId = None
    """Whatever the sender wants to find in the answer."""


class Refusal(Struct, frozen=True):
    reason: RefusalReason
    message: str
    id: CommandId = None


class TooLong(Struct, frozen=True):
    """A line of more than `MAX_LINE_BYTES`; it was not kept."""


class LineSplitter:
    """Cuts what comes in pieces into lines; blank ones are left out."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._skipping = False

    def feed(self, piece: bytes) -> Iterator[bytes | TooLong]:
        """The lines that `piece` completes. A line that grows too long is said once, as soon as it does."""
        *ended, rest = piece.split(b"\n")
        for part in ended:
            yield from self._grown(part)
            if not self._skipping:
                yield from self._line()
            self._skipping = False
            self._rest.clear()
        yield from self._grown(rest)

    def finish(self) -> Iterator[bytes]:
        """What came last, if its sender ended without a line end."""
        if not self._skipping:
            yield from self._line()
        self._rest.clear()

    def _grown(self, part: bytes) -> Iterator[TooLong]:
        if self._skipping:
            return
        self._rest += part
        if len(self._rest) > MAX_LINE_BYTES:
            self._skipping = True
            self._rest.clear()
            yield TooLong()

    def _line(self) -> Iterator[bytes]:
        line = bytes(self._rest).strip()
        if line:
            yield line


def parse_command(line: bytes | TooLong) -> Command | Refusal:
    """The command in a line, or why it is none."""
    if isinstance(line, TooLong):
        return Refusal("line_too_long", f"a line has at most {MAX_LINE_BYTES} bytes: put what is longer into a file")
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):  # not UTF-8, too: UnicodeDecodeError is a ValueError
        return Refusal("not_json", "a line is one JSON object in UTF-8")
    if not isinstance(found, dict):
        return Refusal("not_json", "a line is one JSON object in UTF-8")
    return _command(cast("JsonObject", found))


def _command(fields: JsonObject) -> Command | Refusal:
    given = fields.get("id")
    if not (given is None or type(given) is int or (isinstance(given, str) and len(given) <= MAX_ID_CHARS)):
        return Refusal("bad_id", f"`id` is a number or a text of at most {MAX_ID_CHARS} characters")
    name = clean_text(given) if isinstance(given, str) else given
    kind = fields.get("type")
    if kind not in ("steer", "follow_up", "pause", "cancel"):
        return Refusal("unknown_type", "`type` is one of steer, follow_up, pause, cancel", name)
    allowed = {"type", "id", "text"} if kind in ("steer", "follow_up") else {"type", "id"}
    unknown = sorted(fields.keys() - allowed)
    if unknown:
        return Refusal("unknown_field", f"{kind} has no field {clean_text(unknown[0])[:80]!r}", name)
    if "text" not in allowed:
        return Command(kind, id=name)
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        return Refusal("bad_text", f"{kind} needs a `text` that is not blank", name)
    return Command(kind, clean_text(text), name)


def answer(pipeline_id: str, result: Command | Refusal) -> JsonObject:
    """The line that answers: `ok`, or an `error` with reason and message."""
    said: JsonObject = {"type": "control", "pipeline_id": pipeline_id}
    if result.id is not None:
        said["id"] = result.id
    if isinstance(result, Command):
        return {**said, "ok": True, "command": result.type}
    return {**said, "ok": False, "error": {"reason": result.reason, "message": result.message}}
