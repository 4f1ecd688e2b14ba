"""`runner import`: a plain session file becomes a checkpoint in a store, for a launch to restore.

The manifest has no parent: nothing in that store comes before it. Its key follows from the lines, so importing the
same file again finds the same checkpoint. Lines are stored byte for byte, only a session of version 1 or 2 as its
migration to 3. Refuses a damaged session (a checkpoint is restored strictly), and an id that no key can hold.
"""

import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from checkpoint.errors import CheckpointError, DamagedRecord, StoreError
from checkpoint.freeze import NOTHING_STORED, Candidate, freeze
from checkpoint.keys import ID_PATTERN, manifest_key
from checkpoint.manifest import MANIFEST_LIMIT, Manifest, PendingQuestion, RestorePoint, digest_of, parse_manifest
from checkpoint.session.context import load_context
from checkpoint.session.counting import count_session
from checkpoint.session.errors import SessionDamaged
from checkpoint.session.log import SessionLog
from checkpoint.store.port import ObjectStore
from checkpoint.upload import CheckpointFacts, upload
from runner.errors import InfrastructureError, Refused
from runner.exits import Exit
from runner.inspection.session_file import SessionFile, damage_error
from runner.inspection.source import StoreOptions, open_shown
from runner.inspection.survey import blocks_of
from runner.inspection.visible_text import visible_line
from runner.interruption import ASK_TOOLS
from runner.start import drop_failed_tail, pending_questions
from runner.version import VERSION
from settlement.question import question_id
from settlement.wire import time_text

PIPELINE = "import"
"""In the place of a pipeline's id in the manifest: no pipeline made this checkpoint."""


def import_session(
    file: str, uri: str, session_id: str, options: StoreOptions, now: Callable[[], datetime] | None = None
) -> int:
    """Store the session in `file` (any source) and print its restore point as JSON. Raises RunnerError."""
    if re.fullmatch(ID_PATTERN, session_id) is None:
        raise Refused("session_id", [f"{session_id!a} is no id of a session: it must match {ID_PATTERN}"])
    moment = now or (lambda: datetime.now(UTC))
    with open_shown(file, options, files=False) as source:
        if source.kind != "plain" or source.session is None:
            raise Refused("not_plain", [f"{file} is a {source.kind}: export its session to a file first"])
        try:
            store = options.opener()(uri)
            point = store_session(store, source.session, session_id, file, time_text(moment()))
        except StoreError as error:
            if error.reason in ("misconfigured", "missing_bucket"):
                raise Refused(error.reason, [error.message]) from error
            raise InfrastructureError(error.reason, error.message) from error
        except CheckpointError as error:
            raise Refused(error.reason, [error.message]) from error
    for warning in source.warnings:
        sys.stderr.write(f"runner: warning: {visible_line(warning)}\n")
    sys.stdout.write(json.dumps({"manifest": point.manifest, "digest": point.digest}) + "\n")
    return Exit.ACKNOWLEDGED


def store_session(
    store: ObjectStore, session: SessionFile, session_id: str, address: str, created_at: str
) -> RestorePoint:
    """Store a session as segments and a manifest; the same lines under the same id give the same restore point.

    `created_at` is taken the first time. The local copy is ended by a line end, as a restore would. Raises StoreError,
    CheckpointError, SourceFailed.
    """
    pending = _pending(session, address)
    log = SessionLog.open(session.path, session.index)
    log.close()
    candidate = freeze(session.path, size=log.size, entries=log.entries, leaf_id=log.leaf_id, stored=NOTHING_STORED)
    claim_id = candidate.digest.removeprefix("sha256:")[:32]
    before, point = _stored_before(store, manifest_key(session_id, PIPELINE, 1, claim_id), candidate) or (None, None)
    if before is not None and point is not None and all(_is_there(store, part.key) for part in before.segments):
        return point
    facts = CheckpointFacts(
        session_id=session_id,
        pipeline_id=PIPELINE,
        attempt=1,
        claim_id=claim_id,
        created_at=before.created_at if before is not None else created_at,
        runner=before.runner if before is not None else VERSION,
        parent=None,
        pending_questions=pending,
        counters=count_session(session.path, candidate.size),
    )
    uploaded = upload(store, candidate, facts)
    return RestorePoint(manifest=uploaded.key, digest=uploaded.digest)


def _stored_before(store: ObjectStore, key: str, candidate: Candidate) -> tuple[Manifest, RestorePoint] | None:
    """The checkpoint of the same lines that an earlier import has left, if any. Raises DamagedRecord."""
    found = store.get(key, limit=MANIFEST_LIMIT)
    if found is None:
        return None
    manifest = parse_manifest(found.data, store.address(key))
    if manifest.bytes != candidate.size:
        raise DamagedRecord(store.address(key), "it is not the manifest of the lines that its key names")
    return manifest, RestorePoint(manifest=key, digest=digest_of(found.data))


def _is_there(store: ObjectStore, key: str) -> bool:
    return any(listed.key == key for listed in store.list(key))


def _pending(session: SessionFile, address: str) -> tuple[PendingQuestion, ...]:
    """The questions that the session waits for, so that a launch may reply. Checks the conversation as a restore does.

    Their cards are unknown here: the ids are those that this "pipeline" would have given them. Raises SourceFailed.
    """
    try:
        context = load_context(session.path, session.index)
    except SessionDamaged as error:
        raise damage_error(error, session.path, address) from error
    messages = context.messages[: drop_failed_tail(context.messages)]
    asked = pending_questions(messages, ASK_TOOLS)
    entries: dict[str, str] = {}
    for message, entry_id in zip(messages, context.entry_ids, strict=False):
        if message.get("role") == "assistant":
            calls = (block for block in blocks_of(message.get("content")) if block.get("type") == "toolCall")
            entries.update((str(call.get("id")), entry_id) for call in calls)
    return tuple(
        PendingQuestion(
            question_id=question_id(PIPELINE, entries.get(call_id, ""), call_id),
            tool_call_id=call_id,
            entry_id=entries.get(call_id, ""),
        )
        for call_id in asked
    )
