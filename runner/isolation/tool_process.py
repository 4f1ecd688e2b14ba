"""One confined command as the event loop sees it: its pipes, its end, and the end of everything it started."""

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from runner.isolation.port import ExitStatus

SHELL_SIGNALS = frozenset(
    {"SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGSEGV", "SIGPIPE"}
    | {"SIGALRM", "SIGTERM", "SIGXCPU", "SIGXFSZ", "SIGSYS"}
)
READ_LIMIT = 256 * 1024
"""Bytes after which reading from a pipe pauses (at twice as much) until somebody takes them."""


def exit_status(returncode: int, *, signals_as_codes: bool) -> ExitStatus:
    """What `Popen.returncode` says. bubblewrap tells of a signal as a shell does, by the code 128 + number."""
    number = -returncode if returncode < 0 else returncode - 128 if signals_as_codes else 0
    if number > 0:
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"SIG{number}"
        if returncode < 0 or name in SHELL_SIGNALS:
            return ExitStatus(None, name)
    return ExitStatus(returncode, None)


class Leader(Protocol):
    """What a `Popen` and a `Launched` have in common."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int:
        """Blocks; negative: a signal."""
        ...

    def poll(self) -> int | None: ...


class ConfinedProcess:
    """See `port.ToolProcess`. Made by the spawner, in the thread of the event loop."""

    def __init__(
        self,
        process: Leader,
        *,
        signals_as_codes: bool,
        end: "Callable[[ConfinedProcess], Awaitable[None]]",
    ) -> None:
        self._process = process
        self._signals_as_codes = signals_as_codes
        self._end = end
        self._exited: asyncio.Future[ExitStatus] = asyncio.get_running_loop().create_future()
        self._transports: list[asyncio.BaseTransport] = []
        self.stdout = asyncio.StreamReader(limit=READ_LIMIT)
        self.stderr: asyncio.StreamReader | None = None
        self.stdin: asyncio.StreamWriter | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return not self._exited.done()

    @property
    def over(self) -> bool:
        """It has ended, and nobody holds its pipes any more."""
        return not self.running and all(transport.is_closing() for transport in self._transports)

    async def connect(self, stdin: int | None, stdout: int, stderr: int | None) -> None:
        """Take over our ends of the pipes."""
        await self._read_from(stdout, self.stdout)
        if stderr is not None:
            self.stderr = asyncio.StreamReader(limit=READ_LIMIT)
            await self._read_from(stderr, self.stderr)
        if stdin is not None:
            loop = asyncio.get_running_loop()
            transport, protocol = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(stdin, "wb", 0)
            )
            self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)
            self._transports.append(transport)

    async def _read_from(self, descriptor: int, reader: asyncio.StreamReader) -> None:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
        )
        self._transports.append(transport)

    def watch(self, gone: Callable[[int], None]) -> None:
        """Wait for the leader in a thread: works everywhere, and a process that cannot end keeps nobody from ending."""
        loop = asyncio.get_running_loop()

        def exited(returncode: int) -> None:
            gone(self.pid)
            if not self._exited.done():
                self._exited.set_result(exit_status(returncode, signals_as_codes=self._signals_as_codes))

        def wait() -> None:
            returncode = self._process.wait()
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(exited, returncode)

        threading.Thread(target=wait, name=f"wait-{self.pid}", daemon=True).start()

    async def wait(self) -> ExitStatus:
        return await asyncio.shield(self._exited)

    async def end(self) -> None:
        await self._end(self)

    def disconnect(self) -> None:
        """Let go of the pipes; what was read can still be taken."""
        for transport in self._transports:
            transport.close()
