"""Reads one line of a session log exactly as `JSON.parse` does, whatever its depth.

Refuses what `JSON.parse` refuses (NaN, trailing commas, raw control characters, a byte order mark). Numbers
are doubles: integers beyond 2^53 lose digits and 1e400 is infinite, as in Pi. The last of two equal keys
wins.
"""

import json
import re
from typing import Any, Final

from checkpoint.session.javascript import number_from_text


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_int=number_from_text, parse_constant=_refuse_constant)
_BLANKS: Final = re.compile(r"[ \t\n\r]*")


def decode_text(line: bytes) -> str:
    """The line as text; every byte sequence that is no UTF-8 becomes U+FFFD, as in Pi. A mark (BOM) stays."""
    return line.decode("utf-8", "replace")


def parse(text: str) -> Any:
    """The value of a JSON text. Raises ValueError for anything `JSON.parse` refuses; never RecursionError."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        return _parse_deep(text)


def _parse_deep(text: str) -> Any:
    """As `parse`, with a stack of its own instead of the interpreter's: for lines nested a thousand deep."""
    stack: list[_Open] = []
    position = _skip(text, 0)
    while True:
        opened = _opening(text, position)
        if opened is not None:
            container, position = opened
            stack.append(container)
            continue
        value, position = _leaf(text, position)
        while True:  # the value goes into its container, and so does every container that ends here
            position = _skip(text, position)
            if not stack:
                if position != len(text):
                    raise ValueError(f"trailing characters at {position}")
                return value
            container = stack[-1]
            container.take(value)
            character = text[position : position + 1]
            position = _skip(text, position + 1)
            if character == ",":
                if not container.is_list:
                    container.key, position = _key(text, position)
                break
            if character != container.end:
                raise ValueError(f"expected ',' or '{container.end}' before {position}")
            value = stack.pop().value


class _Open:
    """A list or an object whose end has not been read yet; `key` is the one that waits for its value."""

    __slots__ = ("end", "is_list", "key", "value")

    def __init__(self, *, is_list: bool, key: str = "") -> None:
        self.is_list = is_list
        self.end = "]" if is_list else "}"
        self.key = key
        self.value: Any = [] if is_list else {}

    def take(self, value: Any) -> None:
        if self.is_list:
            self.value.append(value)
        else:
            self.value[self.key] = value


def _opening(text: str, position: int) -> tuple[_Open, int] | None:
    """A list or object that is not empty, and the place of its first value; None if none begins here."""
    if text.startswith("[", position):
        inner = _skip(text, position + 1)
        return None if text.startswith("]", inner) else (_Open(is_list=True), inner)
    if text.startswith("{", position):
        inner = _skip(text, position + 1)
        if text.startswith("}", inner):
            return None
        key, inner = _key(text, inner)
        return _Open(is_list=False, key=key), inner
    return None


def _skip(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return position if match is None else match.end()


def _key(text: str, position: int) -> tuple[str, int]:
    """A key and the place where its value begins."""
    if text[position : position + 1] != '"':
        raise ValueError(f"expected a key at {position}")
    key, position = _DECODER.raw_decode(text, position)
    position = _skip(text, position)
    if text[position : position + 1] != ":":
        raise ValueError(f"expected ':' at {position}")
    return key, _skip(text, position + 1)


def _leaf(text: str, position: int) -> tuple[Any, int]:
    """A string, number, word or empty container, and the place behind it."""
    if text.startswith("{", position):
        return {}, _skip(text, position + 1) + 1
    if text.startswith("[", position):
        return [], _skip(text, position + 1) + 1
    return _DECODER.raw_decode(text, position)
