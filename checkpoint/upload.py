"""Upload: store a frozen candidate as immutable segments and a manifest, nothing twice.

Every write is a create (`If-None-Match: *`) under a key that no other content can have, so it may be
repeated after any failure, by any process. Refuses to store a log that differs from what was frozen.
Blocking; raises `StoreError` as the store does.
"""

import hashlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct, field

from checkpoint.errors import CheckpointFailed, DamagedRecord, StoreError
from checkpoint.freeze import Candidate, Stored
from checkpoint.keys import manifest_key
from checkpoint.manifest import (
    MANIFEST_LIMIT,
    Counters,
    Manifest,
    PendingQuestion,
    RestorePoint,
    Segment,
    StoredFile,
    chain_of,
    digest_of,
    encode_manifest,
    parse_manifest,
)
from checkpoint.segments import (
    SEGMENT_BYTES,
    EncodedSegment,
    Extent,
    cut_extents,
    encode_segment,
    read_frames,
    total_bytes,
)
from checkpoint.store.port import Conflict, ObjectStore, PutResult, Written
from checkpoint.upload_plan import StoreFile, StoreLines, StoreManifest, kept_segments, upload_order

_IN_FLIGHT = 2
"""Segments under way at once: the next one is compressed while these are sent."""
_CONFLICT_ROUNDS = 6
_PAUSE_S = 0.05


class CheckpointFacts(Struct, frozen=True):
    """What the manifest says besides its segments. `created_at` is RFC 3339, UTC, with milliseconds."""

    session_id: str
    pipeline_id: str
    attempt: int
    claim_id: str
    created_at: str
    runner: str
    parent: RestorePoint | None
    pending_questions: tuple[PendingQuestion, ...] = ()
    counters: Counters = field(default_factory=Counters)


class Uploaded(Struct, frozen=True):
    """A stored checkpoint: what the terminal record names, and what it cost."""

    key: str
    digest: str
    manifest: Manifest
    sent_bytes: int
    """Bytes of all bodies sent for it."""


class StoredLines(Struct, frozen=True):
    """The log's lines in the store: kept segments and new ones."""

    stored: Stored
    sent_bytes: int


def upload(
    store: ObjectStore,
    candidate: Candidate,
    facts: CheckpointFacts,
    *,
    merge: bool = True,
    files: Mapping[str, Path] | None = None,
    stored_files: Sequence[StoredFile] = (),
    pause: Callable[[float], None] = time.sleep,
    given_up: Callable[[], bool] = lambda: False,
) -> Uploaded:
    """Store a candidate: its new lines, further transcripts (`files`: name to path; those in `stored_files` are there
    already), then the manifest.

    `merge=False` under a signal: merging can wait, the grace cannot. `given_up` is asked before each step: nobody waits
    any more. Raises `StoreError`, or `CheckpointFailed` if the log changed since the freeze, or it was given up.
    """
    there = {file.name for file in stored_files}
    transcripts = {name: path for name, path in (files or {}).items() if name not in there}
    kept = kept_segments(candidate.stored, merge=merge)
    sender = _Sender(store, pause)
    segments = list(kept)
    all_files = list(stored_files)
    check = _TailCheck(candidate)
    with candidate.path.open("rb", buffering=0) as log, sender.sending():
        cuts = list(cut_extents(log, total_bytes(kept), candidate.size, SEGMENT_BYTES))
        for step in upload_order(cuts, list(transcripts)):
            if given_up():
                raise CheckpointFailed("given_up", "The upload did not end in its time.")
            match step:
                case StoreLines(extent):
                    encoded = encode_segment(facts.session_id, check.watched(log, extent))
                    segments.append(encoded.segment)
                    sender.send(encoded)
                case StoreFile(name):
                    encoded = _encode_file(facts.session_id, transcripts[name])
                    all_files.append(_as_file(name, encoded))
                    sender.send(encoded)
                case StoreManifest():
                    check.finish()
                    sender.wait()
                    return _store_manifest(sender, _manifest(candidate, facts, segments, all_files), facts)
    raise AssertionError("an upload ends with its manifest")


def store_lines(
    store: ObjectStore,
    session_id: str,
    log: Path,
    end: int,
    stored: Stored,
    *,
    merge: bool = True,
    pause: Callable[[float], None] = time.sleep,
) -> StoredLines:
    """Store what a running log holds up to `end` (a line border) beyond `stored`: the segments of its
    progress.

    The log may grow behind `end` meanwhile.
    """
    kept = kept_segments(stored, merge=merge)
    sender = _Sender(store, pause)
    added: list[Segment] = []
    with log.open("rb", buffering=0) as opened, sender.sending():
        for extent in cut_extents(opened, total_bytes(kept), end, SEGMENT_BYTES):
            encoded = encode_segment(session_id, read_frames(opened, extent))
            added.append(encoded.segment)
            sender.send(encoded)
        sender.wait()
    own = (*kept[len(stored.restored) :], *added)
    return StoredLines(Stored(stored.restored, own), sender.sent_bytes)


def store_files(
    store: ObjectStore,
    session_id: str,
    files: Mapping[str, Path],
    *,
    pause: Callable[[float], None] = time.sleep,
) -> tuple[StoredFile, ...]:
    """Store further transcripts that nothing is appended to any more, by name."""
    sender = _Sender(store, pause)
    stored: list[StoredFile] = []
    with sender.sending():
        for name, path in files.items():
            encoded = _encode_file(session_id, path)
            stored.append(_as_file(name, encoded))
            sender.send(encoded)
        sender.wait()
    return tuple(stored)


