"""The file of a scripted model: what is in it, and what is wrong with it.

```json
{"responses": [
  {"content": [
     {"type": "thinking", "thinking": "Which one?"},
     {"type": "text", "text": "Let me ask.", "deltas": ["Let me ", "ask."], "delay_ms": 50},
     {"type": "toolCall", "name": "ask_user", "arguments": {"question": "Which one?"}}],
   "usage": {"input": 1200, "output": 40}},
  {"delay_ms": 2000, "stopReason": "error", "errorMessage": "overloaded"},
  {"throw": "the adapter crashed"}]}
```

Strict: an unknown field or a wrong value is refused with its place, since a typing error in a script would
otherwise show up as strange behaviour of the agent. Source of the language: tests/corpus/loop/FORMAT.md, section 2.4.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, cast

from msgspec import Struct

from checkpoint.jsontypes import JsonObject

StopReason = Literal["stop", "toolUse", "length", "error", "aborted"]
STOP_REASONS = ("stop", "toolUse", "length", "error", "aborted")
TOKEN_COUNTS = ("input", "output", "cacheRead", "cacheWrite")
LONGEST_DELAY_MS = 86_400_000
T = TypeVar("T")


class ScriptInvalid(ValueError):
    """A script that cannot be read. The text names the file and the place in it."""

    reason = "script_invalid"


class Words(Struct, frozen=True):
    """A text or thinking block."""

    kind: Literal["text", "thinking"]
    text: str
    deltas: tuple[str, ...]
    delay_ms: float


class Call(Struct, frozen=True):
    """A tool call. Without an `id` one is made when it is played."""

    id: str | None
    name: str
    arguments: JsonObject
    deltas: tuple[str, ...]
    delay_ms: float


Block: TypeAlias = Words | Call


class Response(Struct, frozen=True):
    """The answer to one request. `throw` makes the request itself raise, which no real provider does."""

    content: tuple[Block, ...]
    stop_reason: StopReason
    error_message: str | None
    usage: JsonObject
    throw: str | None
    delay_ms: float


class Script(Struct, frozen=True):
    responses: tuple[Response, ...]


def load_script(path: Path) -> Script:
    """Read a script file. Raises `ScriptInvalid`."""
    try:
        value = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except OSError as error:
        raise ScriptInvalid(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ScriptInvalid(f"{path}: is not JSON: {error}") from error
    try:
        return parse_script(value)
    except ScriptInvalid as error:
        raise ScriptInvalid(f"{path}: {error}") from error


def parse_script(value: Any) -> Script:
    """The script in a parsed JSON value. Raises `ScriptInvalid`, which names the place but no file."""
    members = _members(value, "", {"responses": _required(_list_of(_response))})
    return Script(tuple(members["responses"]))


# --- the parts ----------------------------------------------------------------------------------------------
# A reader takes a value and its place, and gives what it stands for or raises.

Reader: TypeAlias = Callable[[Any, str], T]


def _response(value: Any, place: str) -> Response:
    members = _members(
        value,
        place,
        {
            "content": _list_of(_block),
            "stopReason": _stop_reason,
            "errorMessage": _text,
            "usage": _usage,
            "throw": _text,
            "delay_ms": _milliseconds,
        },
    )
    if "throw" in members and members.keys() - {"throw", "delay_ms"}:
        raise _refusal(f"{place}.throw", "goes with delay_ms only, since there is no answer")
    content: tuple[Block, ...] = tuple(members.get("content", ()))
    calls = any(isinstance(block, Call) for block in content)
    return Response(
        content,
        members.get("stopReason", "toolUse" if calls else "stop"),
        members.get("errorMessage"),
        members.get("usage") or no_usage(),
        members.get("throw"),
        members.get("delay_ms", 0),
    )


def _block(value: Any, place: str) -> Block:
    kind = _object(value, place).get("type")
    if kind == "toolCall":
        return _call(value, place)
    if kind in ("text", "thinking"):
        return _words(value, place, kind)
    raise _refusal(f"{place}.type", "must be text, thinking or toolCall")


def _words(value: Any, place: str, kind: Literal["text", "thinking"]) -> Words:
    readers: dict[str, Reader[Any]] = {
        "type": _text,
        kind: _required(_text),
        "deltas": _list_of(_text),
        "delay_ms": _milliseconds,
    }
    members = _members(value, place, readers)
    text: str = members[kind]
    deltas = tuple(members.get("deltas", (text,)))
    if "".join(deltas) != text:
        raise _refusal(f"{place}.deltas", f"must add up to {kind}")
    return Words(kind, text, deltas, members.get("delay_ms", 0))


def _call(value: Any, place: str) -> Call:
    readers: dict[str, Reader[Any]] = {
        "type": _text,
        "id": _name,
        "name": _required(_name),
        "arguments": _object,
        "deltas": _list_of(_text),
        "delay_ms": _milliseconds,
    }
    members = _members(value, place, readers)
    arguments: JsonObject = members.get("arguments", {})
    whole = json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)
    return Call(
        members.get("id"),
        members["name"],
        arguments,
        tuple(members.get("deltas", (whole,))),
        members.get("delay_ms", 0),
    )


def _usage(value: Any, place: str) -> JsonObject:
    """Pi's usage object. Counters are 0 unless given, `totalTokens` is their sum, `cost` is in US dollars."""
    readers: dict[str, Reader[Any]] = {
        **dict.fromkeys((*TOKEN_COUNTS, "totalTokens"), _count),
        "cost": _amount,
    }
    members = _members(value, place, readers)
    counts = {name: members.get(name, 0) for name in TOKEN_COUNTS}
    return {
        **counts,
        "totalTokens": members.get("totalTokens", sum(counts.values())),
        "cost": {**dict.fromkeys(TOKEN_COUNTS, 0), "total": members.get("cost", 0)},
    }


