"""The arguments of a tool call: a preview while they stream, and a strict reading at their end.

A call whose arguments cannot be read is never run with what could be made out: a cut-off `rm -r /tmp/x`
must not become `rm -r /`. It keeps `arguments: {}` and an `argumentsError` that quotes what came.
"""

import json
import re
from typing import Any

from checkpoint.jsontypes import JsonObject
from checkpoint.session.javascript import number_to_text
from runner.models.json_text import join_surrogates, js_json
from runner.models.shapes import is_object

_LOG_WRITES_DIGITS = 1e21  # JavaScript turns to exponents here
_NOT_AN_OBJECT = "Tool arguments must be a JSON object"
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_SCALARS = ("true", "false", "null")
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None}
_CONTROL = {ord(c): repr(c)[1:-1] if c in "\n\r\t" else f"\\u{ord(c):04x}" for c in map(chr, range(0x20))}


def repair(text: str) -> str:
    """Escape raw control characters inside strings and double the backslashes that begin no escape."""
    pieces: list[str] = []
    in_string = False
    position = 0
    for mark in re.finditer(r'["\\\x00-\x1f]', text):
        start = mark.start()
        if start < position:
            continue
        pieces.append(text[position:start])
        char = text[start]
        position = start + 1
        if char == '"':
            in_string = not in_string
            pieces.append(char)
        elif not in_string:
            pieces.append(char)
        elif char == "\\":
            escape = re.match(r'["\\/bfnrt]|u[0-9a-fA-F]{4}', text[position:])
            pieces.append("\\" + escape.group() if escape else "\\\\")
            position += escape.end() if escape else 0
        else:
            pieces.append(_CONTROL[ord(char)])
    pieces.append(text[position:])
    return "".join(pieces)


def loads_event(text: str) -> Any:
    """The JSON of a streamed event, read fast. Raises `ValueError`.

    What the fast reader refuses (a lone surrogate, an infinite number, a raw control character) goes to
    `loads_repaired`.
    """
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return loads_repaired(text)


def loads_repaired(text: str) -> Any:
    """JSON, else JSON after `repair`. Raises `ValueError` about the text as it came."""
    try:
        return json.loads(text, parse_float=_number)
    except ValueError:
        try:
            return json.loads(repair(text), parse_float=_number)
        except ValueError:
            pass
        raise


def _number(text: str) -> float:
    """1.0 is 1, as the session log writes it: a restored call must give the next request the same bytes."""
    value = float(text)
    return int(number_to_text(value)) if value.is_integer() and abs(value) < _LOG_WRITES_DIGITS else value


def final_arguments(text: str) -> tuple[JsonObject, str | None]:
    """`(arguments, argumentsError or None)` of a finished call. Nothing at all means no arguments."""
    if not text.strip():
        return {}, None
    try:
        value = loads_repaired(text)
    except (ValueError, RecursionError) as error:
        return {}, f"{error}\n\nReceived arguments:\n{text}"
    if not is_object(value):
        return {}, f"{_NOT_AN_OBJECT}\n\nReceived arguments:\n{text}"
    return value, None


def given_arguments(value: Any) -> str:
    """The text of arguments that came as an object instead of a string."""
    return value if isinstance(value, str) else js_json(value)


def preview_arguments(text: str) -> JsonObject:
    """What can be made out of arguments that are still streaming; `{}` if nothing can. Never raises."""
    try:
        value = _complete(text)
    except (ValueError, RecursionError, IndexError):
        return {}
    return value if is_object(value) else {}


def _complete(text: str) -> Any:
    """Parse a prefix of JSON: open strings and brackets are closed, an unfinished member is left out."""
    try:
        return json.loads(text, parse_float=_number)
    except ValueError:
        pass
    out: list[str] = []
    closers: list[str] = []
    keep, depth_kept = 0, 0  # everything up to here is whole
    expect_key = False
    for match in _TOKEN.finditer(text):
        lexeme = match.group()
        if lexeme == "{" or lexeme == "[":
            out.append(lexeme)
            closers.append("}" if lexeme == "{" else "]")
            expect_key = lexeme == "{"
            keep, depth_kept = len(out), len(closers)
        elif lexeme in ("}", "]"):
            if not closers or closers.pop() != lexeme:
                raise ValueError("brackets do not match")
            out.append(lexeme)
            keep, depth_kept = len(out), len(closers)
            expect_key = False
        elif lexeme == ",":
            out.append(lexeme)
            expect_key = bool(closers) and closers[-1] == "}"
        elif lexeme == ":":
            out.append(lexeme)
            expect_key = False
        elif lexeme == '"':  # the string that is being written
            if not expect_key:
                out.append(_closed_string(text[match.start() :]))
                keep, depth_kept = len(out), len(closers)
            break
        elif lexeme.startswith('"'):
            out.append(lexeme)
            if not expect_key:
                keep, depth_kept = len(out), len(closers)
        else:
            scalar = _whole_scalar(lexeme, at_end=match.end() == len(text))
            if scalar is None:
                break
            out.append(scalar)
            keep, depth_kept = len(out), len(closers)
    return loads_repaired("".join(out[:keep]) + "".join(reversed(closers[:depth_kept])))


def _closed_string(piece: str) -> str:
    """An unfinished string, ended: half an escape at its end is left out."""
    start = piece.rfind("\\")
    if start >= 0:
        run = start - len(piece[: start + 1].rstrip("\\")) + 1
        rest = piece[start + 1 :]
        if run % 2 and (not rest or re.fullmatch(r"u[0-9a-fA-F]{0,3}", rest)):
            piece = piece[:start]
    return piece + '"'


def _whole_scalar(token: str, *, at_end: bool) -> str | None:
    if token in _LITERALS:
        return token
    if at_end:
        for word in _SCALARS:
            if word.startswith(token):
                return word
    number = re.match(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", token)
    if number is None or not number.group():
        return None
    if number.end() != len(token) and not at_end:
        raise ValueError("not a number")
    return number.group()


class ArgumentBuffer:
    """The text of one call's arguments as it grows, and a preview that is not parsed anew for every piece
    of it."""

    __slots__ = ("_length", "_next_preview", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._next_preview = 0

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return join_surrogates(self._pieces[0]) if self._pieces else ""

    def add(self, piece: str) -> bool:
        """True if the preview is due: at every piece of short arguments, later whenever they grew by half."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length < self._next_preview:
            return False
        self._next_preview = self._length + (self._length // 2 if self._length > 256 else 0)
        return True

    def replace(self, text: str) -> None:
        self._pieces = [text]
        self._length = len(text)
        self._next_preview = 0
