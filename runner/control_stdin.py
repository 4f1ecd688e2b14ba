"""The control channel on standard input: commands come in there, answers go to standard output as lines of `control`.

Takes the descriptor away from everybody else, so that no child of a tool reads what is not meant for it. The end of
standard input means only that no more commands come. Stalls of the reader of standard output stall nothing but this.
"""

import os
import threading
from collections.abc import Callable, Iterator

from checkpoint.head import Head
from checkpoint.jsontypes import JsonObject
from runner.control import Control
from runner.control_lines import LineSplitter, TooLong
from runner.logs import Logger
from runner.stdout import JsonLines

MOST_UNREAD = 1000
"""Lines on their way to standard output beyond which no further command is read."""
_LOOK_EVERY_S = 0.05


def take_standard_input() -> int:
    """A descriptor of standard input for this process only; in its place stands the null device."""
    own = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return own


class StdinControl:
    """A `Channel`."""

    def __init__(
        self, control: Control, lines: JsonLines, log: Logger, take: Callable[[], int] = take_standard_input
    ) -> None:
        """`take` gives the descriptor to read from; it is called when the channel is opened."""
        self._control = control
        self._lines = lines
        self._log = log
        self._take = take
        self._answering = threading.Lock()
        self._closed = False

    def prepare(self) -> None:
        """There is nothing that could be found wrong."""

    def open(self, head: Head) -> None:
        del head
        descriptor = self._take()
        thread = threading.Thread(target=self._work, args=(descriptor,), daemon=True, name="control")
        try:
            thread.start()
        except RuntimeError as error:  # the host has no thread left
            self._log.warning("control_not_open", error=str(error))

    def close(self) -> None:
        with self._answering:
            self._closed = True

    def _work(self, descriptor: int) -> None:
        for line in _lines_of(descriptor):
            said = self._control.obey(line)
            if not self._answered(said):
                return

    def _answered(self, said: JsonObject) -> bool:
        while self._lines.unread > MOST_UNREAD and not self._closed:
            threading.Event().wait(_LOOK_EVERY_S)
        with self._answering:  # nothing may follow the `settled` line
            if not self._closed:
                self._lines.write(said)
            return not self._closed


def _lines_of(descriptor: int) -> Iterator[bytes | TooLong]:
    splitter = LineSplitter()
    try:
        while piece := os.read(descriptor, 64 * 1024):
            yield from splitter.feed(piece)
    except OSError:  # a terminal that is gone, or a descriptor that cannot be read
        return
    yield from splitter.finish()
