"""`read`: a text file by lines, or an image.

Files of any size are read in pieces; what is kept in memory is what is shown. Refuses binary files, and images that a
provider might refuse.
"""

import base64
import os
from typing import Any, BinaryIO, NamedTuple

from runner.tools.images import MAX_IMAGE_BYTES, image_kind, inspect_image
from runner.tools.truncation import MAX_BYTES, MAX_LINES, count_lines, keep_head, size_text
from runner.tools.worker.places import Places, Refusal, open_regular
from runner.tools.worker.text_form import SNIFFED_BYTES, TextForm, decode_file, decode_lines, is_binary, mark_of

MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Of a file that can only be read whole (UTF-16 and UTF-32)."""
MAX_COUNTED_BYTES = 128 * 1024 * 1024
"""How much of the rest of a file is looked at to tell how many lines it has."""
_PIECE = 1 << 20


class _Lines(NamedTuple):
    """Lines of a file from an offset on."""

    text: str
    lines: int
    total: int | None
    """Lines of the file; None if it is too large to be counted."""
    by: str | None
    """What ended them: `lines`, `bytes`, or None for the end of the file."""
    long_line: int = 0
    """The size of a first line that alone is longer than the limit."""
    encoding: str = "utf-8"


def read(places: Places, args: dict[str, Any]) -> dict[str, Any]:
    real = places.to_read(args["path"])
    name = places.shown(real)
    offset, limit = max(1, int(args.get("offset") or 1)), args.get("limit")
    most = MAX_LINES if limit is None else max(1, min(int(limit), MAX_LINES))
    with open_regular(real, name) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(SNIFFED_BYTES)
        if image_kind(head) is not None:
            return _image(file, head, size, name)
        if is_binary(head):
            raise Refusal(
                f"{name} is a binary file ({size_text(size)}): look at it with a command, such as file or xxd"
            )
        form = mark_of(head) or TextForm("utf-8")
        found = _wide(file, size, name, offset, most) if form.is_wide else _lines(file, len(form.mark), offset, most)
    return _result(found, name, offset)


def _image(file: BinaryIO, head: bytes, size: int, name: str) -> dict[str, Any]:
    data = head + file.read(MAX_IMAGE_BYTES + 1 - len(head))
    image = inspect_image(data)
    if isinstance(image, str):
        raise Refusal(f"{name} is an image that cannot be shown: it {image}")
    text = f"{name} ({image.mime_type}, {image.width} x {image.height} pixels, {size_text(size)})"
    return {
        "content": [
            {"type": "text", "text": text},
            {"type": "image", "data": base64.b64encode(data).decode("ascii"), "mimeType": image.mime_type},
        ]
    }


def _wide(file: BinaryIO, size: int, name: str, offset: int, most: int) -> _Lines:
    if size > MAX_WHOLE_BYTES:
        raise Refusal(
            f"{name} has {size_text(size)} in a wide encoding, more than can be read: convert it to UTF-8 first"
        )
    file.seek(0)
    text, form = decode_file(file.read(MAX_WHOLE_BYTES + 1), name)
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    chosen = "\n".join(lines[offset - 1 : offset - 1 + most])
    cut = keep_head(chosen, most, MAX_BYTES)
    if cut.inside_line:
        return _Lines("", 0, len(lines), "bytes", len(lines[offset - 1].encode()), form.encoding)
    more = offset - 1 + most < len(lines)
    return _Lines(cut.text, cut.lines, len(lines), cut.by or ("lines" if more else None), 0, form.encoding)


def _lines(file: BinaryIO, start: int, offset: int, most: int) -> _Lines:
    """Lines `offset` and on of a file whose line ends are the byte `\\n`."""
    skipped = _skip(file, start, offset - 1)
    if skipped < offset - 1:
        return _Lines("", 0, skipped, None)
    kept: list[bytes] = []
    room, by, long_line = MAX_BYTES, None, 0
    while True:
        line = file.readline(room + 2)
        if not line:
            break
        if len(kept) == most:
            by = "lines"
            file.seek(-len(line), os.SEEK_CUR)
            break
        if len(line.rstrip(b"\r\n")) > room or (not line.endswith(b"\n") and len(line) == room + 2):
            by = "bytes"
            file.seek(-len(line), os.SEEK_CUR)
            if not kept:
                long_line = _line_size(file)
            break
        kept.append(line)
        room -= len(line)
    text, encoding = decode_lines(b"".join(kept))
    text = text.replace("\r\n", "\n").removesuffix("\n")
    rest = _count(file) if by is not None else 0
    total = None if rest is None else skipped + len(kept) + rest + (1 if long_line else 0)
    return _Lines(text, len(kept), total, by, long_line, encoding)


def _skip(file: BinaryIO, start: int, lines: int) -> int:
    """Move behind so many lines; returns how many there were."""
    file.seek(start)
    left = lines
    while left:
        piece = file.read(_PIECE)
        if not piece:
            return lines - left + (1 if file.tell() > start and not _ends_line(file) else 0)
        ends = piece.count(b"\n")
        if ends < left:
            left -= ends
            continue
        at = -1
        for _ in range(left):
            at = piece.index(b"\n", at + 1)
        file.seek(at + 1 - len(piece), os.SEEK_CUR)
        left = 0
    return lines


def _ends_line(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _line_size(file: BinaryIO) -> int:
    size = 0
    while piece := file.readline(_PIECE):
        size += len(piece)
        if piece.endswith(b"\n") or size > MAX_COUNTED_BYTES:
            break
    return size


def _count(file: BinaryIO) -> int | None:
    """Lines from here to the end; None if there is too much to look at."""
    ends, seen, last = 0, 0, b"\n"
    while piece := file.read(_PIECE):
        ends += piece.count(b"\n")
        seen += len(piece)
        last = piece[-1:]
        if seen > MAX_COUNTED_BYTES:
            return None
    return ends + (last != b"\n")


def _result(found: _Lines, name: str, offset: int) -> dict[str, Any]:
    total = "many" if found.total is None else str(found.total)
    if found.long_line:
        text = (
            f"[Line {offset} of {name} has {size_text(found.long_line)}, {size_text(MAX_BYTES)} can be shown at once: "
            f"use a command for parts of it, such as: sed -n '{offset}p' FILE | cut -c 1-2000]"
        )
        return {"content": [{"type": "text", "text": text}], "details": {"truncated": "bytes"}}
    if not found.lines:
        if offset > 1:
            raise Refusal(f"{name} has {total} lines: there is no line {offset}")
        return {"content": [{"type": "text", "text": "[The file is empty]"}]}
    notes: list[str] = []
    if found.by is not None:
        last = offset + found.lines - 1
        why = f", cut at {size_text(MAX_BYTES)}" if found.by == "bytes" else ""
        notes.append(f"[Lines {offset}-{last} of {total}{why}. Go on with offset={last + 1}]")
    if found.encoding in ("cp1252", "latin-1"):
        notes.append(f"[Not UTF-8: read as {found.encoding}]")
    text = "\n\n".join([found.text, *notes])
    details = {} if found.by is None else {"truncated": found.by, "lines": count_lines(found.text)}
    return {"content": [{"type": "text", "text": text}], "details": details}
