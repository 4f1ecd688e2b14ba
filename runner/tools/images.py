"""Images by their bytes: what kind, how large, whether whole. Pure; the file worker imports it, too.

Strict on purpose: providers refuse a whole request for one image that they cannot read, and the image stays in the
session, so that no later request would get through. What is not surely fine does not get in.
"""

from typing import NamedTuple

MAX_IMAGE_BYTES = 3_750_000
"""Of the file: five million characters of base64, the least that a provider takes."""
MAX_IMAGE_SIDE = 8000
"""Pixels."""


class Image(NamedTuple):
    mime_type: str
    width: int
    height: int


def image_kind(head: bytes) -> str | None:
    """The media type of what starts with these bytes (12 are enough); None if it is no image that models take."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def inspect_image(data: bytes) -> Image | str:
    """The image in these bytes, or what is wrong with it (a clause: "is not whole")."""
    kind = image_kind(data)
    if kind is None:
        return "is no PNG, JPEG, GIF or WebP image"
    if len(data) > MAX_IMAGE_BYTES:
        return f"has {len(data)} bytes, {MAX_IMAGE_BYTES} are allowed for an image; scale it down"
    size = _SIZES[kind](data)
    if size is None or 0 in size:
        return "is damaged or not whole"
    width, height = size
    if max(size) > MAX_IMAGE_SIDE:
        return f"is {width} x {height} pixels, {MAX_IMAGE_SIDE} a side are allowed; scale it down"
    return Image(kind, width, height)


def _png_size(data: bytes) -> tuple[int, int] | None:
    if data[12:16] != b"IHDR" or b"IEND" not in data[-64:]:
        return None
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _gif_size(data: bytes) -> tuple[int, int] | None:
    if len(data) < 14 or b"\x3b" not in data[-16:]:
        return None
    return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Walks the segments to the frame header (SOF)."""
    if b"\xff\xd9" not in data[-1024:]:
        return None
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    if len(data) < 30 or int.from_bytes(data[4:8], "little") + 8 > len(data):
        return None
    chunk = data[12:16]
    if chunk == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if chunk == b"VP8 ":
        sides = int.from_bytes(data[26:28], "little"), int.from_bytes(data[28:30], "little")
        return sides[0] & 0x3FFF, sides[1] & 0x3FFF
    if chunk == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


_SIZES = {"image/png": _png_size, "image/jpeg": _jpeg_size, "image/gif": _gif_size, "image/webp": _webp_size}
