"""Restore: bring a session's bytes from a manifest or a plain Pi file to a local log, checked, in one pass.

While the bytes stream they are written, hashed and indexed; nothing is read twice and memory stays small.
Refuses anything whose own sha256 differs from what was promised, and more bytes than declared or allowed.
Blocking. A store that cannot be reached raises `StoreError`; whatever is wrong with the session itself
raises `RestoreFailed`, or the indexer's own error for damage inside the lines. On every failure the local
file is removed.
"""

import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from checkpoint.errors import DamagedRecord, RestoreFailed, StoreError
from checkpoint.freeze import NOTHING_STORED, Stored
from checkpoint.head import Progress
from checkpoint.manifest import (
    MANIFEST_LIMIT,
    Manifest,
    RestorePoint,
    Segment,
    chain_of,
    digest_of,
    parse_manifest,
)
from checkpoint.overlap import ahead, fetch_ahead, quick_switching
from checkpoint.plain_source import OtherStore, open_plain
from checkpoint.segments import ZSTD_MAGIC, decode_segment, decompress, total_bytes
from checkpoint.store.port import ObjectStore

MAX_SESSION_BYTES = 8 * 1024**3
_FETCHERS = 4
_FETCH_BUDGET = 12 * 1024 * 1024
"""Compressed bytes held at once while segments are fetched ahead."""


class Indexer(Protocol):
    """Sees every byte of the session once, in order."""

    def feed(self, chunk: bytes) -> None: ...


class Fetched(Struct, frozen=True):
    """A restored log at `path`. The indexer has seen all of it; finishing the index is the caller's."""

    path: Path
    size: int
    parent: RestorePoint | None
    """The restore point with its digest filled in: the next manifest's parent."""
    stored: Stored
    """What of these bytes need not be stored again."""
    manifest: Manifest | None
    """The restored manifest (counters, pending questions), if there was one and it was read."""


def fetch(
    store: ObjectStore,
    ref: RestorePoint | None,
    dest: Path,
    indexer: Indexer,
    *,
    progress: Progress | None = None,
    other_store: OtherStore | None = None,
    max_bytes: int = MAX_SESSION_BYTES,
) -> Fetched:
    """Restore `ref` to a new file at `dest`, and what `progress` of a taken-over head adds to it.

    `other_store` opens the bucket of an `s3://` address. With `ref` None there is only the progress.
    """
    with quick_switching(), _new_log(dest, indexer) as log:
        if progress is not None:
            return _fetch_progress(store, ref, progress, log, max_bytes)
        if ref is not None and ref.manifest is not None:
            manifest = read_manifest(store, ref.manifest, ref.digest)
            _fetch_segments(store, manifest.segments, log, max_bytes)
            return Fetched(dest, log.size, ref, Stored(restored=manifest.segments), manifest)
        if ref is not None and ref.jsonl is not None:
            return _fetch_plain(store, ref.jsonl, ref.digest, log, other_store, max_bytes)
        raise RestoreFailed("missing", "There is neither a restore point nor progress to restore from.")


