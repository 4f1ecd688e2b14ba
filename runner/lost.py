"""The terminal record of a pipeline whose process is dead: `failure` `lost`, with its last progress.

All that is known of it is its head. What its progress names is stored, so a small manifest makes a checkpoint of it,
also if the progress says that the run was over: only a process with the session's log could settle that, and a relaunch
is it. Cards are withdrawn with it, for nobody would take an answer.
"""

from datetime import UTC, datetime

import msgspec

from checkpoint.errors import CheckpointFailed, RestoreFailed
from checkpoint.head import HeadFields, Progress, Terminal
from checkpoint.progress import store_progress_manifest
from checkpoint.store.port import ObjectStore
from checkpoint.upload import Uploaded
from runner.usage import UsageTotals
from runner.version import VERSION
from settlement.callback import CheckpointRef, Timings, Usage, build_terminal, to_body, webhook_id
from settlement.decision import CheckpointFacts, Commit, resolve_checkpoint_decision
from settlement.outcome import Outcome
from settlement.settle import settle
from settlement.wire import time_text


def lost_terminal(store: ObjectStore, head: HeadFields, message: str) -> Terminal:
    """Store the checkpoint of the last progress, if there is one, and make the record that names it. Raises StoreError.

    `message`: how it is known to be dead. Safe to call several times for one head, by several processes.
    """
    now, progress = time_text(datetime.now(UTC)), head.progress
    uploaded, warnings = None, list(progress.warnings) if progress is not None else []
    try:
        uploaded = store_progress_manifest(store, head, created_at=now, runner=VERSION)
    except (RestoreFailed, CheckpointFailed) as error:
        warnings.append(f"the last progress could not be used: {error.message}")
    settlement = settle(Outcome(lost=message))
    decision = resolve_checkpoint_decision(
        settlement, CheckpointFacts(appended=False, progress_stored=uploaded is not None)
    )
    committed = uploaded if isinstance(decision, Commit) else None
    checkpoint = _checkpoint(head, committed)
    body = to_body(
        build_terminal(
            pipeline_id=head.pipeline_id,
            attempt=head.attempt,
            session_id=head.session_id,
            labels=head.labels,
            settlement=settlement,
            checkpoint=checkpoint,
            input_consumed=committed is not None and progress is not None and progress.input_consumed,
            undelivered=(),
            warnings=warnings,
            usage=_usage(progress),
            timings=Timings(started_at=_started(head, now), settled_at=now, restore_ms=0, agent_ms=0, upload_ms=0),
            runner=VERSION,
        )
    )
    return Terminal(
        body=body.decode(),
        webhook_id=webhook_id(head.pipeline_id),
        manifest=checkpoint.manifest,
        digest=checkpoint.digest,
    )


def _checkpoint(head: HeadFields, uploaded: Uploaded | None) -> CheckpointRef:
    if uploaded is not None:
        manifest = uploaded.manifest
        return CheckpointRef(
            decision="commit",
            manifest=uploaded.key,
            digest=uploaded.digest,
            parent=manifest.parent.digest if manifest.parent is not None else None,
            entries=manifest.entries,
            bytes=manifest.bytes,
            leaf_id=manifest.leaf_id,
            resumable=True,
        )
    base = head.progress.base if head.progress is not None else None
    return CheckpointRef(
        decision="keep_previous",
        manifest=None,
        digest=None,
        parent=head.restore.digest if head.restore is not None else None,
        entries=base.entries if base is not None else 0,
        bytes=base.bytes if base is not None else 0,
        leaf_id=base.leaf_id if base is not None else None,
        resumable=True,
    )


def _usage(progress: Progress | None) -> Usage:
    """As far as the progress tells it."""
    try:
        totals = msgspec.convert(progress.usage if progress is not None else {}, UsageTotals)
        return Usage(**msgspec.structs.asdict(totals))
    except ValueError:  # both kinds of ValidationError are
        return Usage()


def _started(head: HeadFields, otherwise: str) -> str:
    """When the dead attempt claimed the pipeline; a head may hold any text there."""
    try:
        return time_text(datetime.fromisoformat(head.claimed_at).astimezone(UTC))
    except ValueError:
        return otherwise
