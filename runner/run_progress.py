"""The progress of one run: when what is saved, by `checkpoint.every` (docs/checkpoint.md, "Progress").

`turn`: after each finished turn, behind the run's back. `call`: besides, the message that calls tools is stored before
the first of them runs; the run waits for that. A tool must not run unrecorded, so if it cannot be stored the calls are
blocked and the process ends without a settlement (exit 75): a relaunch goes on from what is stored. Refuses to save
what an aborted or failed answer left: a takeover would ask again anyway.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import asdict

from checkpoint.freeze import Stored
from checkpoint.head import Fenced, ProgressStop
from checkpoint.head_writer import WriteResult
from checkpoint.manifest import StoredFile
from checkpoint.progress import ProgressWriter, Snapshot
from runner.agent.abort import AbortSignal
from runner.agent.types import (
    BeforeToolCall,
    BeforeToolCallContext,
    BeforeToolCallResult,
    ShouldStopAfterTurn,
    TurnContext,
)
from runner.errors import fenced
from runner.parts import Parts
from runner.progress import ProgressRecorder, Settled, Trouble
from runner.session import OpenSession
from runner.stop import StopPolicy, progress_stop
from runner.tools.aborting import unless_aborted
from runner.tools.errors import ToolFailed
from runner.usage import UsageTotals

RECORD_S = 60.0
"""For storing one assistant message before its tools run, all tries together."""
CLOSE_S = 10.0
"""For lines that are on their way when the run ends."""
MAX_WARNINGS, MAX_WARNING_CHARS = 20, 500
"""The head is read and written whole, so what it holds is bounded."""


class RunProgress:
    """`usage` is what the run counts into; `transcripts` gives the finished ones by name."""

    def __init__(
        self,
        parts: Parts,
        session: OpenSession,
        usage: UsageTotals,
        *,
        transcripts: Callable[[], Mapping[str, Path]],
        first_asked: Callable[[], str | None],
    ) -> None:
        self._parts = parts
        self._session = session
        self._usage = usage
        self._transcripts = transcripts
        self._first_asked = first_asked
        self._writer = ProgressWriter(
            parts.store, parts.head, parts.spec.session.id, session.path, session.stored, session.base, session.files
        )
        self._recorder = ProgressRecorder(
            self._writer,
            on_trouble=self._report,
            on_lost=self._lost,
            may_merge=lambda: parts.stop.since is None,
        )
        self._recorded_entry: str | None = None

    @property
    def stored(self) -> Stored:
        """What the store holds of the log by now."""
        return self._writer.stored

    @property
    def files(self) -> tuple[StoredFile, ...]:
        return self._writer.files

    async def close(self) -> None:
        """Nothing is saved any more; called before the log is frozen, which needs the rest of the phase's time."""
        await self._recorder.close(self._session.log.size, self._parts.timebox.remaining("freeze", CLOSE_S) / 2)

    # --- hooks of the agent -----------------------------------------------------------------------------------

    def after_turns(self, policy: StopPolicy) -> ShouldStopAfterTurn:
        """The policy's decision, with the finished turn saved under it."""

        def should_stop(turn: TurnContext, signal: AbortSignal | None) -> bool:
            stops = policy.should_stop_after_turn(turn, signal)
            stop, limit = progress_stop(policy.stop, another_turn=policy.another_turn)
            if self._session.log.broken is None and self._parts.ending is None:
                self._recorder.offer(self._snapshot(stop, limit))
            return stops or self._parts.ending is not None

        return should_stop

    def before_calls(self) -> BeforeToolCall | None:
        """For `every: call`; the same message is stored once, however many calls it makes."""
        return self._record_call if self._parts.spec.checkpoint.every == "call" else None

    async def _record_call(
        self, _context: BeforeToolCallContext, signal: AbortSignal | None
    ) -> BeforeToolCallResult | None:
        entry = self._session.log.last_assistant_entry_id
        if self._parts.ending is None and entry != self._recorded_entry:
            trouble = await self._recorded(signal)
            if trouble is None:
                self._recorded_entry = entry
            elif self._parts.ending is None and not (signal is not None and signal.aborted):
                self._give_up(trouble)
        if self._recorded_entry == entry:
            return None
        return BeforeToolCallResult(block=True, reason="The call was not made: it could not be recorded")

    async def _recorded(self, signal: AbortSignal | None) -> Settled:
        saving = self._recorder.recorded(self._snapshot(None, None))
        try:
            return await self._parts.timebox.within("agent", RECORD_S, unless_aborted(saving, signal, "The recording"))
        except TimeoutError:
            return Trouble("unreachable", f"the store did not take it within {RECORD_S:g} s")
        except ToolFailed:
            return Trouble("aborted", "the run was aborted")

    def _give_up(self, trouble: Trouble) -> None:
        self._parts.log.error("call_not_recorded", reason=trouble.kind, error=trouble.message)
        self._parts.ending = self._parts.failed(
            trouble.kind,
            "a tool call could not be recorded before it was made, as `checkpoint.every` asks, so it was not made: "
            f"{trouble.message}",
        )

    # --- what is saved, and what becomes of it ----------------------------------------------------------------

    def _snapshot(self, stop: ProgressStop | None, limit: str | None) -> Snapshot:
        log = self._session.log
        warnings = dict.fromkeys((*self._session.warnings, *self._parts.warnings))
        return Snapshot(
            size=log.size,
            entries=log.entries,
            leaf_id=log.leaf_id,
            usage=asdict(self._usage),
            input_consumed=True,
            stop=stop,
            interrupted_by=self._first_asked() if stop == "ask_user" else None,
            limit=limit,
            files=dict(self._transcripts()),
            warnings=tuple(warning[:MAX_WARNING_CHARS] for warning in warnings)[:MAX_WARNINGS],
        )

    def _report(self, trouble: Trouble) -> None:
        self._parts.log.warning("progress_not_stored", reason=trouble.kind, error=trouble.message)
        what = "was slow to be stored" if trouble.kind == "slow" else "could not be stored at times"
        self._parts.warnings.append(f"the run's progress {what} ({trouble.kind}): {trouble.message}")

    def _lost(self, result: WriteResult) -> None:
        """Somebody else has the pipeline: what this run still does is for nothing, so it is stopped now."""
        self._parts.log.warning("claim_lost", found=type(result).__name__)
        if isinstance(result, Fenced):
            self._parts.ending = fenced(result.head)
        else:
            self._parts.settled_by_another = result.head
        self._parts.stop.request("cancelled")