class _NewLog:
    """The local log being written."""

    def __init__(self, path: Path, file: int, indexer: Indexer) -> None:
        self.path = path
        self.size = 0
        self._file = file
        self._indexer = indexer

    def written(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same pieces, each after it was written."""
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            self.size += len(piece)
            yield piece

    def index(self, pieces: Iterator[bytes]) -> None:
        for piece in pieces:
            self._indexer.feed(piece)


@contextmanager
def _new_log(dest: Path, indexer: Indexer) -> Generator[_NewLog]:
    file = os.open(dest, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield _NewLog(dest, file, indexer)
    except BaseException:
        dest.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)


def _fetch_progress(
    store: ObjectStore, ref: RestorePoint | None, progress: Progress, log: _NewLog, max_bytes: int
) -> Fetched:
    manifest = read_manifest(store, ref.manifest, ref.digest) if ref and ref.manifest else None
    stored = stored_progress(progress, manifest)
    _fetch_segments(store, stored.segments, log, max_bytes)
    return Fetched(log.path, log.size, parent_of_progress(ref, progress), stored, manifest)


def stored_progress(progress: Progress, manifest: Manifest | None) -> Stored:
    """What the progress and its restore point hold together: the progress's chain tells whether its segments go behind
    the manifest's or are the whole session. Raises `RestoreFailed` if it is neither.
    """
    base = manifest.segments if manifest is not None else ()
    if chain_of((*base, *progress.segments)) == progress.chain:
        return Stored(restored=base, own=progress.segments)
    if chain_of(progress.segments) == progress.chain:
        return Stored(own=progress.segments)
    raise RestoreFailed(
        "damaged", "The progress in the head does not belong to its restore point. Start a new pipeline."
    )


def parent_of_progress(ref: RestorePoint | None, progress: Progress) -> RestorePoint | None:
    """The restore point that the progress goes on from. A plain session that was named without a digest is known by the
    one that its first restoring has noted.
    """
    if ref is None or ref.digest is not None or progress.base is None:
        return ref
    return msgspec.structs.replace(ref, digest=progress.base.digest)


def read_manifest(store: ObjectStore, key: str, digest: str | None) -> Manifest:
    """The manifest at `key`, whose bytes must have this digest. Raises `RestoreFailed`, `StoreError`."""
    address = store.address(key)
    found = store.get(key, limit=MANIFEST_LIMIT)
    if found is None:
        raise RestoreFailed("missing", f"{address} does not exist. Check `session.restore` and the store's address.")
    if digest_of(found.data) != digest:
        raise _wrong_digest(address, digest)
    try:
        return parse_manifest(found.data, address)
    except DamagedRecord as error:
        raise RestoreFailed("damaged", error.message) from error


def _fetch_segments(store: ObjectStore, segments: tuple[Segment, ...], log: _NewLog, max_bytes: int) -> None:
    if total_bytes(segments) > max_bytes:
        raise _too_large("The session", max_bytes)

    def load(segment: Segment) -> bytearray:
        return _load_segment(store, segment)

    def lines() -> Iterator[bytes]:
        for segment, stored in fetch_ahead(segments, load, workers=_FETCHERS, budget=_FETCH_BUDGET):
            yield from decode_segment(segment, stored, store.address(segment.key))

    with closing(ahead(lines())) as decoded, closing(ahead(_checked(store, segments, log.written(decoded)))) as checked:
        log.index(checked)


def _checked(store: ObjectStore, segments: tuple[Segment, ...], pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces; each segment's lines must have the segment's digest when its last byte has come."""
    for segment in segments:
        digest, left = hashlib.sha256(), segment.bytes
        while left:
            piece = next(pieces)
            digest.update(piece)
            left -= len(piece)
            yield piece
        if f"sha256:{digest.hexdigest()}" != segment.digest:
            address = store.address(segment.key)
            raise RestoreFailed("damaged", f"{address} holds other lines than its manifest says.")


def _load_segment(store: ObjectStore, segment: Segment) -> bytearray:
    address = store.address(segment.key)
    pieces = store.stream(segment.key)
    if pieces is None:
        raise RestoreFailed(
            "missing", f"{address} does not exist although a manifest names it. Restore it from a backup."
        )
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > segment.stored_bytes:
            raise RestoreFailed("damaged", f"{address} is longer than its manifest says. Restore it from a backup.")
    return data


def _fetch_plain(
    store: ObjectStore,
    source: str,
    wanted: str | None,
    log: _NewLog,
    other_store: OtherStore | None,
    max_bytes: int,
) -> Fetched:
    """A plain session, or zstd by its first bytes. `digest` may be that of the object or of the lines
    inside.
    """
    address, pieces = open_plain(store, source, other_store)
    first = next(pieces, b"")
    of_object, of_lines = hashlib.sha256(), hashlib.sha256()
    content = _seen(chain((first,), pieces), of_object.update)
    with ExitStack() as threads:
        if first.startswith(ZSTD_MAGIC):
            unpacked = threads.enter_context(closing(ahead(decompress(content, address))))
            content = _seen(unpacked, of_lines.update)
        coming = threads.enter_context(closing(ahead(log.written(_limited(content, address, max_bytes)))))
        try:
            log.index(coming)
        except (RestoreFailed, StoreError):
            raise
        except Exception as damage:
            # What the indexer objects to may come from a wrong or torn object: then that is what to report.
            for _ in coming:
                pass
            _check_digest(address, wanted, (of_object.hexdigest(), of_lines.hexdigest()), damage)
            raise
    _check_digest(address, wanted, (of_object.hexdigest(), of_lines.hexdigest()), None)
    parent = RestorePoint(jsonl=source, digest=wanted or f"sha256:{of_object.hexdigest()}")
    return Fetched(log.path, log.size, parent, NOTHING_STORED, None)


def _check_digest(address: str, wanted: str | None, found: Sequence[str], cause: Exception | None) -> None:
    if wanted is not None and wanted.removeprefix("sha256:") not in found:
        raise _wrong_digest(address, wanted) from cause


def _seen(pieces: Iterable[bytes], look: Callable[[bytes], None]) -> Iterator[bytes]:
    for piece in pieces:
        look(piece)
        yield piece


def _limited(pieces: Iterator[bytes], address: str, max_bytes: int) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            raise _too_large(address, max_bytes)
        yield piece


def _too_large(what: str, max_bytes: int) -> RestoreFailed:
    return RestoreFailed("too_large", f"{what} has more than {max_bytes} bytes. Start from a shorter session.")


def _wrong_digest(address: str, wanted: str | None) -> RestoreFailed:
    return RestoreFailed("wrong_digest", f"{address} is not the object with {wanted}. Check `session.restore`.")
