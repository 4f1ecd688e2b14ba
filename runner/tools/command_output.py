"""The output of a command while it comes: its end in memory, all of it in a file once it is too long to show.

Memory is bounded whatever comes: a window of the last bytes. No I/O but the kept file.
"""

from typing import Any

from runner.tools.folders import KeptOutput, ToolFolders
from runner.tools.terminal_text import plain_text
from runner.tools.truncation import MAX_BYTES, MAX_LINES, Cut, keep_tail, size_text

WINDOW_BYTES = 4 * MAX_BYTES
"""More than is shown, since escape sequences are taken out."""
UPDATE_BYTES = 8 * 1024
"""Of an update: the end of the output so far."""


class CommandOutput:
    def __init__(self, folders: ToolFolders, name: str) -> None:
        self._folders = folders
        self._name = name
        self._window = bytearray()
        self._kept: KeptOutput | None = None
        self._not_kept: str | None = None
        self.total_bytes = 0
        self._line_ends = 0

    def feed(self, data: bytes) -> None:
        """Some more output; at most `WINDOW_BYTES` at once."""
        self.total_bytes += len(data)
        self._line_ends += data.count(b"\n")
        if self._kept is not None:
            self._kept.write(data)
        self._window += data
        if self._kept is None and (self.total_bytes > MAX_BYTES or self._line_ends > MAX_LINES):
            self._keep()
        if len(self._window) > 2 * WINDOW_BYTES:
            del self._window[:-WINDOW_BYTES]

    def _keep(self) -> None:
        """Begin the file, with all that has come: the window has not been cut yet."""
        if self._not_kept is not None:
            return
        try:
            self._kept = self._folders.keep(self._name)
        except OSError as error:
            self._not_kept = error.strerror or type(error).__name__
            return
        self._kept.write(bytes(self._window))

    def close(self) -> None:
        if self._kept is None and keep_tail(plain_text(bytes(self._window))).by is not None:
            self._keep()  # bytes that are no text have become longer as text
        if self._kept is not None:
            self._kept.close(bytes(self._window[-WINDOW_BYTES:]))

    def latest(self) -> str:
        """The end of the output so far, for an update."""
        return keep_tail(plain_text(bytes(self._window[-2 * UPDATE_BYTES :])), MAX_LINES, UPDATE_BYTES).text

    def shown(self) -> tuple[str, dict[str, Any]]:
        """The text for the model, and details. After `close`."""
        cut = keep_tail(plain_text(bytes(self._window)))
        text = cut.text.rstrip("\n")
        if cut.by is None and len(self._window) == self.total_bytes:
            return text, {}
        details: dict[str, Any] = {"truncated": cut.by or "bytes", "totalBytes": self.total_bytes}
        if self._kept is not None:
            details["fullOutputPath"] = str(self._kept.path)
        return f"{text}\n\n[{self._note(cut)}]", details

    def _note(self, cut: Cut) -> str:
        total = self._line_ends + (not self._window.endswith(b"\n"))
        part = f"The end of line {total}" if cut.inside_line else f"The last {cut.lines} of {total} lines"
        note = f"{part}, {size_text(len(cut.text.encode()))} of {size_text(self.total_bytes)}"
        if self._kept is None:
            return f"{note}. The rest was not kept ({self._not_kept})"
        note = f"{note}. Full output: {self._kept.path}"
        if self._kept.problem is not None:
            return f"{note}, not whole: {self._kept.problem}"
        return f"{note} ({self._kept.dropped} bytes dropped from its middle)" if self._kept.dropped else note
