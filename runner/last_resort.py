"""The bound on the whole process once it was asked to stop.

Every wait of the pipeline has its own bound, but they all need the event loop. A tool of the launch that blocks it (a
request without a timeout, an endless loop) would hold the process until somebody kills it, without a word. So a
thread beside the loop counts the grace as well: when it is over by more than `OVERTIME_S`, the process says how far it
came, and ends. Nothing is lost by that which a kill would not have lost; the claim is left for a takeover.

Refuses to decide what that ending is: whoever starts it knows. Cannot help where a tool holds the interpreter itself.
"""

import os
import threading
import time
from collections.abc import Callable

from runner.ending import Ending
from runner.signals import StopLatch
from runner.stdout import JsonLines

OVERTIME_S = 1.0
"""Beyond the grace: for what the phases need to notice that their time is over."""
FLUSH_S = 0.5
CLEAN_UP_S = 1.5
_LOOK_EVERY_S = 0.25


class LastResort:
    """`leave` ends the process with an exit code."""

    def __init__(self, lines: JsonLines, stop: StopLatch, leave: Callable[[int], object] = os._exit) -> None:
        self._lines = lines
        self._stop = stop
        self._leave = leave
        self._deciding = threading.Lock()
        self._ending: Ending | None = None

    def start(
        self,
        so_far: Callable[[], Ending],
        *,
        grace_s: float,
        ends: float,
        clean_up: Callable[[], object] = lambda: None,
    ) -> None:
        """Watch from now on. `ends`: the monotonic time at which the process stops by itself; `so_far`: how it would
        end now; `clean_up`: what must not stay behind (the tools' processes), given `CLEAN_UP_S`.
        """
        arguments = (so_far, grace_s, ends, clean_up)
        threading.Thread(target=self._watch, args=arguments, daemon=True, name="last-resort").start()

    def ended(self, ending: Ending) -> None:
        """The pipeline has ended by itself: from here on only the time to say so is bounded. Does not return if the
        process is being ended already.
        """
        self._deciding.acquire()  # never given back: whoever has it says how the process ends
        self._ending = ending

    def _watch(self, so_far: Callable[[], Ending], grace_s: float, ends: float, clean_up: Callable[[], object]) -> None:
        # Looked at now and then: a lock that a signal handler takes could be held by what the signal interrupts.
        while self._stop.since is None and (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_EVERY_S))
        since = self._stop.since if self._stop.since is not None else ends
        while (left := since + grace_s + OVERTIME_S - time.monotonic()) > 0:
            time.sleep(left)
        if not self._deciding.acquire(blocking=False):
            assert self._ending is not None, "who holds the lock has said how the process ends"
            self._leave(self._ending.exit_code)
            return
        self._ending = so_far()
        self._lines.write(self._ending.settled_line())
        self._lines.close(FLUSH_S)
        cleaning = threading.Thread(target=clean_up, daemon=True, name="clean-up")
        cleaning.start()
        cleaning.join(CLEAN_UP_S)
        self._leave(self._ending.exit_code)
