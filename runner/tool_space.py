"""Where this run's tools live: their folders, and the confinement, established when the first tool needs a process.

A launch that requires isolation has it established, and refused if it is too weak, before anything is claimed; one that
requires none pays nothing for it before the first tool call. No process of a tool survives `close`, and no folder
`remove`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runner.blocking import call_blocking
from runner.isolation.errors import SpawnFailed
from runner.isolation.establish import Isolation, build_spawner
from runner.isolation.grounds import Grounds, make_grounds, remove_scratch
from runner.isolation.port import ToolProcess
from runner.isolation.process_table import end_children
from runner.isolation.settings import IsolationSettings
from runner.logs import Logger
from runner.tools.folders import ToolFolders

ESTABLISH_S = 120.0
"""For all levels together; each attack has a bound of its own far below this."""
CLOSE_S = 10.0
"""For an attack that is under way when the run ends."""
END_S = 1.0


class ToolSpace:
    """Is the `Spawner` of the run's tools. `build` is blocking; it is called once, in a thread."""

    def __init__(
        self,
        settings: IsolationSettings,
        environ: Mapping[str, str],
        log: Logger,
        build: Callable[..., Isolation] = build_spawner,
    ) -> None:
        """Makes the tools' folders. Raises OSError."""
        self._settings = settings
        self._environ = dict(environ)
        self._log = log
        self._build = build
        self._grounds: Grounds = make_grounds(settings.workspace, settings.hidden)
        self._building: asyncio.Future[Isolation] | None = None
        self._isolation: Isolation | None = None
        self._closing: asyncio.Future[None] | None = None

    @property
    def folders(self) -> ToolFolders:
        return ToolFolders(Path(self._grounds.workspace), Path(self._grounds.scratch.outputs))

    @property
    def required(self) -> bool:
        """Whether the launch insists on something, so that it must be proven before the claim."""
        return self._settings.required != "none" or not self._settings.network

    async def establish(self) -> Isolation:
        """The confinement, attacked and proven, once. Raises Refused (`isolation_too_weak`)."""
        if self._building is None:
            self._refuse_if_closed()
            self._building = asyncio.ensure_future(call_blocking(self._establish, timeout_s=ESTABLISH_S))
        return await asyncio.shield(self._building)

    def _establish(self) -> Isolation:
        isolation = self._build(self._settings, self._environ, grounds=self._grounds)
        self._isolation = isolation
        confinement = isolation.verdict.description
        if isolation.level == "none":
            self._log.warning("isolation", level="none", confinement=confinement, hint="tools can do what you can do")
        else:
            self._log.info("isolation", level=isolation.level, confinement=confinement)
        return isolation

    async def start(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        merge_stderr: bool = True,
        interactive: bool = False,
    ) -> ToolProcess:
        """See `Spawner.start`."""
        isolation = await self.establish()
        self._refuse_if_closed()
        return await isolation.spawner.start(
            command, cwd=cwd, env=env, merge_stderr=merge_stderr, interactive=interactive
        )

    def _refuse_if_closed(self) -> None:
        if self._closing is not None:
            raise SpawnFailed("the run is ending: no command is started any more")

    async def close(self) -> None:
        """End whatever the tools left running. Called again it waits for the same end, also if the first caller had no
        time left for it.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._building is not None:
            await asyncio.wait({self._building}, timeout=CLOSE_S)
            if self._building.done() and not self._building.cancelled():
                self._building.exception()  # who waited for it was told
        if self._isolation is not None:
            await self._isolation.spawner.close()

    def remove(self) -> None:
        """At the very end of the process, from any thread: remove the tools' folders, and end first what still runs,
        because `close` was never called or had no time. Removing takes as long as what the tools left there is large.
        """
        if self._building is not None:
            end_children(END_S)
        remove_scratch(self._grounds.scratch)
