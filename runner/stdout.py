"""Standard output: agent events while they happen (`--events`), and always, last, the `settled` line.

A thread of its own writes, so that a reader that stalls can slow nothing down; `close` waits a bounded time for it.
"""

import json
import os
import queue
import threading
from contextlib import suppress

from checkpoint.jsontypes import JsonObject

FLUSH_S = 10.0
STOPPED_FLUSH_S = 2.0
"""The same once a stop was requested: who stopped us does not wait long."""


def take_standard_output() -> int:
    """A descriptor of standard output for JSON lines only. What tools of the launch print goes to standard error."""
    own = os.dup(1)
    os.dup2(2, 1)
    return own


class JsonLines:
    """Writes JSON objects, one a line, to a file descriptor, in order; of any thread. A closed pipe is noticed and
    ignored.
    """

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def write(self, value: JsonObject) -> None:
        self._lines.put(_json_text(value) + b"\n")
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._starting:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._work, daemon=True, name="stdout")
            with suppress(RuntimeError):  # the host has no thread left: `close` writes by itself
                thread.start()
                self._thread = thread

    @property
    def unread(self) -> int:
        """Lines that the reader has not taken yet, about."""
        return self._lines.qsize()

    def close(self, timeout_s: float = FLUSH_S) -> bool:
        """Flush; False if the reader did not take everything within `timeout_s`."""
        if self._thread is None:
            return self._write_by_itself()
        self._lines.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _write_by_itself(self) -> bool:
        """Without a thread: what the reader does not take within a second is dropped."""
        if self._lines.empty():
            return True
        from runner.logs import LogOutput

        output, taken = LogOutput(self._descriptor), True
        while not self._lines.empty():
            taken = output.write((self._lines.get() or b"").decode()) and taken
        return taken

    def _work(self) -> None:
        open_for_writing = True
        while (line := self._lines.get()) is not None:
            while line and open_for_writing:
                try:
                    line = line[os.write(self._descriptor, line) :]
                except BlockingIOError:
                    threading.Event().wait(0.01)
                except OSError:
                    open_for_writing = False


def _json_text(value: JsonObject) -> bytes:
    """On one line; NaN and infinities become null, as JSON.stringify has it. Whatever its depth."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (ValueError, RecursionError):
        from checkpoint.session.encoding import encode

        return encode(value)
