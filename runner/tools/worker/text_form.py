"""In what form a text stands in a file (encoding, byte order mark, line ends), so that an edit can keep it.

Pure. Every form is one that decodes to a text and encodes that text back to the very same bytes; what has none is
binary and refused.
"""

import codecs
import re
from typing import NamedTuple

from runner.tools.worker.places import Refusal

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""UTF-32's first: its little-endian mark starts with that of UTF-16."""
SNIFFED_BYTES = 8192


class TextForm(NamedTuple):
    encoding: str
    """A codec of Python: utf-8, utf-16-le, …; cp1252 or latin-1 for text that is not Unicode."""
    mark: bytes = b""

    @property
    def is_wide(self) -> bool:
        """More than one byte for every line end, so that lines cannot be found in bytes."""
        return self.encoding.startswith(("utf-16", "utf-32"))


def mark_of(head: bytes) -> TextForm | None:
    """The form that a byte order mark announces."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return TextForm(encoding, mark)
    return None


def is_binary(head: bytes) -> bool:
    """Whether a file that starts so is no text: a NUL byte without a mark that explains it."""
    form = mark_of(head)
    return (form is None or not form.is_wide) and b"\0" in head[:SNIFFED_BYTES]


def decode_lines(data: bytes) -> tuple[str, str]:
    """Some whole lines of a file without wide characters, and the encoding they are taken to be in."""
    for encoding in ("utf-8", "cp1252"):
        try:
            return data.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1"), "latin-1"


def decode_file(data: bytes, name: str) -> tuple[str, TextForm]:
    """A whole file as text, without its mark. Raises Refusal for binary and damaged ones."""
    form = mark_of(data)
    if form is None:
        if b"\0" in data:
            raise Refusal(f"{name} is a binary file: it cannot be edited as text")
        text, encoding = decode_lines(data)
        return text, TextForm(encoding)
    try:
        return data[len(form.mark) :].decode(form.encoding), form
    except UnicodeDecodeError:
        raise Refusal(
            f"{name} starts as {form.encoding} text, but is not valid as such: edit it with a command"
        ) from None


def encode_file(text: str, form: TextForm, name: str) -> bytes:
    """The bytes of a text in its form. Raises Refusal if the form lacks a character."""
    try:
        return form.mark + text.encode(form.encoding)
    except UnicodeEncodeError as error:
        lacking = text[error.start : error.start + 1]
        raise Refusal(
            f"{name} is not in Unicode (it is read as {form.encoding}), which has no {lacking!r}: "
            "write without it, or convert the file first"
        ) from None


def line_end_of(text: str) -> str:
    """The line end that most lines have (the earlier one if two are as frequent); `\\n` without any."""
    crlf = text.count("\r\n")
    counts = {"\n": text.count("\n") - crlf, "\r\n": crlf, "\r": text.count("\r") - crlf}
    if not any(counts.values()):
        return "\n"
    most = max(counts.values())
    candidates = [end for end, count in counts.items() if count == most]
    if len(candidates) == 1:
        return candidates[0]
    return next(end for end in re.findall(r"\r\n|\r|\n", text) if end in candidates)


def with_line_end(text: str, end: str) -> str:
    """A text whose line ends are all `end`."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    return unified if end == "\n" else unified.replace("\n", end)
