"""What a level is to the spawner: a way to wrap a command. One file per level implements it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from runner.isolation.cgroup import PidsGroup

Level: TypeAlias = Literal["none", "process", "landlock", "namespace"]
LEVELS: tuple[Level, ...] = ("none", "process", "landlock", "namespace")
"""Weakest first."""


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A command as it is really started."""

    argv: tuple[str, ...]
    cwd: str
    descriptors: tuple[int, ...] = ()
    """Handed to the process, where the first is `confining.FIRST_DESCRIPTOR`; the spawner closes them once it has
    started, or could not."""
    steps: tuple[str, ...] | None = None
    """What its process does to itself before it becomes the command: options of `confining.Recipe`, for the launcher.
    None: the runner starts the command itself, as it is."""
    group: PidsGroup | None = None
    """The launcher is to be in it, and what it starts with it."""


class Confinement(Protocol):
    @property
    def level(self) -> Level: ...

    @property
    def description(self) -> str:
        """How, in words: which program, which user."""
        ...

    def wrap(self, command: Sequence[str], cwd: str) -> Wrapped:
        """Raises SpawnFailed if the command cannot be started here."""
        ...
