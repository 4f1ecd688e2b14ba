"""The spawner of every level: starts wrapped commands, and leaves no process behind.

Which level it is, is the `Confinement`'s business. Everything here runs in the event loop's thread (looking through
/proc takes a millisecond or two), but for orders to the launcher: they take milliseconds as well, unless a tool has
stopped it, and then the run must go on meanwhile. They go one after the other, each in a thread.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.blocking import call_blocking
from runner.isolation.confinement import Confinement, Wrapped
from runner.isolation.disk_watch import LOOK_S, DiskWatch
from runner.isolation.environment import loader_variables
from runner.isolation.errors import SpawnFailed
from runner.isolation.launching import Launcher
from runner.isolation.process_table import PAUSE_S, kill_families, own_children
from runner.isolation.tool_process import ConfinedProcess, Leader

END_S = 5.0
"""For everything that a command started to be gone. Killing takes milliseconds; this bounds the wait for the kernel."""
START_S = 60.0
"""For a start with everything that the launcher tries, which has bounds of its own far below this."""
Environment = Callable[[Mapping[str, str]], dict[str, str]]
"""From what a command needs beside to the environment it gets."""


@dataclass(slots=True)
class Started:
    """A wrapped command that runs, and our ends of its pipes."""

    process: Leader
    stdin: int | None
    stdout: int
    stderr: int | None


def start_wrapped(
    confinement: Confinement,
    launcher: Launcher,
    command: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    *,
    merge_stderr: bool,
    interactive: bool,
) -> Started:
    """Start a command under a confinement. Blocking, but not for long. Raises SpawnFailed."""
    resolved = resolve_program(command, environment.get("PATH", os.defpath))
    if not Path(cwd).is_dir():
        raise SpawnFailed(f"the folder {cwd} is not there: use another working directory")
    wrapped = confinement.wrap(resolved, cwd)
    pipes = Pipes(merge_stderr=merge_stderr, interactive=interactive)
    try:
        process = _start(launcher, wrapped, environment, pipes.theirs)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        pipes.close_ours()
        if isinstance(error, SpawnFailed):
            raise
        detail = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpawnFailed(f"{command[0]} could not be started ({detail})") from error
    finally:
        for descriptor in {*wrapped.descriptors, *pipes.theirs}:
            os.close(descriptor)
    return Started(process, pipes.stdin, pipes.stdout, pipes.stderr)


def _start(
    launcher: Launcher, wrapped: Wrapped, environment: Mapping[str, str], streams: tuple[int, int, int]
) -> Leader:
    if wrapped.steps is not None:
        return launcher.start(wrapped.steps, environment, wrapped.argv, (*streams, *wrapped.descriptors), wrapped.group)
    stdin, stdout, stderr = streams
    return subprocess.Popen(  # noqa: S603 - starting what the model asks for is what this is for
        wrapped.argv,
        cwd=wrapped.cwd,
        env=dict(environment),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


class Pipes:
    """Standard streams of a command: `theirs`, and our ends."""

    def __init__(self, *, merge_stderr: bool, interactive: bool) -> None:
        self.stdin: int | None = None
        self.stderr: int | None = None
        if interactive:
            stdin, self.stdin = os.pipe()
        else:
            stdin = os.open(os.devnull, os.O_RDONLY)
        self.stdout, stdout = os.pipe()
        stderr = stdout
        if not merge_stderr:
            self.stderr, stderr = os.pipe()
        self.theirs = (stdin, stdout, stderr)

    def close_ours(self) -> None:
        for descriptor in (self.stdin, self.stdout, self.stderr):
            if descriptor is not None:
                os.close(descriptor)


def resolve_program(command: Sequence[str], path: str) -> list[str]:
    """The command with the whole path of its program. Raises SpawnFailed if there is none."""
    if not command:
        raise SpawnFailed("no command was given")
    if "/" in command[0]:
        return list(command)
    found = shutil.which(command[0], path=path)
    if found is None:
        raise SpawnFailed(f"there is no program {command[0]!r} in PATH")
    return [found, *command[1:]]


class ConfinedSpawner:
    """See `port.Spawner`."""

    def __init__(
        self,
        confinement: Confinement,
        environment: Environment,
        launcher: Launcher,
        *,
        disk: DiskWatch | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._confinement = confinement
        self._environment = environment
        self._launcher = launcher
        self._disk = disk
        self._watching: asyncio.Task[None] | None = None
        self._on_close = on_close
        self._spared = own_children()
        self._leaders: set[int] = set()
        self._one_at_a_time = asyncio.Lock()
        self._starting: set[asyncio.Task[ConfinedProcess]] = set()
        self._unwanted: set[asyncio.Task[None]] = set()
        self._processes: list[ConfinedProcess] = []
        self._closed = False

    async def start(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        merge_stderr: bool = True,
        interactive: bool = False,
    ) -> ConfinedProcess:
        if self._closed:
            raise SpawnFailed("the run is ending: no command is started any more")
        if refused := loader_variables(env):
            raise SpawnFailed(
                f"{', '.join(refused)} cannot be given to a confined command, because it would act on what confines "
                "it: start the command by `env NAME=value command`"
            )
        starting = asyncio.create_task(self._start(command, cwd, env, merge_stderr, interactive))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._end_unwanted)
            raise

    async def _start(
        self, command: Sequence[str], cwd: Path, env: Mapping[str, str], merge_stderr: bool, interactive: bool
    ) -> ConfinedProcess:
        folder, environment = os.path.realpath(cwd), self._environment(env)  # noqa: ASYNC240 - one look at a local path

        def start() -> Started:
            return start_wrapped(
                self._confinement,
                self._launcher,
                command,
                folder,
                environment,
                merge_stderr=merge_stderr,
                interactive=interactive,
            )

        async with self._one_at_a_time:
            if self._closed:
                raise SpawnFailed("the run is ending: no command is started any more")
            # What the launcher starts is no stray while it is unknown here, for it shares the launcher's session.
            confined = self._confinement.level != "none"
            started = await call_blocking(start, timeout_s=START_S) if confined else start()
            self._processes = [process for process in self._processes if not process.over]
            process = ConfinedProcess(
                started.process, signals_as_codes=self._confinement.level == "namespace", end=self._end
            )
            self._leaders.add(process.pid)
            self._processes.append(process)
            process.watch(self._leaders.discard)
        if self._disk is not None and (self._watching is None or self._watching.done()):
            self._watching = asyncio.create_task(self._watch_disk(self._disk))
        await process.connect(started.stdin, started.stdout, started.stderr)
        return process

    def _end_unwanted(self, started: "asyncio.Task[ConfinedProcess]") -> None:
        """Who asked for this command has left before it began."""
        if started.cancelled() or started.exception() is not None:
            return
        ending = asyncio.create_task(started.result().end())
        self._unwanted.add(ending)
        ending.add_done_callback(self._unwanted.discard)

    async def _watch_disk(self, disk: DiskWatch) -> None:
        """While commands run. All are ended, for nobody knows which one it is."""
        while self._leaders:
            if disk.look() is not None:
                await self._end(*self._processes)
            await asyncio.sleep(LOOK_S)

    async def _end(self, *processes: ConfinedProcess) -> None:
        """Kill until nobody is left. Orphans of commands that have ended count as left by any of them."""
        loop = asyncio.get_running_loop()
        until = loop.time() + END_S
        while loop.time() < until:
            roots = {process.pid for process in processes if process.running}
            alone = kill_families(roots, self._leaders | self._spared, self._launcher.pids)
            if alone and not roots:
                break
            await asyncio.sleep(PAUSE_S)

    async def close(self) -> None:
        self._closed = True
        if self._starting:
            self._launcher.give_up()
            await asyncio.wait(self._starting, timeout=END_S)
        if self._watching is not None:
            self._watching.cancel()
        await self._end(*self._processes)
        for process in self._processes:
            process.disconnect()
        await asyncio.sleep(0)  # the transports let go of their pipes
        self._processes.clear()
        self.discard()

    def discard(self) -> None:
        """Let go of what was made for all commands together; none runs."""
        self._closed = True
        self._launcher.close()
        self._on_close()
