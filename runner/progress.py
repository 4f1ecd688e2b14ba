"""Keeps the stored progress close behind the run, on a thread of its own.

One save at a time, always of the newest snapshot: what piles up behind a slow store becomes one save. A failed or slow
save is reported and changes nothing else: the next snapshot holds what it was about. Who must know that something is
stored (`recorded`) waits for it. Refuses to begin anything once it is closed: the final upload has the store to itself.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from checkpoint.errors import CheckpointError
from checkpoint.head import Updated
from checkpoint.head_writer import WriteResult
from checkpoint.overlap import quick_switching
from checkpoint.progress import Snapshot

SLOW_S = 10.0
"""A save that takes longer is reported as slow."""
RETRY_PAUSE_S = 0.5
"""Between the tries of a save that somebody waits for."""
_LASTING = frozenset({"denied", "missing_bucket", "misconfigured", "unsafe_conditions", "damaged_record"})
"""Failures that no further try will mend."""


class Saving(Protocol):
    """Where progress goes. Blocking; raises `CheckpointError` or OSError for what may go wrong."""

    def store(self, snapshot: Snapshot, *, merge: bool) -> None:
        """Store what the snapshot has beyond the one before. Nothing refers to it yet."""
        ...

    def point(self, snapshot: Snapshot) -> WriteResult:
        """Point the head to what was stored last."""
        ...


class Trouble(Struct, frozen=True):
    """A save that went wrong, or took too long. `kind` is stable: each is reported once."""

    kind: str
    message: str


Settled: TypeAlias = Trouble | None
"""What became of a save; None: it is stored, and the head points to it."""


class ProgressRecorder:
    """Give `offer` the newest snapshot whenever there is one. Belongs to one event loop.

    `on_trouble` hears of each kind of trouble once, `on_lost` of a head that is no longer ours to write; both are
    called in the loop. `may_merge`: whether there is time to merge small segments.
    """

    def __init__(
        self,
        saving: Saving,
        *,
        on_trouble: Callable[[Trouble], object],
        on_lost: Callable[[WriteResult], object],
        may_merge: Callable[[], bool],
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self._saving = saving
        self._on_trouble = on_trouble
        self._on_lost = on_lost
        self._may_merge = may_merge
        self._sleep = sleep
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._next: Snapshot | None = None
        self._storing: Snapshot | None = None
        self._busy = False
        """A save is under way."""
        self._closed = False
        self._thread: threading.Thread | None = None
        self._reported: set[str] = set()
        self._pointed = 0
        """The log's size up to which the head's progress goes."""
        self._waiting: list[tuple[int, asyncio.Future[Settled]]] = []
        self._segments_in: asyncio.Future[None] | None = None
        self.lost = False

    def offer(self, snapshot: Snapshot) -> None:
        """Have it saved soon, unless a newer one comes first."""
        with self._changed:
            if self._closed or self.lost:
                return
            self._next = snapshot
            self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="progress")
            self._thread.start()

    async def recorded(self, snapshot: Snapshot) -> Settled:
        """Have it saved and wait for that, trying again while trying may help. Bound it from outside."""
        while self._pointed < snapshot.size:
            saved: asyncio.Future[Settled] = self._loop.create_future()
            self._waiting.append((snapshot.size, saved))
            self.offer(snapshot)
            if self._closed or self.lost:
                return Trouble("lost", "another process owns the pipeline")
            trouble = await saved
            if trouble is not None:
                if trouble.kind in _LASTING:
                    return trouble
                await self._sleep(RETRY_PAUSE_S)
        return None

    async def close(self, size: int, within_s: float) -> None:
        """Take nothing any more. Waits, bounded, for lines that are on their way if they reach to `size`, the end of
        the log: they need not be sent again then. What still waits behind another save is dropped, for the final
        upload would have to wait for it.
        """
        with self._changed:
            self._closed = True
            if self._busy or (self._next is not None and self._next.size != size):
                self._next = None
            coming = self._next or self._storing
            if coming is not None and coming.size == size:
                self._segments_in = self._loop.create_future()
            self._changed.notify_all()
        if self._segments_in is not None:
            await asyncio.wait({self._segments_in}, timeout=within_s)

    # --- the thread -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (snapshot := self._taken()) is not None:
            began = time.monotonic()
            with quick_switching():
                settled = self._save(snapshot)
            with self._changed:
                self._busy = False
            took = time.monotonic() - began
            if took > SLOW_S and settled is None:
                self._tell(self._report, Trouble("slow", f"a save took {took:.0f} s"))
            self._tell(self._settle, snapshot.size, settled)

    def _taken(self) -> Snapshot | None:
        """The next snapshot to save; None once there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._next is not None or self._closed)
            snapshot, self._next = self._next, None
            self._storing = snapshot
            self._busy = snapshot is not None
            return snapshot

    def _save(self, snapshot: Snapshot) -> Settled:
        try:
            self._saving.store(snapshot, merge=self._may_merge())
            self._segments_are_in()
            result = self._saving.point(snapshot)
        except (CheckpointError, OSError) as error:
            return Trouble(error.reason if isinstance(error, CheckpointError) else "disk", str(error))
        except Exception as error:  # noqa: BLE001 - a defect here must not keep the run from going on
            return Trouble("defect", f"a defect of the runner ({type(error).__name__})")
        finally:
            self._segments_are_in()
        if isinstance(result, Updated):
            return None
        self._tell(self._lose, result)
        return Trouble("lost", "another process owns the pipeline")

    def _segments_are_in(self) -> None:
        with self._changed:
            self._storing = None
            waiting = self._segments_in
        if waiting is not None:
            self._tell(_let_go, waiting)

    def _tell(self, function: Callable[..., object], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(function, *arguments)

    # --- in the loop ------------------------------------------------------------------------------------------

    def _settle(self, size: int, settled: Settled) -> None:
        if settled is None:
            self._pointed = max(self._pointed, size)
        elif settled.kind != "lost":
            self._report(settled)
        still: list[tuple[int, asyncio.Future[Settled]]] = []
        for wanted, waiting in self._waiting:
            if wanted > size and not self.lost:
                still.append((wanted, waiting))
            elif not waiting.done():
                waiting.set_result(settled)
        self._waiting = still

    def _report(self, trouble: Trouble) -> None:
        if trouble.kind not in self._reported:
            self._reported.add(trouble.kind)
            self._on_trouble(trouble)

    def _lose(self, result: WriteResult) -> None:
        if not self.lost and not self._closed:  # afterwards the final commit finds out by itself, or was it
            self.lost = True
            self._on_lost(result)


def _let_go(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)
