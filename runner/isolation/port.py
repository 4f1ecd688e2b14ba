"""How tools get processes: the port between the tools and the isolation that confines them.

A tool names a command; which namespaces, user, limits and masks it runs under is the adapter's business. Refuses to
give a tool a standard input that could block, or a process that outlives the run.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended. Exactly one of both is set."""

    code: int | None
    signal: str | None
    """Such as `SIGKILL`."""


class ToolProcess(Protocol):
    """A confined process, and all that it starts."""

    @property
    def pid(self) -> int: ...

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Also standard error, if the command was started with `merge_stderr`."""
        ...

    @property
    def stderr(self) -> asyncio.StreamReader | None: ...

    @property
    def stdin(self) -> asyncio.StreamWriter | None:
        """Only if asked for (`interactive`): stdio servers and the file-tool worker talk over it."""
        ...

    async def wait(self) -> ExitStatus:
        """Return when the leader has exited; background children may still hold the pipes."""
        ...

    async def end(self) -> None:
        """Kill the leader and everything it started, however it hides; returns when all is reaped, within a bound."""
        ...


class Spawner(Protocol):
    """Starts confined processes. One per pipeline process."""

    async def start(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        merge_stderr: bool = True,
        interactive: bool = False,
    ) -> ToolProcess:
        """Start a command inside the confinement. Without `interactive` its standard input is empty.

        `env` is added to the allow-listed environment. Raises OSError-like `SpawnFailed` with a sentence if it cannot.
        """
        ...

    async def close(self) -> None:
        """End whatever is left of all commands; nothing survives this call."""
        ...
