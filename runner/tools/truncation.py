"""Cutting text to what a model is shown: whole lines, at most so many, at most so many bytes.

Pure, and of the standard library's cheapest part only: the file worker imports it, too. A cut falls between lines;
only a single line that is itself too long is cut inside, and never inside a character.
"""

from typing import Literal, NamedTuple

MAX_LINES = 2000
MAX_BYTES = 50 * 1024
"""Of UTF-8. Both numbers are Pi's."""


class Cut(NamedTuple):
    """What is left of a text. `by` names the limit that was met first, None if the text is whole."""

    text: str
    lines: int
    """How many lines are left."""
    total_lines: int
    total_bytes: int
    by: Literal["lines", "bytes"] | None
    inside_line: bool = False
    """A line was cut inside, because it alone is longer than the limit."""


def count_lines(text: str) -> int:
    """Lines of a text; what follows the last line end counts if it is not empty."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def size_text(size: int) -> str:
    """A number of bytes for people: `512 B`, `50.0 KB`, `1.5 MB`."""
    if size < 1024:
        return f"{size} B"
    if size < 1024 * 1024:
        return f"{size / 1024:.1f} KB"
    if size < 1024**3:
        return f"{size / 1024**2:.1f} MB"
    return f"{size / 1024**3:.1f} GB"


def keep_head(text: str, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Cut:
    """The first lines. The text that is left never ends in the line end at which it was cut."""
    return _cut(text, max_lines, max_bytes, from_end=False)


def keep_tail(text: str, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Cut:
    """The last lines, with the line end of the very last one, if it has one."""
    return _cut(text, max_lines, max_bytes, from_end=True)


def cut_bytes(text: str, max_bytes: int, *, from_end: bool = False) -> str:
    """The first (or last) bytes of a text, without a character that would be cut."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= max_bytes:
        return text
    part = data[len(data) - max_bytes :] if from_end else data[:max_bytes]
    return part.decode("utf-8", "ignore")


def _cut(text: str, max_lines: int, max_bytes: int, *, from_end: bool) -> Cut:
    total_lines, total_bytes = count_lines(text), len(text.encode("utf-8", "surrogatepass"))
    if total_lines <= max_lines and total_bytes <= max_bytes:
        return Cut(text, total_lines, total_lines, total_bytes, None)
    ends_whole = text.endswith("\n")
    lines = (text[:-1] if ends_whole else text).split("\n")
    if from_end:
        lines.reverse()
    # The last line keeps its line end in a tail; in a head every line but the last one has one to count.
    room = max_bytes - (1 if from_end and ends_whole else 0)
    kept = 0
    by: Literal["lines", "bytes"] = "lines"
    for line in lines[:max_lines]:
        size = len(line.encode("utf-8", "surrogatepass")) + (1 if kept else 0)
        if size > room:
            by = "bytes"
            break
        room -= size
        kept += 1
    if kept == 0:
        part = cut_bytes(lines[0], max_bytes, from_end=from_end)
        return Cut(part, 1, total_lines, total_bytes, "bytes", inside_line=True)
    chosen = lines[:kept]
    if from_end:
        chosen.reverse()
    left = "\n".join(chosen) + ("\n" if from_end and ends_whole else "")
    return Cut(left, kept, total_lines, total_bytes, by)
