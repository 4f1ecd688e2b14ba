"""Stores the checkpoint that the settlement is to name: the frozen log, else the last stored progress.

A frozen log that cannot be uploaded in its time, or was never restored, leaves what was stored of it while it grew.
That needs one small manifest; whether it stands for all of the log or only for a part of it, is told apart, because a
settlement may rest only on what is stored. Refuses to decide what becomes of the checkpoint: that is
`settlement.decision`.
"""

import threading
import time
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from checkpoint.errors import CheckpointError
from checkpoint.freeze import Candidate
from checkpoint.head import Head, Progress
from checkpoint.manifest import PendingQuestion
from checkpoint.progress import store_progress_manifest
from checkpoint.upload import CheckpointFacts as UploadFacts
from checkpoint.upload import Uploaded, upload
from runner.parts import BULK_S, SMALL_CALL_S, Parts
from runner.version import VERSION
from runner.work import Work, ms_since
from settlement.decision import CheckpointDecision, CheckpointFacts, Commit, resolve_checkpoint_decision
from settlement.settle import settle
from settlement.wire import time_text

COMMIT_SHARE = 1 / 2
"""Of what is left for the commit: as long as the progress's manifest may take. The record needs the rest."""


class StoredCheckpoint(Struct, frozen=True):
    """What is stored, and what is to become of it; both fit `work.outcome` as it is by then."""

    decision: CheckpointDecision
    uploaded: Uploaded | None
    """With a decision to commit, and only then."""


async def store_checkpoint(parts: Parts, work: Work) -> StoredCheckpoint:
    """Store what the settlement will commit. That it cannot be becomes part of `work.outcome`."""
    began = time.monotonic()
    stored = await _store(parts, work)
    if stored.uploaded is not None:
        work.upload_ms = ms_since(began)
        what = stored.uploaded
        parts.log.info("uploaded", manifest=what.key, sent_bytes=what.sent_bytes, ms=work.upload_ms)
    return stored


async def _store(parts: Parts, work: Work) -> StoredCheckpoint:
    decision = _decided(work, parts, frozen=work.candidate is not None)
    if not isinstance(decision, Commit):
        return StoredCheckpoint(decision, None)
    failed: str | None = None
    if decision.source == "frozen" and work.candidate is not None:
        uploaded, failed = await _upload(parts, work, work.candidate)
        if uploaded is not None:
            return StoredCheckpoint(decision, uploaded)
    progress = _progress(parts)
    whole = progress is not None and _is_all_of(progress, work.candidate)
    uploaded = await _upload_progress(parts, work, whole=whole) if progress is not None else None
    if uploaded is not None and whole:
        return StoredCheckpoint(decision, uploaded)
    if failed is not None:
        work.outcome = replace(work.outcome, checkpoint_failed=failed, progress_kept=uploaded is not None)
        if uploaded is not None:
            _warn_of_lost_end(parts, work.candidate, uploaded, failed)
    decision = _decided(work, parts, frozen=False, progress_stored=uploaded is not None)
    return StoredCheckpoint(decision, uploaded if isinstance(decision, Commit) else None)


def _decided(work: Work, parts: Parts, *, frozen: bool, progress_stored: bool | None = None) -> CheckpointDecision:
    facts = CheckpointFacts(
        appended=work.outcome.appended,
        progress_stored=_progress(parts) is not None if progress_stored is None else progress_stored,
        frozen=frozen,
    )
    return resolve_checkpoint_decision(settle(work.outcome), facts)


def _head(parts: Parts) -> Head:
    head = parts.head.head
    assert head is not None, "the pipeline was claimed"
    return head


def _progress(parts: Parts) -> Progress | None:
    return _head(parts).fields.progress


def _is_all_of(progress: Progress, candidate: Candidate | None) -> bool:
    """Whether every line of the frozen log is stored as progress."""
    return candidate is not None and (progress.entries, progress.leaf_id) == (candidate.entries, candidate.leaf_id)


async def _upload(parts: Parts, work: Work, candidate: Candidate) -> tuple[Uploaded | None, str | None]:
    """The stored checkpoint, or why it could not be stored."""
    parts.standing.phase = "upload"
    session, run, head = work.session, work.run, _head(parts)
    assert session is not None, "what is frozen was restored"
    assert run is not None, "and has run"
    pending = run.pending_questions(settle(work.outcome), session)
    merge = parts.stop.since is None
    stored_files = run.progress.files if run.progress is not None else session.files

    given_up = threading.Event()

    def store() -> Uploaded:
        facts = UploadFacts(
            session_id=parts.spec.session.id,
            pipeline_id=parts.spec.pipeline_id,
            attempt=parts.spec.attempt,
            claim_id=head.fields.claim_id,
            created_at=_now(),
            runner=VERSION,
            parent=session.parent,
            pending_questions=pending,
            counters=run.counters(session.counters()),
        )
        return upload(
            parts.store,
            candidate,
            facts,
            merge=merge,
            files=run.transcripts(),
            stored_files=stored_files,
            given_up=given_up.is_set,
        )

    try:
        return await parts.timebox.blocking("upload", BULK_S, store), None
    except (CheckpointError, TimeoutError) as error:
        detail = str(error) or "the upload did not end in its time"
        parts.log.warning("upload_failed", error=detail)
        return None, detail
    finally:
        given_up.set()  # what is left behind at the end of its time leaves the store to the commit


async def _upload_progress(parts: Parts, work: Work, *, whole: bool) -> Uploaded | None:
    """A checkpoint of the progress that the head names; None if even that cannot be stored."""
    head, run, session = _head(parts), work.run, work.session
    pending: tuple[PendingQuestion, ...] = ()
    if whole and run is not None and session is not None:
        pending = run.pending_questions(settle(work.outcome), session)
    restored = run.progress.stored.restored if run is not None and run.progress is not None else None
    bound_s = parts.timebox.remaining("commit", SMALL_CALL_S) * COMMIT_SHARE

    def store() -> Uploaded | None:
        return store_progress_manifest(
            parts.store,
            head.fields,
            created_at=_now(),
            runner=VERSION,
            restored=restored,
            pending_questions=pending,
        )

    try:
        return await parts.timebox.blocking("commit", bound_s, store)
    except (CheckpointError, TimeoutError) as error:
        parts.log.warning("progress_manifest_failed", error=str(error) or "it was not stored in its time")
        return None


def _warn_of_lost_end(parts: Parts, candidate: Candidate | None, uploaded: Uploaded, failed: str) -> None:
    entries = candidate.entries if candidate is not None else 0
    kept = uploaded.manifest.entries
    parts.warnings.append(
        f"the end of the session could not be stored: the checkpoint has {kept} of its {entries} entries ({failed})"
    )
    parts.log.warning("progress_kept", entries=kept, of=entries)


def _now() -> str:
    return time_text(datetime.now(UTC))