def no_usage() -> JsonObject:
    return _usage({}, "")


# --- readers of plain values --------------------------------------------------------------------------------


class _Required:
    """Marks a reader whose member may not be missing."""

    def __init__(self, reader: Reader[Any]) -> None:
        self._reader = reader

    def __call__(self, value: Any, place: str) -> Any:
        return self._reader(value, place)


def _required(reader: Reader[Any]) -> Reader[Any]:
    return _Required(reader)


def _members(value: Any, place: str, readers: dict[str, Reader[Any]]) -> JsonObject:
    """The members of an object, each read; those not given are left out."""
    given = _object(value, place)
    for name in given:
        if name not in readers:
            raise _refusal(_member(place, name), f"is not known here; known are {', '.join(readers)}")
    for name, reader in readers.items():
        if isinstance(reader, _Required) and name not in given:
            raise _refusal(_member(place, name), "is missing")
    return {name: readers[name](member, _member(place, name)) for name, member in given.items()}


def _member(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _list_of(reader: Reader[T]) -> Reader[list[T]]:
    def read(value: Any, place: str) -> list[T]:
        if not isinstance(value, list):
            raise _refusal(place, "must be a list")
        items = cast("list[Any]", value)
        return [reader(item, f"{place}[{index}]") for index, item in enumerate(items)]

    return read


def _object(value: Any, place: str) -> JsonObject:
    if not isinstance(value, dict):
        raise _refusal(place or "the script", "must be an object")
    return cast("JsonObject", value)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise _refusal(place, "must be a string")
    return value


def _name(value: Any, place: str) -> str:
    if not isinstance(value, str) or not value:
        raise _refusal(place, "must be a string that is not empty")
    return value


def _stop_reason(value: Any, place: str) -> StopReason:
    if value not in STOP_REASONS:
        raise _refusal(place, f"must be one of {', '.join(STOP_REASONS)}")
    return value


def _count(value: Any, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _refusal(place, "must be a whole number, 0 or more")
    return value


def _amount(value: Any, place: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise _refusal(place, "must be a number, 0 or more")
    return value


def _milliseconds(value: Any, place: str) -> float:
    if _amount(value, place) > LONGEST_DELAY_MS:
        raise _refusal(place, f"must be at most {LONGEST_DELAY_MS} (a day)")
    return value


def _refusal(place: str, complaint: str) -> ScriptInvalid:
    return ScriptInvalid(f"{place} {complaint}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
