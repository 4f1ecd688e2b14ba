"""From stored bytes to a local file, checked piece by piece, with a choice of what damage means.

The pipeline restores through `checkpoint/restore.py`, which is one fast pass and stops at the first fault. Here a
person looks at what is there: with `skip`, all that can still be read is kept, and each fault is listed with its place.
Refuses to expand anything beyond what is declared, or a session beyond the limit of a restore.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from checkpoint.errors import RestoreFailed
from checkpoint.manifest import Segment
from checkpoint.overlap import fetch_ahead
from checkpoint.restore import MAX_SESSION_BYTES
from checkpoint.segments import ZSTD_MAGIC, decode_segment, total_bytes
from checkpoint.session.index import OnDamage
from checkpoint.store.port import ObjectStore
from runner.inspection.errors import SourceFailed
from runner.inspection.meter import Meter

_FETCHERS = 4
_FETCH_BUDGET = 12 * 1024 * 1024
_SEARCH_BYTES = 1 << 20
_MAX_WINDOW = 128 * 1024 * 1024  # as for a restore
_SIP_BYTES = 1024
"""Of packed bytes taken at once: hostile ones expand to some 32 MiB at most."""


@dataclass(frozen=True, slots=True)
class Damage:
    """`place`: an object's address, or `line N`. `what`: what is wrong there, and what was done about it."""

    place: str
    what: str


@dataclass(slots=True)
class Findings:
    """What was wrong so far. `found` raises unless reading is lenient."""

    on_damage: OnDamage
    damage: list[Damage] = field(default_factory=list[Damage])
    warnings: list[str] = field(default_factory=list[str])

    @property
    def strict(self) -> bool:
        return self.on_damage == "fail"

    def found(self, reason: str, place: str, what: str, *, read_bytes: int = 0, read_lines: int = 0) -> None:
        """Raises SourceFailed, or notes the damage where it is to be skipped."""
        if self.strict:
            raise SourceFailed(reason, place, what, read_bytes=read_bytes, read_lines=read_lines)
        self.damage.append(Damage(place, what))


class _NewFile:
    """The local copy being written: how much of it there is, and how many lines."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = 0
        self.lines = 0

    def write(self, piece: bytes) -> None:
        self.file.write(piece)
        self.size += len(piece)
        self.lines += piece.count(b"\n")

    def cut_to_line(self, start: int, lines: int) -> None:
        """Cut what follows the last line end, but nothing before `start`, where `lines` lines end."""
        self.file.flush()
        end, position = start, start
        while piece := os.pread(self.file.fileno(), _SEARCH_BYTES, position):
            lines += piece.count(b"\n")
            last = piece.rfind(b"\n")
            end = position + last + 1 if last >= 0 else end
            position += len(piece)
        self.file.truncate(end)
        self.file.seek(end)
        self.size, self.lines = end, lines


def read_segments(
    store: ObjectStore, address: str, segments: Sequence[Segment], dest: Path, findings: Findings, meter: Meter
) -> None:
    """Write the lines of the segments that `address` names to a new file. Raises SourceFailed, StoreError."""
    size = total_bytes(segments)
    if size > MAX_SESSION_BYTES:
        raise SourceFailed("too_large", address, f"it declares {size:,} bytes, more than {MAX_SESSION_BYTES:,}")
    meter.begin("reading the session", size)
    missing: set[str] = set()

    def load(segment: Segment) -> bytearray:
        data = bytearray()
        pieces = store.stream(segment.key)
        if pieces is None:
            missing.add(segment.key)
            return data
        for piece in pieces:
            data += piece
            if len(data) > segment.stored_bytes:
                break
        return data

    with dest.open("x+b") as file:
        out = _NewFile(file)
        for segment, stored in fetch_ahead(segments, load, workers=_FETCHERS, budget=_FETCH_BUDGET):
            address, start, lines = store.address(segment.key), out.size, out.lines
            if segment.key in missing:
                findings.found("missing", address, "it does not exist", read_bytes=start, read_lines=lines)
                continue
            fault = _decode(segment, stored, address, out, meter)
            if fault is None:
                continue
            if findings.strict:
                raise SourceFailed("damaged", address, fault, read_bytes=start, read_lines=lines)
            if out.size == start:
                _salvage(segment, stored, address, out)
            out.cut_to_line(start, lines)
            kept = f"{out.lines - lines:,} of its {segment.lines:,} lines were kept"
            findings.damage.append(Damage(address, f"{fault}; {kept}"))


def _decode(segment: Segment, stored: bytearray, address: str, out: _NewFile, meter: Meter) -> str | None:
    """Write one segment's lines; what is wrong with them, or None."""
    digest = hashlib.sha256()
    try:
        for piece in decode_segment(segment, stored, address):
            digest.update(piece)
            out.write(piece)
            meter.advance(len(piece))
    except RestoreFailed as error:
        return _without_advice(error.message, address)
    if f"sha256:{digest.hexdigest()}" != segment.digest:
        return f"it holds other lines than the manifest's {segment.digest}"
    return None


