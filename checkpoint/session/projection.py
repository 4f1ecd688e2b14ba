"""From the entries of a branch to the messages of a conversation: Pi 1.6's rules, as data
(tests/corpus/session/FORMAT.md §4).

Pure. Refuses to decode what it does not need: it asks for single entries by their position.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from checkpoint.session.index import EntryHead
from checkpoint.session.javascript import UNDEFINED, date_ms, identity, truthy

ReadEntry = Callable[[int], JsonObject]
"""The decoded entry at a position; an empty object for a line that holds another value."""

_BLOCKS: Final = frozenset({"user", "assistant", "toolResult"})
_EDITABLE: Final = frozenset({"user", "assistant", "toolResult", "custom"})


class Projection(Struct, frozen=True):
    """`positions`: the entries of the context, in its order. `messages`: each with the position it comes
    from.
    """

    positions: list[int]
    messages: list[tuple[int, Any]]
    model: JsonObject | None
    thinking_level: Any


class BadMessage(Exception):
    """The `message` entry at `position` holds no message at all; Pi fails on it too."""

    def __init__(self, position: int) -> None:
        super().__init__(f"entry {position} holds no message")
        self.position = position


def project(path: Sequence[int], heads: Sequence[EntryHead], read: ReadEntry) -> Projection:
    """The context of a branch, given as positions from its root to its leaf.

    Read are only the last compaction, what it keeps, all after it, and as much before as it takes to find the
    model and the thinking level. Messages are passed as stored, or as a copy where a rule changes them.
    Raises BadMessage.
    """
    decoded: dict[int, JsonObject] = {}

    def entry(position: int) -> JsonObject:
        if position not in decoded:
            decoded[position] = read(position)
        return decoded[position]

    def once(position: int) -> JsonObject:
        return decoded[position] if position in decoded else read(position)

    window = _window(path, heads, entry)
    edits = {
        identity(entry(position).get("targetId", UNDEFINED)): entry(position).get("replacement")
        for position in window
        if heads[position].type == "context_edit"
    }
    messages: list[tuple[int, Any]] = []
    for index, position in enumerate(window):
        key = identity(heads[position].id)
        if key in edits and edits[key] is None:
            continue
        for message in _messages(entry(position), position, is_first=index == 0):
            messages.append((position, _edited(message, edits[key]) if key in edits else message))
    return Projection(window, messages, _model(path, heads, once), _thinking_level(path, heads, once))


def _window(path: Sequence[int], heads: Sequence[EntryHead], entry: ReadEntry) -> list[int]:
    """The last compaction, what it keeps of the entries before it, and all after it; without one, the whole
    path.
    """
    at = next((i for i in reversed(range(len(path))) if heads[path[i]].type == "compaction"), None)
    if at is None:
        return list(path)
    first_kept = identity(entry(path[at]).get("firstKeptEntryId", UNDEFINED))
    start = next((i for i in range(at) if identity(heads[path[i]].id) == first_kept), at)
    kept = [
        position
        for position in path[start:at]
        if not (heads[position].type == "message" and _role(entry(position), position) == "system")
    ]
    return [path[at], *kept, *path[at + 1 :]]


def _messages(entry: JsonObject, position: int, *, is_first: bool) -> Iterator[Any]:
    """What one entry of the context gives. A compaction counts only in the first place: an older one gives
    nothing.
    """
    match entry.get("type"):
        case "message":
            yield _stored_message(entry, position)
        case "custom_message":
            content = entry.get("content")
            yield {
                "role": "custom",
                **_present(entry, "customType"),
                "content": [] if content is None else content,
                **_present(entry, "display", "details"),
                "timestamp": _entry_ms(entry),
            }
        case "branch_summary" if truthy(entry.get("summary")):
            yield {
                "role": "branchSummary",
                **_present(entry, "summary", "fromId"),
                "timestamp": _entry_ms(entry),
            }
        case "compaction" if is_first:
            if truthy(entry.get("systemMessage")):
                yield entry["systemMessage"]
            yield {
                "role": "compactionSummary",
                **_present(entry, "summary", "tokensBefore"),
                "timestamp": _entry_ms(entry),
            }
        case _:
            return


def _stored_message(entry: JsonObject, position: int) -> Any:
    role = _role(entry, position)
    message = entry["message"]
    if not isinstance(role, str) or message.get("content") is not None:
        return message
    if role in _BLOCKS:
        return {**message, "content": []}
    return {**message, "content": ""} if role == "system" else message


def _role(entry: JsonObject, position: int) -> Any:
    message = entry.get("message")
    if message is None:
        raise BadMessage(position)
    return cast("JsonObject", message).get("role") if isinstance(message, dict) else None


def _edited(message: Any, replacement: Any) -> Any:
    """The message with the content of a `context_edit`; text for an assistant or a tool becomes one block."""
    if not isinstance(message, dict) or not isinstance(replacement, dict):
        return cast("Any", message)
    fields = cast("JsonObject", message)
    role: Any = fields.get("role")
    if not isinstance(role, str) or role not in _EDITABLE:
        return fields
    content: Any = cast("JsonObject", replacement).get("content")
    if isinstance(content, str) and role in ("assistant", "toolResult"):
        content = [{"type": "text", "text": content}]
    return {**fields, "content": content}


def _model(path: Sequence[int], heads: Sequence[EntryHead], read: ReadEntry) -> JsonObject | None:
    """Of the whole path: the last model chosen, or that answered."""
    for position in reversed(path):
        kind = heads[position].type
        if kind == "model_change":
            return _present(read(position), "provider", "modelId")
        if kind == "message":
            entry = read(position)
            if _role(entry, position) == "assistant":
                message: JsonObject = entry["message"]
                named = _present(message, "provider")
                return {**named, "modelId": message["model"]} if "model" in message else named
    return None


def _thinking_level(path: Sequence[int], heads: Sequence[EntryHead], read: ReadEntry) -> Any:
    """Of the whole path: the last level set, `off` if none was."""
    for position in reversed(path):
        if heads[position].type == "thinking_level_change":
            return read(position).get("thinkingLevel")
    return "off"


def _present(entry: JsonObject, *names: str) -> JsonObject:
    return {name: entry[name] for name in names if name in entry}


def _entry_ms(entry: JsonObject) -> int | None:
    """The entry's own time as Unix ms; None where JavaScript has NaN, which JSON writes as null."""
    return date_ms(entry.get("timestamp", UNDEFINED))
