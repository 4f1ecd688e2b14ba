"""A control group that bounds the number of tool processes, where one can be had: the limit that binds root too.

Needs a writable hierarchy with the `pids` controller, which containers seldom have. Used only where tools run as root;
nothing else depends on it.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "pipeline-tools-"
LAUNCHERS = 2
"""The launcher and a command's watcher, which are no tools. (Several commands at once have a few processes less.)"""


@dataclass(frozen=True, slots=True)
class PidsGroup:
    folder: Path

    def add(self, pid: int) -> None:
        """Put a process into the group, and with it what it will start. Takes tens of milliseconds. Raises OSError."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        with suppress(OSError):
            self.folder.rmdir()


def make_pids_group(processes: int) -> PidsGroup | None:
    """A group of this limit below the runner's own group; None where the host does not allow it."""
    try:
        memberships = Path("/proc/self/cgroup").read_text()
    except OSError:
        return None
    for parent in pids_parents(memberships.splitlines()):
        remove_left(parent)
        folder = parent / f"{PREFIX}{os.getpid()}"
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            continue
        try:
            (folder / "pids.max").write_text(str(processes + LAUNCHERS))
        except OSError:
            PidsGroup(folder).remove()
            continue
        return PidsGroup(folder)
    return None


def remove_left(parent: Path) -> None:
    """Remove the groups of runners that were killed. One that holds processes stays: the kernel keeps it."""
    for folder in parent.glob(f"{PREFIX}*"):
        if not Path(f"/proc/{folder.name.removeprefix(PREFIX)}").exists():
            PidsGroup(folder).remove()


def pids_parents(memberships: Iterable[str]) -> list[Path]:
    """Where the runner's own group may be: lines of /proc/self/cgroup to folders, the first version's first."""
    first: list[Path] = []
    second: list[Path] = []
    for line in memberships:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        below = path.lstrip("/")
        if "pids" in controllers.split(","):
            first.append(ROOT / "pids" / below)
        elif number == "0" and not controllers:
            second += [ROOT / below, ROOT / "unified" / below]
    return first + second
