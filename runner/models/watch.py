"""Waits that end at once when the run is aborted, and never outlast their limit.

One timer per answer, moved only when it fires: a timer per received piece would cost more than reading the
piece.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from runner.agent.abort import AbortSignal

T = TypeVar("T")


class Interrupted(Exception):
    """A wait was ended. `aborted`: by the run's signal; else `silence_s` passed, or the total time did."""

    def __init__(self, *, aborted: bool, limit_s: float = 0.0, total: bool = False) -> None:
        super().__init__("aborted" if aborted else f"nothing came within {limit_s:g} s")
        self.aborted = aborted
        self.limit_s = limit_s
        self.total = total


class Watch:
    def __init__(self, signal: AbortSignal | None, total_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._signal = signal
        self._total_s = total_s
        self._deadline = self._loop.time() + total_s
        self._due = self._deadline
        self._limit_s = total_s
        self._task: asyncio.Task[object] | None = None
        self._why: Interrupted | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._forget = signal.on_abort(self._abort) if signal is not None else None

    async def wait(self, start: Callable[[], Awaitable[T]], limit_s: float) -> T:
        """The awaited value; `Interrupted` at the abort or after `limit_s`. Nothing is started once
        aborted."""
        if self._signal is not None and self._signal.aborted:
            raise Interrupted(aborted=True)
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        self._task, self._why, self._limit_s = task, None, limit_s
        self._due = min(self._loop.time() + limit_s, self._deadline)
        if self._timer is None or self._timer.when() > self._due:
            self._arm()
        try:
            return await start()
        except asyncio.CancelledError:
            why: Interrupted | None = self._why
            if why is not None and task.uncancel() <= before:
                raise why from None
            raise
        finally:
            self._task = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._forget is not None:
            self._forget()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._task is None:
            return  # whoever waits next arms it again
        if self._loop.time() < self._due:
            self._arm()
            return
        total = self._due >= self._deadline
        self._interrupt(Interrupted(aborted=False, limit_s=self._total_s if total else self._limit_s, total=total))

    def _abort(self) -> None:
        self._interrupt(Interrupted(aborted=True))

    def _interrupt(self, why: Interrupted) -> None:
        if self._task is not None and self._why is None:
            self._why = why
            self._task.cancel()
