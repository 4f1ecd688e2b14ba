"""The first lines of the process: what makes it unreadable to the tools that it will start.

To be called before any secret is read. Refuses nothing: what a host does not offer shows in the start-up attack.
"""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress


def harden_process() -> None:
    """Not dumpable, no core files, and the adoptive parent of every orphan among the tools' processes."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    from runner.isolation import kernel

    with suppress(OSError):
        kernel.set_dumpable(False)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        kernel.become_subreaper()


def wipe_from_environment(names: Iterable[str]) -> None:
    """Overwrite the values of these variables in the block that the process was started with.

    Removing a variable leaves its value in that block, where `/proc/<pid>/environ` shows it to every process that may
    look. Best effort: the start-up attack finds what is left. To be called after `os.environ` has lost the names.
    """
    if not sys.platform.startswith("linux"):
        return
    wanted = {os.fsencode(name) for name in names}
    if not wanted:
        return
    with suppress(OSError, ValueError, IndexError):
        _wipe(wanted)


def _wipe(names: set[bytes]) -> None:
    import ctypes
    from pathlib import Path

    # The fields after the name of the program, which may hold anything; environment start and end are 50 and 51.
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[50 - 3]), int(fields[51 - 3])
    if not 0 < start < end:
        return
    block = Path("/proc/self/environ").read_bytes()
    offset = 0
    for entry in block.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name in names and start + offset + len(entry) <= end:
            ctypes.memset(start + offset + len(name) + 1, 0, len(value))
        offset += len(entry) + 1