class _TailCheck:
    """Sees every byte that is compressed, and compares those behind `stored` with the candidate's digest."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._digest = hashlib.sha256()

    def watched(self, log: BinaryIO, extent: Extent) -> Iterator[bytes]:
        position = extent.start
        for frame in read_frames(log, extent):
            fresh = max(self._candidate.stored.size - position, 0)
            self._digest.update(memoryview(frame)[fresh:])
            position += len(frame)
            yield frame

    def finish(self) -> None:
        if f"sha256:{self._digest.hexdigest()}" != self._candidate.digest:
            raise CheckpointFailed(
                "log_changed", f"The session log {self._candidate.path.name} changed after it was frozen."
            )


class _Sender:
    """Creates objects, a few at once, and counts what it sent. The first failure comes out of `send` or
    `wait`.
    """

    def __init__(self, store: ObjectStore, pause: Callable[[float], None]) -> None:
        self._store = store
        self._pause = pause
        self._under_way: list[Future[PutResult]] = []
        self.sent_bytes = 0

    @contextmanager
    def sending(self) -> Generator[None]:
        with ThreadPoolExecutor(_IN_FLIGHT, thread_name_prefix="upload") as self._pool:
            yield

    def send(self, encoded: EncodedSegment) -> None:
        """A segment. Its key is its content's name, so "already there" is as good as written."""
        while len(self._under_way) >= _IN_FLIGHT:
            self._under_way.pop(0).result()
        self.sent_bytes += len(encoded.stored)
        self._under_way.append(self._pool.submit(self.create, encoded.segment.key, encoded.stored))

    def wait(self) -> None:
        while self._under_way:
            self._under_way.pop(0).result()

    def create(self, key: str, body: bytes) -> PutResult:
        for round_number in range(_CONFLICT_ROUNDS):
            answer = self._store.put_if_absent(key, body)
            if not isinstance(answer, Conflict):
                return answer
            self._pause(_PAUSE_S * 2**round_number)
        raise StoreError(
            "unreachable",
            f"{self._store.address(key)} could not be created: the store reported a conflicting write "
            f"{_CONFLICT_ROUNDS} times. Relaunch with a higher attempt.",
        )

    def create_or_found(self, key: str, body: bytes) -> bytes:
        """The bytes that stand at `key` now: these, or others that were there before."""
        self.sent_bytes += len(body)
        if isinstance(self.create(key, body), Written):
            return body
        found = self._store.get(key, limit=MANIFEST_LIMIT)
        return found.data if found is not None else b""

    def taken(self, key: str) -> CheckpointFailed:
        return CheckpointFailed(
            "manifest_taken",
            f"{self._store.address(key)} holds another manifest. Relaunch with a higher attempt.",
        )


def store_manifest(
    store: ObjectStore,
    key: str,
    manifest: Manifest,
    *,
    same: Callable[[Manifest, Manifest], bool],
    pause: Callable[[float], None] = time.sleep,
) -> Uploaded:
    """Store a manifest whose segments are all there. One that is found at `key` counts instead if it is the `same` as
    the given one (found, given). Raises `StoreError`, `CheckpointFailed`.
    """
    sender = _Sender(store, pause)
    body = encode_manifest(manifest)
    found = sender.create_or_found(key, body)
    if found != body:
        try:
            manifest = parse_manifest(found, store.address(key))
        except DamagedRecord as error:
            raise sender.taken(key) from error
        if not same(manifest, parse_manifest(body, store.address(key))):
            raise sender.taken(key)
    return Uploaded(key, digest_of(found), manifest, sender.sent_bytes)


def _store_manifest(sender: _Sender, manifest: Manifest, facts: CheckpointFacts) -> Uploaded:
    """A manifest under a key that is ours alone: "already there" is right only with the very same bytes (a lost
    answer).
    """
    key = manifest_key(facts.session_id, facts.pipeline_id, facts.attempt, facts.claim_id)
    body = encode_manifest(manifest)
    if sender.create_or_found(key, body) != body:
        raise sender.taken(key)
    return Uploaded(key, digest_of(body), manifest, sender.sent_bytes)


def _manifest(
    candidate: Candidate, facts: CheckpointFacts, segments: Sequence[Segment], files: Iterable[StoredFile]
) -> Manifest:
    return Manifest(
        version=1,
        session_id=facts.session_id,
        pipeline_id=facts.pipeline_id,
        attempt=facts.attempt,
        created_at=facts.created_at,
        runner=facts.runner,
        parent=facts.parent,
        segments=tuple(segments),
        chain=chain_of(segments),
        entries=candidate.entries,
        bytes=candidate.size,
        leaf_id=candidate.leaf_id,
        pending_questions=facts.pending_questions,
        counters=facts.counters,
        files=tuple(files),
    )


def _as_file(name: str, encoded: EncodedSegment) -> StoredFile:
    return StoredFile(name=name, **msgspec.structs.asdict(encoded.segment))


def _encode_file(session_id: str, path: Path) -> EncodedSegment:
    with path.open("rb", buffering=0) as file:
        size = path.stat().st_size
        frames = (frame for extent in cut_extents(file, 0, size, SEGMENT_BYTES) for frame in read_frames(file, extent))
        return encode_segment(session_id, frames)
