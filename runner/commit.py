"""The end of the story that counts: settlement, upload, and the terminal record.

The upload comes first, because a checkpoint that cannot be stored changes the settlement; the record names only what is
stored, and holds the exact bytes of the callback.
"""

from datetime import UTC, datetime

from msgspec.structs import asdict

from checkpoint.diagnostic import store_diagnostic
from checkpoint.errors import StoreError
from checkpoint.head import Acknowledged, AlreadyTerminal, Fenced, Head, RejectedBefore, Terminal, Updated
from checkpoint.keys import diagnostic_key
from checkpoint.restore import parent_of_progress
from checkpoint.upload import Uploaded
from runner.errors import fenced
from runner.parts import SMALL_CALL_S, Parts
from runner.session import Kept, OpenSession
from runner.storing import store_checkpoint
from runner.usage import UsageTotals
from runner.version import VERSION
from runner.work import Work
from settlement.callback import CheckpointRef, Timings, Usage, build_terminal, to_body, webhook_id
from settlement.decision import KeepPrevious, input_consumed, undelivered
from settlement.settle import Failure, Settlement, settle
from settlement.wire import time_text


async def settle_and_commit(parts: Parts, work: Work) -> Head:
    """Settlement, upload and the terminal record: after this the pipeline has ended, whatever happens to us."""
    stored = await store_checkpoint(parts, work)
    settlement = settle(work.outcome)
    uploaded, decision = stored.uploaded, stored.decision
    diagnostic: str | None = None
    if isinstance(decision, KeepPrevious) and decision.diagnostic and work.session is not None:
        diagnostic = await _store_diagnostic(parts, work.session)
    run, session, spec = work.run, work.session, parts.spec
    checkpoint = _checkpoint(settlement, _parent_digest(parts, work), uploaded, session, diagnostic)
    usage = run.usage if run is not None else UsageTotals()
    terminal = build_terminal(
        pipeline_id=spec.pipeline_id,
        attempt=spec.attempt,
        session_id=spec.session.id,
        labels=spec.labels,
        settlement=settlement,
        checkpoint=checkpoint,
        input_consumed=input_consumed(work.outcome, decision, in_progress=_input_in_progress(parts)),
        undelivered=undelivered(work.outcome, decision),
        warnings=(*(session.warnings if session is not None else ()), *parts.warnings),
        usage=Usage(**asdict(usage)),
        timings=Timings(
            started_at=parts.started_at,
            settled_at=_now(),
            restore_ms=work.restore_ms,
            agent_ms=work.agent_ms,
            upload_ms=work.upload_ms,
        ),
        runner=VERSION,
    )
    parts.log.info(
        "settled",
        kind=settlement.kind,
        reason=getattr(settlement, "reason", None),
        message=getattr(settlement, "message", None),
        checkpoint=decision.kind,
    )
    return await _commit(parts, to_body(terminal), checkpoint)


def _checkpoint(
    settlement: Settlement,
    parent: str | None,
    uploaded: Uploaded | None,
    session: OpenSession | None,
    diagnostic: str | None,
) -> CheckpointRef:
    """A stored checkpoint for the server to commit; without one, the numbers of what stays."""
    resumable = settlement.resumable if isinstance(settlement, Failure) else True
    if uploaded is not None:
        manifest = uploaded.manifest
        return CheckpointRef(
            decision="commit",
            manifest=uploaded.key,
            digest=uploaded.digest,
            parent=parent,
            entries=manifest.entries,
            bytes=manifest.bytes,
            leaf_id=manifest.leaf_id,
            resumable=resumable,
        )
    kept = session.kept if session is not None else Kept(0, 0, None)
    return CheckpointRef(
        decision="keep_previous",
        manifest=None,
        digest=None,
        parent=parent,
        entries=kept.entries,
        bytes=kept.bytes,
        leaf_id=kept.leaf_id,
        resumable=resumable,
        diagnostic=diagnostic,
    )


async def _store_diagnostic(parts: Parts, session: OpenSession) -> str | None:
    head = parts.head.head
    assert head is not None, "the pipeline was claimed"
    key = diagnostic_key(parts.spec.session.id, parts.spec.pipeline_id, parts.spec.attempt, head.fields.claim_id)
    try:
        stored = await parts.timebox.blocking(
            "upload", SMALL_CALL_S, lambda: store_diagnostic(parts.store, key, session.path)
        )
    except (StoreError, OSError) as error:
        parts.log.warning("diagnostic_not_stored", error=str(error))
        return None
    return key if stored else None


async def _commit(parts: Parts, body: bytes, checkpoint: CheckpointRef) -> Head:
    """The commit: one compare-and-swap that holds the exact callback body."""
    parts.standing.phase = "commit"
    terminal = Terminal(
        body=body.decode(),
        webhook_id=webhook_id(parts.spec.pipeline_id),
        manifest=checkpoint.manifest,
        digest=checkpoint.digest,
    )
    result = await parts.store_call("commit", SMALL_CALL_S, lambda: parts.head.commit_terminal(terminal))
    match result:
        case Updated(head) | AlreadyTerminal(head) | Acknowledged(head) | RejectedBefore(head):
            return head
        case Fenced(head):
            raise fenced(head)


def _input_in_progress(parts: Parts) -> bool:
    progress = parts.head.head.fields.progress if parts.head.head is not None else None
    return progress is not None and progress.input_consumed


def _parent_digest(parts: Parts, work: Work) -> str | None:
    """The digest of the restore point; of one that could not be restored, what the claim says of it."""
    if work.session is not None:
        return work.session.parent.digest if work.session.parent is not None else None
    head = parts.head.head
    assert head is not None, "the pipeline was claimed"
    restore, progress = head.fields.restore, head.fields.progress
    known = parent_of_progress(restore, progress) if progress is not None else restore
    return known.digest if known is not None else None


def _now() -> str:
    return time_text(datetime.now(UTC))
