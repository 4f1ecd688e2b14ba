"""The time each phase of the pipeline may take: its own bound, and the grace once a stop was requested.

A stop that arrives in the middle of a phase shortens the phase that is under way.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from runner.blocking import call_blocking
from runner.grace import Grace, Phase
from runner.signals import StopLatch

T = TypeVar("T")


class Timebox:
    """`clock` is monotonic, in seconds."""

    def __init__(self, stop: StopLatch, grace_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._stop = stop
        self._grace_s = grace_s
        self._clock = clock

    def remaining(self, phase: Phase, bound_s: float) -> float:
        """Seconds that a step of `phase` may still take now."""
        if self._stop.since is None:
            return bound_s
        return min(bound_s, Grace(self._stop.since, self._grace_s).remaining(phase, self._clock()))

    async def blocking(self, phase: Phase, bound_s: float, function: Callable[[], T]) -> T:
        """Run a blocking call within the phase. Raises TimeoutError; the call itself is left behind."""
        return await self.within(phase, bound_s, call_blocking(function, timeout_s=bound_s))

    async def within(self, phase: Phase, bound_s: float, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` within the phase; it is cancelled, and TimeoutError raised, when the time is up."""
        task = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self._stop.wait_abort())
        end = self._clock() + bound_s
        try:
            while True:
                left = min(end - self._clock(), self.remaining(phase, bound_s))
                waiting: set[asyncio.Future[Any]] = {task} if stopped.done() else {task, stopped}
                await asyncio.wait(waiting, timeout=max(left, 0.0), return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    return task.result()
                if min(end - self._clock(), self.remaining(phase, bound_s)) <= 0:
                    raise TimeoutError(f"no end of the {phase} phase within its time")
        finally:
            stopped.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=1.0)
