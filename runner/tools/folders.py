"""The two folders that tools see: the workspace, and the folder in which outputs are kept that are too long to show.

The runner writes the latter and tools only read it; it lies outside of the workspace, because a tool could put a link
where the runner is about to write. Refuses to keep more than so much, per file and in all: output never ends by itself.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

MAX_KEPT_BYTES = 16 * 1024 * 1024
"""Of one output."""
MAX_ALL_KEPT_BYTES = 256 * 1024 * 1024
"""Of all outputs of a run."""


@dataclass(slots=True)
class ToolFolders:
    """`outputs` must exist, belong to the runner, and be readable (not writable) for tools."""

    workspace: Path
    outputs: Path
    _left: int = MAX_ALL_KEPT_BYTES
    _names: set[str] = field(default_factory=set[str])

    def keep(self, name: str) -> "KeptOutput":
        """A new file in the folder of outputs. Raises OSError."""
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "output"
        number = 1
        while f"{stem}-{number}.txt" in self._names:
            number += 1
        self._names.add(f"{stem}-{number}.txt")
        path = self.outputs / f"{stem}-{number}.txt"
        file = path.open("xb", buffering=0)
        os.fchmod(file.fileno(), 0o644)  # for tools of another user, whatever our umask
        return KeptOutput(path, file, self)

    def take(self, size: int) -> int:
        """How many of `size` bytes may still be kept; they are counted."""
        taken = min(size, self._left)
        self._left -= taken
        return taken


class KeptOutput:
    """One kept output: its beginning, and where the limit cut it, a line that says so and its end."""

    def __init__(self, path: Path, file: BinaryIO, folders: ToolFolders) -> None:
        self.path = path
        self.dropped = 0
        """Bytes that are not in the file."""
        self.problem: str | None = None
        """Why the file is not whole, if the disk would not take it."""
        self._file = file
        self._folders = folders
        self._room = MAX_KEPT_BYTES

    def write(self, data: bytes) -> None:
        """Keep as much as the limits allow. Never raises."""
        taken = 0
        if self.problem is None and not self.dropped:
            taken = self._folders.take(min(len(data), self._room))
            self._room -= taken
            taken = self._stored(data[:taken])
        self.dropped += len(data) - taken

    def close(self, tail: bytes) -> None:
        """End the file; `tail` is the end of everything that was given to `write`."""
        if self.dropped and self.problem is None:
            tail = tail[max(0, len(tail) - self.dropped) :]
            self.dropped -= len(tail)
            self._stored(b"\n[... %d bytes dropped ...]\n" % self.dropped + tail)
        self._file.close()

    def _stored(self, data: bytes) -> int:
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            self.problem = error.strerror or type(error).__name__
        return len(data) - len(view)
