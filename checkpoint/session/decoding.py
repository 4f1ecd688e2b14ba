"""Reads one line of a session log exactly as `JSON.parse` does, whatever its depth.

Refuses what `JSON.parse` refuses (NaN, trailing commas, raw control characters, a byte order mark). Numbers
are doubles: integers beyond 2^53 lose digits and 1e400 is infinite, as in Pi. The last of two equal keys
wins.
"""

import json
import re
from json.decoder import scanstring
from typing import Any, Final

from checkpoint.session.javascript import number_from_text


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_int=number_from_text, parse_constant=_refuse_constant)
_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, tuple[str, Any]]] = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}


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
    """As `parse`, with a stack of its own instead of the interpreter's: for lines nested a thousand deep and
    more.
    """
    stack: list[tuple[list[Any] | dict[str, Any], str]] = []
    position = _skip(text, 0)
    while True:
        character = text[position : position + 1]
        if character == "{" and text[(inner := _skip(text, position + 1)) : inner + 1] != "}":
            key, position = _key(text, inner)
            stack.append(({}, key))
            continue
        if character == "[" and text[(inner := _skip(text, position + 1)) : inner + 1] != "]":
            stack.append(([], ""))
            position = inner
            continue
        value, position = _leaf(text, position)
        while True:  # hand the finished value to its container, and close containers as long as they end here
            position = _skip(text, position)
            if not stack:
                if position != len(text):
                    raise ValueError(f"trailing characters at {position}")
                return value
            container, key = stack[-1]
            if isinstance(container, list):
                container.append(value)
                end = "]"
            else:
                container[key] = value
                end = "}"
            character = text[position : position + 1]
            position += 1
            if character == ",":
                position = _skip(text, position)
                if isinstance(container, dict):
                    key, position = _key(text, position)
                    stack[-1] = (container, key)
                break
            if character != end:
                raise ValueError(f"expected ',' or '{end}' at {position - 1}")
            value = stack.pop()[0]


def _skip(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return position if match is None else match.end()


def _key(text: str, position: int) -> tuple[str, int]:
    """A key and the place where its value begins."""
    if text[position : position + 1] != '"':
        raise ValueError(f"expected a key at {position}")
    key, position = scanstring(text, position + 1, True)
    position = _skip(text, position)
    if text[position : position + 1] != ":":
        raise ValueError(f"expected ':' at {position}")
    return key, _skip(text, position + 1)


def _leaf(text: str, position: int) -> tuple[Any, int]:
    """A string, number, word or empty container, and the place behind it."""
    character = text[position : position + 1]
    if character == '"':
        return scanstring(text, position + 1, True)
    if character == "{":
        return {}, _skip(text, position + 1) + 1
    if character == "[":
        return [], _skip(text, position + 1) + 1
    if character in _WORDS:
        word, value = _WORDS[character]
        if text.startswith(word, position):
            return value, position + len(word)
    match = _NUMBER.match(text, position)
    if match is None:
        raise ValueError(f"expected a value at {position}")
    integer, fraction, exponent = match.groups()
    if fraction is None and exponent is None:
        return number_from_text(integer), match.end()
    return float(match.group()), match.end()
