"""Segments: whole session lines, compressed as independent zstd frames, named by their stored bytes.

Independent frames keep memory small on both sides and let one damaged place be found. Refuses to expand
more than a segment declares: sizes are checked while decompressing, so a hostile object cannot fill the
disk.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, cast

from msgspec import Struct

from checkpoint.errors import RestoreFailed
from checkpoint.keys import segment_key
from checkpoint.manifest import Segment

FRAME_BYTES = 8 * 1024 * 1024
"""A frame holds at most this many bytes of lines, unless one line alone is longer."""
SEGMENT_BYTES = 16 * 1024 * 1024
PIECE_BYTES = 1024 * 1024
_LEVEL = 3
_MAX_WINDOW = 128 * 1024 * 1024  # what the zstd command accepts without --long
_SEARCH_BYTES = 64 * 1024

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Extent(Struct, frozen=True):
    """Bytes `start` to `end` of the session log, at line borders."""

    start: int
    end: int


class EncodedSegment(Struct, frozen=True):
    segment: Segment
    stored: bytes


def cut_extents(log: BinaryIO, start: int, end: int, limit: int) -> Iterator[Extent]:
    """Split a log between two line borders into extents of whole lines, each of at most `limit` bytes.

    A single line longer than `limit` is an extent of its own.
    """
    while start < end:
        border = end if end - start <= limit else _border(log, start, start + limit, end)
        yield Extent(start, border)
        start = border


def _border(log: BinaryIO, start: int, target: int, end: int) -> int:
    """The last line border in (start, target], else the first one after `target`."""
    high = target
    while high > start:
        low = max(start, high - _SEARCH_BYTES)
        found = _read_at(log, low, high).rfind(b"\n")
        if found >= 0:
            return low + found + 1
        high = low
    low = target
    while low < end:
        high = min(end, low + _SEARCH_BYTES)
        found = _read_at(log, low, high).find(b"\n")
        if found >= 0:
            return low + found + 1
        low = high
    return end


def _read_at(log: BinaryIO, start: int, end: int) -> bytes:
    log.seek(start)
    return log.read(end - start)


def read_frames(log: BinaryIO, extent: Extent) -> Iterator[bytes]:
    """The lines of an extent in frame-sized pieces."""
    for part in cut_extents(log, extent.start, extent.end, FRAME_BYTES):
        yield _read_at(log, part.start, part.end)


def encode_segment(session_id: str, frames: Iterable[bytes]) -> EncodedSegment:
    """Compress whole lines, one zstd frame per piece (content size and checksum included)."""
    import zstandard  # only where something is compressed: start-up does without

    compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=True)
    lines, size, digest, stored = 0, 0, hashlib.sha256(), bytearray()
    for frame in frames:
        lines += frame.count(b"\n")
        size += len(frame)
        digest.update(frame)
        stored += compressor.compress(frame)
    data = bytes(stored)
    segment = Segment(
        key=segment_key(session_id, hashlib.sha256(data).hexdigest()),
        bytes=size,
        digest=f"sha256:{digest.hexdigest()}",
        stored_bytes=len(data),
        lines=lines,
    )
    return EncodedSegment(segment, data)


def decode_segment(segment: Segment, stored: bytes | bytearray, address: str) -> Iterator[bytes]:
    """The lines of a segment in pieces of at most 1 MiB.

    Raises `RestoreFailed` if the stored bytes are not those its key names, or expand to another length than
    declared. (That the lines have `segment.digest` is checked by whoever reads them: it hashes them
    anyway.)
    """
    named = segment.key.endswith(f"/{hashlib.sha256(stored).hexdigest()}.zst")
    if len(stored) != segment.stored_bytes or not named:
        raise RestoreFailed(
            "damaged", f"{address} does not hold the bytes its name promises. Restore it from a backup."
        )
    size = 0
    for piece in _expand(_Pieces(iter((stored,))), address):
        size += len(piece)
        if size > segment.bytes:
            break
        yield piece
    if size != segment.bytes:
        raise RestoreFailed(
            "damaged",
            f"{address} expands to another length than its manifest declares. Restore it from a backup.",
        )


def decompress(pieces: Iterator[bytes], address: str) -> Iterator[bytes]:
    """Any zstd stream, in pieces of at most 1 MiB. Raises `RestoreFailed` if it is damaged or ends inside a
    frame.

    The reader below takes the end of input inside a frame for the end of the stream. So a known last frame
    is put behind the input: its content comes out at the end exactly if the frame before it was whole.
    """
    import zstandard

    ending = hashlib.sha256(b"end of stream").digest()
    last_frame = zstandard.ZstdCompressor(write_checksum=True).compress(ending)
    held = b""
    for piece in _expand(_Pieces(_chained(pieces, last_frame)), address):
        ready = held + piece
        held = ready[-len(ending) :]
        if len(ready) > len(held):
            yield ready[: -len(held)]
    if held != ending:
        raise RestoreFailed("damaged", f"{address} ends in the middle of its zstd data. Upload it again.")


def _chained(pieces: Iterator[bytes], last: bytes) -> Iterator[bytes]:
    """`last` in two parts: given whole to a reader that waits for the rest of a header, it would pass for a frame
    of its own, because the library looks for a whole frame at the start of each input.
    """
    yield from pieces
    yield last[:1]
    yield last[1:]


def _expand(source: "_Pieces", address: str) -> Iterator[bytes]:
    import zstandard

    reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(
        cast(BinaryIO, source), read_size=PIECE_BYTES, read_across_frames=True
    )
    try:
        while piece := reader.read(PIECE_BYTES):
            yield piece
    except zstandard.ZstdError as error:
        raise RestoreFailed("damaged", f"{address} is not whole zstd data ({error}). Upload it again.") from error


class _Pieces:
    """Pieces of bytes as something with `read`, as the decompressor wants it."""

    def __init__(self, pieces: Iterator[bytes | bytearray]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._rest = memoryview(piece)
        end = len(self._rest) if size < 0 else size
        part, self._rest = self._rest[:end], self._rest[end:]
        return bytes(part)


def total_bytes(segments: Sequence[Segment]) -> int:
    """How many bytes of lines some segments hold together."""
    return sum(segment.bytes for segment in segments)