def _salvage(segment: Segment, stored: bytearray, address: str, out: _NewFile) -> None:
    """Write what a damaged segment still gives, and not more than it declares."""
    start = out.size
    try:
        for piece in _unpacked(iter((bytes(stored),)), address):
            out.write(piece[: segment.bytes - (out.size - start)])
    except RestoreFailed:
        pass  # the fault is known; what came before it was kept


def _unpacked(pieces: Iterator[bytes], address: str) -> Iterator[bytes]:
    """Any zstd stream, little by little, so that all that stands before a fault comes out first.

    Raises RestoreFailed at the fault, also where the stream ends inside a frame.
    """
    import zstandard

    frame = None
    for piece in pieces:
        for start in range(0, len(piece), _SIP_BYTES):
            rest = piece[start : start + _SIP_BYTES]
            while rest:
                frame = frame or zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).decompressobj()
                try:
                    unpacked = frame.decompress(rest)
                except zstandard.ZstdError as error:
                    raise RestoreFailed("damaged", f"{address} is not whole zstd data ({error})") from error
                if unpacked:
                    yield unpacked
                rest = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    if frame is not None:
        raise RestoreFailed("damaged", f"{address} ends in the middle of its zstd data")


def read_plain(
    address: str,
    pieces: Iterator[bytes],
    dest: Path,
    findings: Findings,
    meter: Meter,
    *,
    size: int | None = None,
    digest: str | None = None,
) -> None:
    """Write a plain session, or one packed with zstd, to a new file. `digest`: of the object or of the lines inside.

    Raises SourceFailed, StoreError.
    """
    meter.begin("reading the session", size)
    of_object, of_lines = hashlib.sha256(), hashlib.sha256()
    first = next(pieces, b"")
    source = _watched(chain((first,), pieces), of_object.update, meter)
    with dest.open("x+b") as file:
        out = _NewFile(file)
        try:
            packed = first.startswith(ZSTD_MAGIC)
            for piece in _unpacked(source, address) if packed else source:
                if out.size + len(piece) > MAX_SESSION_BYTES:
                    raise SourceFailed("too_large", address, f"it has more than {MAX_SESSION_BYTES:,} bytes")
                of_lines.update(piece)
                out.write(piece)
        except RestoreFailed as error:
            what = _without_advice(error.message, address)
            findings.found("damaged", address, what, read_bytes=out.size, read_lines=out.lines)
    wanted = None if digest is None else digest.removeprefix("sha256:")
    if wanted is not None and wanted not in (of_object.hexdigest(), of_lines.hexdigest()):
        found = f"it has the digest sha256:{of_object.hexdigest()} instead of {digest}"
        findings.found("wrong_digest", address, found, read_bytes=out.size, read_lines=out.lines)


def _watched(pieces: Iterator[bytes], look: Callable[[bytes], None], meter: Meter) -> Iterator[bytes]:
    for piece in pieces:
        look(piece)
        meter.advance(len(piece))
        yield piece


def _without_advice(message: str, address: str) -> str:
    """The first sentence of a message, which begins with the address: what to do about a restore does not apply."""
    return message.removeprefix(address).strip().partition(". ")[0].rstrip(".")
