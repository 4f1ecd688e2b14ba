"""Progress: what of a running session is in the store, kept up to date in the head, and what a settlement makes of it.

First the lines become segments, then the head points to them: whoever takes over finds either the old or the new
progress, and all that it names. Nothing here decides when progress is stored, or what a failure means.
Blocking; raises `StoreError` and `DamagedRecord` as store and head do.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from checkpoint.freeze import Stored
from checkpoint.head import HeadFields, Progress, ProgressBase, ProgressStop
from checkpoint.head_writer import HeadWriter, WriteResult
from checkpoint.jsontypes import JsonObject
from checkpoint.keys import manifest_key
from checkpoint.manifest import Counters, Manifest, PendingQuestion, Segment, StoredFile, chain_of
from checkpoint.restore import parent_of_progress, read_manifest, stored_progress
from checkpoint.segments import total_bytes
from checkpoint.store.port import ObjectStore
from checkpoint.upload import Uploaded, store_files, store_lines, store_manifest

_CHAIN_DIGITS = 16
"""Of the chain, in the manifest's key: other progress of the same claim is another checkpoint."""
_CLAIM_CHARS = 40


class Snapshot(Struct, frozen=True, kw_only=True):
    """The session at one moment: the log up to `size`, and what a takeover has to know about it."""

    size: int
    entries: int
    leaf_id: str | None
    usage: JsonObject
    input_consumed: bool
    stop: ProgressStop | None = None
    interrupted_by: str | None = None
    limit: str | None = None
    files: Mapping[str, Path] = {}
    """Transcripts by name, finished by now."""
    warnings: tuple[str, ...] = ()


class ProgressWriter:
    """One process's hand on the progress of its pipeline. One call at a time; `stored` and `files` may be read from
    any thread.
    """

    def __init__(
        self,
        store: ObjectStore,
        head: HeadWriter,
        session_id: str,
        log: Path,
        stored: Stored,
        base: Callable[[], ProgressBase],
        files: Sequence[StoredFile] = (),
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`stored`: what the store holds of the log already; `files`: of the transcripts. `base` is asked once, with
        the first progress: it may have to read the log.
        """
        self._store = store
        self._head = head
        self._session_id = session_id
        self._log = log
        self._base: ProgressBase | None = None
        self._find_base = base
        self._pause = pause
        self.stored = stored
        self.files = tuple(files)

    def store(self, snapshot: Snapshot, *, merge: bool) -> None:
        """Store the lines and transcripts that are not stored yet."""
        known = {file.name for file in self.files}
        new_files = {name: path for name, path in snapshot.files.items() if name not in known}
        lines = store_lines(
            self._store,
            self._session_id,
            self._log,
            snapshot.size,
            self.stored,
            merge=merge,
            pause=self._pause,
        )
        if new_files:
            self.files = (*self.files, *store_files(self._store, self._session_id, new_files, pause=self._pause))
        self.stored = lines.stored

    def point(self, snapshot: Snapshot) -> WriteResult:
        """Point the head to what `store` has just stored."""
        stored = self.stored
        self._base = self._base or self._find_base()
        return self._head.update(
            Progress(
                segments=stored.own,
                entries=snapshot.entries,
                leaf_id=snapshot.leaf_id,
                chain=chain_of(stored.segments),
                input_consumed=snapshot.input_consumed,
                usage=snapshot.usage,
                stop=snapshot.stop,
                interrupted_by=snapshot.interrupted_by,
                limit=snapshot.limit,
                base=self._base,
                files=self.files,
                warnings=snapshot.warnings,
            )
        )


def store_progress_manifest(
    store: ObjectStore,
    head: HeadFields,
    *,
    created_at: str,
    runner: str,
    restored: Sequence[Segment] | None = None,
    pending_questions: tuple[PendingQuestion, ...] = (),
    pause: Callable[[float], None] = time.sleep,
) -> Uploaded | None:
    """Make a checkpoint of the progress that a head names: a small manifest, for its segments are stored already. None
    if the head has no progress.

    `restored`: the segments of the restore point, where they are known; else its manifest is read. Safe to call for
    one head from several processes: the first manifest counts for all. Raises `RestoreFailed` if the progress does
    not belong to its restore point, `CheckpointFailed` if the manifest's key is taken by something else.
    """
    progress = head.progress
    if progress is None:
        return None
    manifest = _manifest_of_progress(store, head, progress, restored)
    manifest = replace(manifest, created_at=created_at, runner=runner, pending_questions=pending_questions)
    chain = progress.chain.removeprefix("sha256:")[:_CHAIN_DIGITS]
    claim = f"{head.claim_id[:_CLAIM_CHARS]}-{chain}"
    key = manifest_key(head.session_id, head.pipeline_id, head.attempt, claim)
    return store_manifest(store, key, manifest, same=_same_checkpoint, pause=pause)


def _manifest_of_progress(
    store: ObjectStore, head: HeadFields, progress: Progress, restored: Sequence[Segment] | None
) -> Manifest:
    restore = head.restore
    segments = (*(restored or ()), *progress.segments)
    if restored is None or chain_of(segments) != progress.chain:
        named = restore.manifest if restore is not None else None
        base = read_manifest(store, named, restore.digest) if named is not None and restore is not None else None
        segments = stored_progress(progress, base).segments
    return Manifest(
        version=1,
        session_id=head.session_id,
        pipeline_id=head.pipeline_id,
        attempt=head.attempt,
        created_at="",
        runner="",
        parent=parent_of_progress(restore, progress),
        segments=segments,
        chain=progress.chain,
        entries=progress.entries,
        bytes=total_bytes(segments),
        leaf_id=progress.leaf_id,
        counters=_counters(progress),
        files=progress.files,
    )


def _counters(progress: Progress) -> Counters:
    """What the session has used: before this pipeline, and in it."""
    before = progress.base.counters if progress.base is not None else Counters()
    return Counters(
        turns=before.turns + _count(progress.usage.get("turns")),
        total_tokens=before.total_tokens + _count(progress.usage.get("total_tokens")),
        cost_usd=before.cost_usd + _amount(progress.usage.get("cost_usd")),
    )


def _amount(value: object) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e15
    return float(value) if known and isinstance(value, int | float) else 0.0


def _count(value: object) -> int:
    return int(_amount(value))


def _same_checkpoint(found: Manifest, wanted: Manifest) -> bool:
    """Whether another process has made the same checkpoint: only who wrote it, and when, may differ."""
    return replace(found, created_at="", runner="") == replace(wanted, created_at="", runner="")
