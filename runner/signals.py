"""SIGTERM and SIGINT set a sticky reason; nothing is decided in a handler.

The latch is installed before anything heavy is imported, so that a signal during start-up is not lost, and is later
joined to the event loop, which is woken by it. Others may ask for a stop, too: the deadline, the control channel, the
server's answer to a heartbeat, each from a thread of its own. A pause is the weakest of all: it waits for the running
turn, so no grace runs yet, and whatever else is asked for takes its place.
"""

import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Literal, TypeAlias

from runner.errors import StoppedBeforeCommit

if TYPE_CHECKING:
    import asyncio  # heavy: the handlers stand before it is imported

StopReason: TypeAlias = Literal["cancelled", "paused", "deadline_exceeded"]


class StopLatch:
    """The first reason to stop stays; a second signal makes it urgent. `clock` is monotonic, in seconds.

    Takes no lock, because a signal's handler could wait for one that its own thread holds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._woken: list[asyncio.Event] = []
        self._loop: tuple[asyncio.AbstractEventLoop, int] | None = None
        self._paused = False
        self._first: dict[str, tuple[StopReason, float]] = {}
        self.signal: str | None = None
        self.urgent = False
        self._interrupts = False

    @property
    def reason(self) -> StopReason | None:
        first = self._first.get("stop")
        if first is not None:
            return first[0]
        return "paused" if self._paused else None

    @property
    def since(self) -> float | None:
        """When the grace began; None as long as there is no stop, or only a pause."""
        first = self._first.get("stop")
        return None if first is None else first[1]

    def request(self, reason: StopReason, *, signal_name: str | None = None) -> None:
        """Set the reason (first wins; a pause counts as none). Called again by a signal: do not wait for the agent any
        more. From any thread.
        """
        if reason == "paused":
            self._paused = True
        else:
            self._stop((reason, self._clock()), signal_name)
        self._wake()

    def _stop(self, request: tuple[StopReason, float], signal_name: str | None) -> None:
        first = self._first.setdefault("stop", request)  # one step, so that of several threads one is the first
        if signal_name is None:
            return
        if first is request or self.signal is None:
            self.signal = signal_name
        else:
            self.urgent = True

    def _wake(self) -> None:
        if self._loop is None or self._loop[1] == threading.get_ident():
            self._set_events()
        else:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop[0].call_soon_threadsafe(self._set_events)

    def _set_events(self) -> None:
        for event in self._woken:
            event.set()

    def install(self) -> None:
        """Catch SIGTERM and SIGINT for this process."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def release(self) -> None:
        """Give the signals back to the system: for commands that may be killed at any time."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)

    @contextmanager
    def interrupting(self) -> Generator[None]:
        """Meanwhile a signal raises StoppedBeforeCommit: a read that never ends (the spec from a pipe) would not
        notice the latch. Only for work without side effects.
        """
        self._interrupts = True
        try:
            self._raise_if_stopped()
            yield
        finally:
            self._interrupts = False

    def _raise_if_stopped(self) -> None:
        if self.reason is not None and self._interrupts:
            raise StoppedBeforeCommit(
                "stopped_before_commit",
                f"{self.signal or self.reason} came before the pipeline was claimed: launch it again",
            )

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.request("cancelled", signal_name=signal.Signals(number).name)
        self._raise_if_stopped()

    def join_loop(self, loop: "asyncio.AbstractEventLoop") -> None:
        """From now on requests wake `loop`, which is this thread's. The latch is set beside it, so also where something
        holds the loop.
        """
        self._loop = (loop, threading.get_ident())
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _only_wake)
            signal.signal(number, self._on_signal)

    async def wait(self) -> None:
        """Return once a stop was requested."""
        await self._wait(lambda: self.reason is not None)

    async def wait_abort(self) -> None:
        """Return once the agent is to be aborted: for everything but a pause."""
        await self._wait(lambda: self.reason in ("cancelled", "deadline_exceeded"))

    async def wait_urgent(self) -> None:
        """Return once nobody should wait for the agent any more."""
        await self._wait(lambda: self.urgent)

    async def _wait(self, reached: Callable[[], bool]) -> None:
        import asyncio

        event = asyncio.Event()
        self._woken.append(event)
        try:
            while not reached():
                event.clear()
                await event.wait()
        finally:
            self._woken.remove(event)


def _only_wake() -> None:
    """The loop's own part in a signal: its next round sees what the latch has set."""
