"""Level `landlock`: like `process`, and a tool may open the allowed paths only; signals, tracing and abstract sockets
end at its own processes.

/tmp is not among the paths, because the runner's own files are there: tools find their folder in TMPDIR.
"""

import os
from collections.abc import Sequence

from runner.isolation import kernel
from runner.isolation.confinement import Level, Wrapped
from runner.isolation.grounds import Grounds
from runner.isolation.landlock import without_hidden
from runner.isolation.launched import LaunchSettings, Paths, confined, who

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")


class LandlockLevel:
    level: Level = "landlock"

    def __init__(self, settings: LaunchSettings, grounds: Grounds) -> None:
        self._settings = settings
        self._grounds = grounds

    @property
    def description(self) -> str:
        return f"Landlock version {kernel.landlock_abi()}, {who(self._settings.user)}"

    def wrap(self, command: Sequence[str], cwd: str) -> Wrapped:
        hidden = [place.path for place in self._grounds.hidden]
        readable = ["/proc", "/dev"]
        for root in self._grounds.readable:
            readable += without_hidden(os.path.realpath(root), hidden, _names)
        writable = [*self._grounds.writable, *(f"/dev/{name}" for name in _DEVICES)]
        return confined(self._settings, command, cwd, Paths(tuple(readable), tuple(writable)))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are all that is needed
    except OSError:  # no folder, or not ours to list: nothing to allow
        return []
