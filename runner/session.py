"""The session of this pipeline: restored or new, its log open, its conversation decoded. Blocking.

What is wrong with the session itself is a value (`BeforeRunFailure`); a store that cannot be reached raises.
"""

from pathlib import Path

from msgspec import Struct

from checkpoint.errors import RestoreFailed
from checkpoint.freeze import NOTHING_STORED, Stored
from checkpoint.head import Head, Progress, ProgressBase
from checkpoint.jsontypes import JsonObject, Message
from checkpoint.manifest import Counters, Manifest, PendingQuestion, RestorePoint, StoredFile
from checkpoint.plain_source import OtherStore
from checkpoint.restore import Fetched, fetch
from checkpoint.session.context import load_context
from checkpoint.session.counting import count_session
from checkpoint.session.errors import SessionDamaged
from checkpoint.session.header import new_header
from checkpoint.session.index import OnDamage
from checkpoint.session.indexer import SessionIndexer
from checkpoint.session.log import SessionLog
from checkpoint.session.migration import migrate
from checkpoint.store.port import ObjectStore
from runner.start import drop_failed_tail, pending_questions
from runner.takeover import LastTurn, last_turn
from settlement.outcome import BeforeRunFailure


class Kept(Struct, frozen=True):
    """The restored state, before this pipeline (earlier attempts included) appended anything."""

    entries: int
    bytes: int
    leaf_id: str | None


class OpenSession(Struct, frozen=True):
    path: Path
    log: SessionLog
    messages: list[Message]
    """The agent's transcript; failed answers at its end are left out."""
    system_prompt: str | None
    thinking_level: str
    model: JsonObject | None
    pending: tuple[str, ...]
    """Ids of the tool calls whose questions wait for an answer."""
    pending_questions: tuple[PendingQuestion, ...]
    """The same as the restored manifest had them, with their ids."""
    parent: RestorePoint | None
    stored: Stored
    counted: Counters | None
    """What the session had used when the pipeline began, where a manifest or the progress tells it."""
    kept: Kept
    warnings: tuple[str, ...]
    progress: Progress | None = None
    """Of the attempt that was taken over."""
    last_turn: LastTurn | None = None
    """What a taken-over transcript ends with."""

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """Further transcripts that earlier attempts have stored."""
        return self.progress.files if self.progress is not None else ()

    @property
    def input_consumed(self) -> bool:
        """Whether an earlier attempt has taken the pipeline's input into the session."""
        return self.progress is not None and self.progress.input_consumed

    def base(self) -> ProgressBase:
        """The session as the first attempt restored it."""
        if self.progress is not None and self.progress.base is not None:
            return self.progress.base
        kept = self.kept
        digest = self.parent.digest if self.parent is not None else None
        return ProgressBase(
            entries=kept.entries, bytes=kept.bytes, leaf_id=kept.leaf_id, digest=digest, counters=self.counters()
        )

    def counters(self) -> Counters:
        """What the session had used before this pipeline; reads the whole log if no manifest told it."""
        if self.counted is None and not self.kept.entries:
            return Counters()
        return self.counted if self.counted is not None else count_session(self.path, self.kept.bytes)


def open_session(
    store: ObjectStore,
    head: Head,
    folder: Path,
    *,
    on_damage: OnDamage,
    workspace: Path,
    ask_tools: frozenset[str],
    other_store: OtherStore | None,
) -> OpenSession | BeforeRunFailure:
    """Restore what the claimed head names, into `folder`; a new session if it names nothing."""
    restore, progress = head.fields.restore, head.fields.progress
    path = folder / "session.jsonl"
    if restore is None and progress is None:
        return _new(path, workspace)
    indexer = SessionIndexer(on_damage)
    try:
        fetched = fetch(store, restore, path, indexer, progress=progress, other_store=other_store)
        return _restored(fetched, indexer, on_damage, ask_tools, progress)
    except RestoreFailed as error:
        return BeforeRunFailure("restore_failed", error.message)
    except SessionDamaged as error:
        return BeforeRunFailure("restore_failed", str(error))


def _new(path: Path, workspace: Path) -> OpenSession:
    log = SessionLog.create(path, new_header(str(workspace)))
    return OpenSession(
        path=path,
        log=log,
        messages=[],
        system_prompt=None,
        thinking_level="off",
        model=None,
        pending=(),
        pending_questions=(),
        parent=None,
        stored=NOTHING_STORED,
        counted=Counters(),
        kept=Kept(0, 0, None),
        warnings=(),
    )


def _restored(
    fetched: Fetched,
    indexer: SessionIndexer,
    on_damage: OnDamage,
    ask_tools: frozenset[str],
    progress: Progress | None,
) -> OpenSession:
    path, stored, index = fetched.path, fetched.stored, indexer.finish()
    if stored.size > index.keep_bytes:
        stored = NOTHING_STORED  # the end of what was stored is cut off: the session is stored anew, whole
    if index.needs_migration:
        path, stored = path.with_name("session.v3.jsonl"), NOTHING_STORED
        index = migrate(fetched.path, path, on_damage)
    context = load_context(path, index)
    keep = drop_failed_tail(context.messages)
    messages = context.messages[:keep]
    manifest = fetched.manifest
    # With progress on top, the log has gone on behind the manifest, which then says nothing about its end.
    current = manifest is not None and progress is None
    listed = manifest.pending_questions if manifest is not None and current else ()
    log = SessionLog.open(path, index)
    return OpenSession(
        path=path,
        log=log,
        messages=messages,
        system_prompt=context.system_prompt,
        thinking_level=context.thinking_level,
        model=context.model,
        pending=(
            tuple(question.tool_call_id for question in listed)
            if current
            else tuple(pending_questions(messages, ask_tools))
        ),
        pending_questions=listed,
        parent=fetched.parent,
        stored=stored,
        counted=_counted(manifest, progress),
        kept=Kept(log.entries, log.size, log.leaf_id) if progress is None else _kept_before(manifest, progress),
        warnings=tuple(dict.fromkeys((*(progress.warnings if progress is not None else ()), *index.warnings))),
        progress=progress,
        last_turn=last_turn(messages, context.entry_ids[:keep]) if progress is not None else None,
    )


def _counted(manifest: Manifest | None, progress: Progress | None) -> Counters | None:
    if progress is not None and progress.base is not None:
        return progress.base.counters
    return manifest.counters if manifest is not None else None


def _kept_before(manifest: Manifest | None, progress: Progress) -> Kept:
    """What was there before the progress."""
    if progress.base is not None:
        return Kept(progress.base.entries, progress.base.bytes, progress.base.leaf_id)
    return Kept(manifest.entries, manifest.bytes, manifest.leaf_id) if manifest is not None else Kept(0, 0, None)
