"""Keeps tools from filling the disk that the runner needs for its session log.

No limit binds the sum of a user's files, so this looks at the free space while commands run, and has them ended where
it gets scarce and goes on shrinking. What they wrote stays; a command that makes room is left alone.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

LOOK_S = 0.1
LARGEST_RESERVE = 256 * 1024 * 1024
SHARE = 4
"""The reserve is at most this part of what is free at the start, so that a full disk is nobody's fault."""


def reserve(free_at_start: int) -> int:
    """Bytes that tools may not use up."""
    return min(LARGEST_RESERVE, free_at_start // SHARE)


def runs_out(free: int, before: int, kept: int) -> bool:
    """Whether commands have to be ended: less than the reserve is left, and less than at the last look."""
    return free < kept and free < before


def free_bytes(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


class DiskWatch:
    def __init__(self, folders: Iterable[str], free: Callable[[str], int] = free_bytes) -> None:
        self._free = free
        self._last: dict[str, int] = {}
        for folder in folders:
            with suppress(OSError):
                self._last[folder] = free(folder)
        self._kept = {folder: reserve(found) for folder, found in self._last.items()}

    def look(self) -> str | None:
        """The folder whose disk runs out, if one does."""
        scarce: str | None = None
        for folder, before in self._last.items():
            with suppress(OSError):
                found = self._free(folder)
                if runs_out(found, before, self._kept[folder]):
                    scarce = folder
                self._last[folder] = found
        return scarce
