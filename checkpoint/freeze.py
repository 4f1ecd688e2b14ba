"""Freeze: from a closed session log to a checkpoint candidate, a fixed range of bytes on disk.

After the freeze nothing about the checkpoint depends on running code any more: tools are ended, the log is
closed, its bytes are on disk, its length and digest are known. Refuses a log that is shorter than what was
appended.
"""

import hashlib
import os
from pathlib import Path

from msgspec import Struct

from checkpoint.errors import CheckpointFailed
from checkpoint.manifest import Segment
from checkpoint.segments import PIECE_BYTES, total_bytes


class Stored(Struct, frozen=True):
    """The leading bytes of a session log that the store holds already.

    `restored` came from the restored manifest (never sent again), `own` were stored by this pipeline (its
    progress).
    """

    restored: tuple[Segment, ...] = ()
    own: tuple[Segment, ...] = ()

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self.restored + self.own

    @property
    def size(self) -> int:
        return total_bytes(self.segments)


NOTHING_STORED = Stored()


class Candidate(Struct, frozen=True):
    """What a checkpoint is made of: the first `size` bytes of the log at `path`."""

    path: Path
    size: int
    entries: int
    leaf_id: str | None
    stored: Stored
    digest: str
    """sha256 of the bytes behind `stored`: those that are still to be stored."""


def freeze(path: Path, *, size: int, entries: int, leaf_id: str | None, stored: Stored) -> Candidate:
    """Cut what lies behind the last whole line (a partial append), fsync, and take length and digest.

    `size` is the length up to the last line that was appended whole, as the closed log knows it. Takes one
    read of the bytes that are not stored yet. Raises `CheckpointFailed` if the log lost bytes or does not
    end in a line, and OSError if the disk fails.
    """
    if stored.size > size:
        stored = NOTHING_STORED  # restoring cut the end of what was stored: the session is stored anew, whole
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        found = os.fstat(file).st_size
        if found < size:
            raise CheckpointFailed(
                "log_changed",
                f"The session log {path.name} has {found} bytes instead of {size}: it was tampered with.",
            )
        if found > size:
            os.ftruncate(file, size)
        os.fsync(file)
        if size and os.pread(file, 1, size - 1) != b"\n":
            raise CheckpointFailed("log_changed", f"The session log {path.name} does not end in a whole line.")
        digest = _digest(file, stored.size, size)
    finally:
        os.close(file)
    return Candidate(path, size, entries, leaf_id, stored, digest)


def _digest(file: int, start: int, end: int) -> str:
    digest = hashlib.sha256()
    while start < end:
        piece = os.pread(file, min(PIECE_BYTES, end - start), start)
        if not piece:
            raise CheckpointFailed("log_changed", "The session log became shorter while it was frozen.")
        digest.update(piece)
        start += len(piece)
    return f"sha256:{digest.hexdigest()}"
