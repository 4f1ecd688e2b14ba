"""The middle of the story: restore the session, run the main agent, freeze what came of it.

Whatever happens here becomes facts of the outcome, defects too: the claim is ours, so it is ours to settle. Only a
store that fails while restoring ends the process without a settlement, because a relaunch may fare better.
"""

import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from checkpoint.errors import CheckpointFailed, DamagedRecord, StoreError
from checkpoint.freeze import Candidate, freeze
from checkpoint.head import Head
from checkpoint.session.errors import SessionLogBroken
from runner.agent_run import AgentRun, run_main_agent
from runner.errors import RunnerError
from runner.parts import BULK_S, Parts
from runner.session import OpenSession, open_session
from runner.tooling import close_tools
from settlement.outcome import AbortReason, BeforeRunFailure, Outcome

FREEZE_S = 120.0
TOOLS_END_S = 30.0
DRAIN_S = 15.0
"""For questions on their way when a defect ends the run."""
_OF_THE_RESTORE_POINT = ("misconfigured", "missing_bucket", "too_large")
"""The store was good enough for the claim: these speak of what is to be restored, and no relaunch would help."""


class Work(Struct):
    """What this process has in hand between claim and commit."""

    outcome: Outcome
    session: OpenSession | None = None
    run: AgentRun | None = None
    candidate: Candidate | None = None
    restore_ms: int = 0
    agent_ms: int = 0
    upload_ms: int = 0


async def do_the_work(parts: Parts, head: Head) -> Work:
    """From the claim to a frozen candidate. A defect becomes an outcome too: the claim is ours to settle."""
    work = Work(Outcome())
    try:
        await _restore(parts, head, work)
        if work.session is not None:
            await _run(parts, work.session, work)
    except RunnerError:
        raise
    except Exception as error:
        parts.log.exception("defect")
        questions = work.outcome.questions
        gate = work.run.gate if work.run is not None else None
        if gate is not None:
            gate.close()
            await gate.drain(parts.timebox.remaining("agent", DRAIN_S))
            questions = gate.sent
        work.outcome = replace(work.outcome, defect=type(error).__name__, questions=questions)
    if parts.control is not None:
        ended = parts.control.end()
        work.outcome = replace(work.outcome, undelivered=ended.undelivered, steered=ended.logged)
    await _freeze(parts, work)
    if parts.ending is not None:
        raise parts.ending
    return work


async def _restore(parts: Parts, head: Head, work: Work) -> None:
    spec, began = parts.spec, time.monotonic()
    parts.standing.phase = "restore"

    def restore() -> OpenSession | BeforeRunFailure:
        return open_session(
            parts.store,
            head,
            parts.folder,
            on_damage=spec.session.on_damage,
            workspace=parts.workspace,
            ask_tools=parts.ask_tools,
            other_store=parts.other_store,
        )

    try:
        opened = await _unless_stopped(parts, restore) if parts.stop.since is None else None
    except (SessionLogBroken, OSError) as error:  # the store's own failures are no OSErrors
        detail = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        work.outcome = replace(work.outcome, log_broken=f"the session log could not be written ({detail})")
        return
    if opened is None:
        work.outcome = replace(work.outcome, aborted_for=_abort_reason(parts))
        return
    work.restore_ms = ms_since(began)
    if isinstance(opened, BeforeRunFailure):
        work.outcome = replace(work.outcome, before_run=opened)
        return
    work.session = opened
    parts.log.info(
        "restored",
        entries=opened.kept.entries,
        bytes=opened.kept.bytes,
        ms=work.restore_ms,
        warnings=list(opened.warnings),
    )


async def _unless_stopped(
    parts: Parts, restore: Callable[[], OpenSession | BeforeRunFailure]
) -> OpenSession | BeforeRunFailure | None:
    """The restored session; None if a stop left no time for it."""
    try:
        return await parts.timebox.blocking("agent", BULK_S, restore)
    except TimeoutError:
        if parts.stop.since is not None:
            return None
        raise parts.failed("restore_timeout", f"the session was not restored within {BULK_S:g} s") from None
    except StoreError as error:
        if error.reason in _OF_THE_RESTORE_POINT:
            return BeforeRunFailure("restore_failed", error.message)
        raise parts.failed(error.reason, error.message) from error
    except DamagedRecord as error:
        raise parts.failed(error.reason, error.message) from error


async def _run(parts: Parts, session: OpenSession, work: Work) -> None:
    began = time.monotonic()
    parts.standing.phase = "agent"
    work.run = AgentRun()
    work.outcome = await run_main_agent(parts, session, work.run)
    work.agent_ms = ms_since(began)
    parts.log.info("agent_ended", ms=work.agent_ms, turns=work.run.usage.turns, requests=work.run.usage.requests)


async def _freeze(parts: Parts, work: Work) -> None:
    """End every tool, close the log; from here on nothing about the checkpoint depends on running code."""
    parts.standing.phase = "freeze"
    toolbox = work.run.toolbox if work.run is not None else None
    try:
        await parts.timebox.within("freeze", TOOLS_END_S, close_tools(parts, toolbox))
    except TimeoutError:  # what ignores even SIGKILL for so long is left to the sandbox's end
        parts.log.warning("tools_not_ended")
    except Exception:
        parts.log.exception("tools_not_closed")
    session = work.session
    if session is None:
        return
    progress = work.run.progress if work.run is not None else None
    if progress is not None:
        await progress.close()
    stored = progress.stored if progress is not None else session.stored
    log = session.log
    broken = log.broken
    log.close()
    if broken is not None:
        work.outcome = replace(work.outcome, log_broken=work.outcome.log_broken or broken)
        return

    def freeze_log() -> Candidate:
        return freeze(session.path, size=log.size, entries=log.entries, leaf_id=log.leaf_id, stored=stored)

    try:
        work.candidate = await parts.timebox.blocking("freeze", FREEZE_S, freeze_log)
    except (CheckpointFailed, OSError) as error:  # TimeoutError is an OSError
        detail = str(error) or "the session log could not be synced to disk in time"
        work.outcome = replace(work.outcome, log_broken=detail)


def _abort_reason(parts: Parts) -> AbortReason:
    return "deadline_exceeded" if parts.stop.reason == "deadline_exceeded" else "cancelled"


def ms_since(began: float) -> int:
    return int((time.monotonic() - began) * 1000)
