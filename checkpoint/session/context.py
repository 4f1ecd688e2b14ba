"""Reads the conversation that a session goes on with: the active branch after its last compaction, decoded.

Refuses to decode anything else of the file, and, when reading is strict, to hand on a message that no model
request could be built from.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.session.decoding import decode_text, parse
from checkpoint.session.errors import SessionDamaged
from checkpoint.session.index import SessionIndex
from checkpoint.session.indexer import cycle_error
from checkpoint.session.projection import BadMessage, Projection, project
from checkpoint.session.system_prompt import system_prompt_of

_WITH_CONTENT: Final = frozenset({"user", "assistant", "toolResult", "system"})


class SessionContext(Struct, frozen=True):
    """The conversation as the agent takes it up again.

    `messages` are in order and hold no system messages: what those add up to is `system_prompt` (None if
    there are none). `entry_ids` has the id of the entry behind each message (empty, after `skip`, if that has
    none). `model` is `{provider, modelId}` as last used.
    """

    messages: list[Message]
    entry_ids: list[str]
    system_prompt: str | None
    thinking_level: str
    model: JsonObject | None
    leaf_id: str | None


def load_context(path: Path, index: SessionIndex) -> SessionContext:
    """The context of the session file at `path`, whose index is `index`. Raises SessionDamaged, OSError."""
    projection = load_projection(path, index)
    messages: list[Message] = []
    entry_ids: list[str] = []
    system: list[Any] = []
    for position, message in projection.messages:
        if index.on_damage == "fail" and (fault := _fault(message)) is not None:
            advice = "restore another checkpoint, or set session.on_damage to `skip`"
            raise SessionDamaged("message", index.lines[position], f"{fault}; {advice}")
        if not isinstance(message, dict):
            continue
        if cast("Message", message).get("role") == "system":
            system.append(message)
            continue
        messages.append(cast("Message", message))
        entry_id = index.heads[position].id
        entry_ids.append(entry_id if isinstance(entry_id, str) else "")
    level = projection.thinking_level
    return SessionContext(
        messages=messages,
        entry_ids=entry_ids,
        system_prompt=system_prompt_of(system),
        thinking_level=level if isinstance(level, str) else "off",
        model=projection.model,
        leaf_id=index.leaf_id,
    )


def load_projection(path: Path, index: SessionIndex) -> Projection:
    """The context in Pi's own shape, system messages in their places. Raises SessionDamaged, OSError.

    Refuses (ValueError) an index of an old version: `migrate` the file first.
    """
    if index.needs_migration:
        raise ValueError("a session of version 1 or 2 must be migrated before it is used")
    branch = index.branch()
    if branch.cycle is not None:
        raise cycle_error(index, branch.cycle)
    with path.open("rb") as file:
        try:
            return project(branch.positions, index.heads, entry_reader(file.fileno(), index))
        except BadMessage as error:
            raise SessionDamaged(
                "message",
                index.lines[error.position],
                "this `message` entry holds no message; restore another checkpoint",
            ) from error


def entry_reader(descriptor: int, index: SessionIndex) -> Callable[[int], JsonObject]:
    """Reads and decodes single entries of an open session file. Raises SessionDamaged if the file has
    changed.
    """

    def read(position: int) -> JsonObject:
        line = os.pread(descriptor, index.lengths[position], index.offsets[position])
        try:
            value = parse(decode_text(line))
        except ValueError as error:
            raise SessionDamaged(
                "changed",
                index.lines[position],
                "this line changed while the session was read; restore it again",
            ) from error
        return cast("JsonObject", value) if isinstance(value, dict) else {}

    return read


def _fault(message: Any) -> str | None:
    """Why no request can hold this message; None if one can. Unknown roles are left out of requests, so they
    pass.
    """
    if not isinstance(message, dict):
        return "the message of this entry is no object"
    fields = cast("JsonObject", message)
    if fields.get("role") not in _WITH_CONTENT:
        return None
    if is_content(fields.get("content")):
        return None
    return "the content of this message is neither a text nor a list of blocks"


def is_content(content: Any) -> bool:
    """Whether a message can have this content: a text or a list of blocks."""
    if isinstance(content, str):
        return True
    return isinstance(content, list) and all(isinstance(block, dict) for block in cast("list[Any]", content))
