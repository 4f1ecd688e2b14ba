"""What a level is to the spawner: a way to wrap a command. One file per level implements it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

Level: TypeAlias = Literal["none", "process", "landlock", "namespace"]
LEVELS: tuple[Level, ...] = ("none", "process", "landlock", "namespace")
"""Weakest first."""


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A command as it is really started."""

    argv: tuple[str, ...]
    cwd: str
    descriptors: tuple[int, ...] = ()
    """Handed to the process, and closed by the spawner once it has started, or could not."""
    gated: bool = False
    """It waits for a line on its standard input before it begins; until then the spawner may prepare it (`admit`)."""


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

    def admit(self, pid: int) -> None:
        """Set what is set from outside, such as limits, while a gated process waits. Raises OSError."""
        ...
