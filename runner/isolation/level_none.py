"""Level `none`: a process group of its own and a clean environment, nothing else. For a laptop, with a warning."""

from collections.abc import Sequence

from runner.isolation.confinement import Level, Wrapped


class Unconfined:
    level: Level = "none"
    description = "tools run as the runner does"

    def wrap(self, command: Sequence[str], cwd: str) -> Wrapped:
        return Wrapped(tuple(command), cwd)
