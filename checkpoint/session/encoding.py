"""Writes one line of a session log exactly as `JSON.stringify` does.

No blanks; non-ASCII raw; escapes only where JSON needs them, lower-case; lone surrogates as `\\udxxx`;
numbers as JavaScript prints them; NaN and infinities as null. Refuses (TypeError) values that are no JSON.
"""

import re
from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring
from typing import Any, Final, cast

import msgspec

from checkpoint.session.javascript import MAX_SAFE_INTEGER, number_to_text

_FAST: Final = msgspec.json.Encoder()
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONE: Final = re.compile("[\ud800-\udfff]")


def encode(value: Any) -> bytes:
    """The line of a JSON value, UTF-8, without a line end.

    A fast encoder writes what it is known to write the same way: no integral, tiny or huge floats, no
    integers beyond a double, no lone surrogates, no deep nesting. Everything else is written step by step.
    """
    if _is_plain(value):
        try:
            return _FAST.encode(value)
        except (UnicodeEncodeError, RecursionError):
            pass
    return _encode_with_care(value).encode()


def _is_plain(value: Any) -> bool:
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        kind = cast("type[object]", type(item))
        if kind is str or kind is bool or item is None:
            continue
        if kind is int:
            if not -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER:
                return False
        elif kind is float:
            if not 1e-4 < abs(item) < 1e15 or item.is_integer():
                return False
        elif kind is dict:
            for key, member in item.items():
                if type(key) is not str:
                    return False
                todo.append(member)
        elif kind is list:
            todo.extend(item)
        else:
            return False
    return True


def _encode_with_care(value: Any) -> str:
    """Without recursion: a stack of what each open list or object still has to give, with its closing
    bracket.
    """
    out: list[str] = []
    stack: list[tuple[Iterator[tuple[str, Any]], str]] = [(_elements([value]), "")]
    while stack:
        members, end = stack[-1]
        step = next(members, None)
        if step is None:
            out.append(end)
            stack.pop()
            continue
        label, item = step
        out.append(label)
        if isinstance(item, dict):
            out.append("{")
            stack.append((_members(cast("dict[Any, Any]", item)), "}"))
        elif isinstance(item, (list, tuple)):
            out.append("[")
            stack.append((_elements(cast("list[Any]", item)), "]"))
        else:
            out.append(_scalar(item))
    return "".join(out)


def _members(item: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    separator = ""
    for key, member in item.items():
        if not isinstance(key, str):
            raise TypeError(f"a key of type {type(key).__name__} is no JSON")
        yield f"{separator}{_string(key)}:", member
        separator = ","


def _elements(item: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    separator = ""
    for element in item:
        yield separator, element
        separator = ","


def _scalar(item: Any) -> str:
    if isinstance(item, str):
        return _string(item)
    if item is None:
        return "null"
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, (int, float)):
        return number_to_text(item)
    raise TypeError(f"{type(item).__name__} is no JSON")


def _string(text: str) -> str:
    """A JSON string. Two halves of one surrogate pair are one character, as they are in JavaScript."""
    quoted = encode_basestring(text)
    if not _LONE.search(quoted):
        return quoted
    joined = _PAIR.sub(lambda pair: pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le"), quoted)
    return _LONE.sub(lambda half: f"\\u{ord(half.group()):04x}", joined)
