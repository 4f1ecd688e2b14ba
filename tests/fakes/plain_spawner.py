"""A spawner that confines nothing: real processes, each in a session of its own, killed as a group."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from runner.isolation.port import ExitStatus


class PlainProcess:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._exit = asyncio.ensure_future(self._exited())
        self._transports: list[asyncio.BaseTransport] = []
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout = asyncio.StreamReader()
        self.stderr: asyncio.StreamReader | None = None

    async def connect(self) -> None:
        await self._connect_reader(self._process.stdout, self.stdout)
        if self._process.stderr is not None:
            self.stderr = asyncio.StreamReader()
            await self._connect_reader(self._process.stderr, self.stderr)
        if self._process.stdin is not None:
            loop = asyncio.get_running_loop()
            transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, self._process.stdin)
            self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)
            self._transports.append(transport)

    async def _connect_reader(self, pipe: IO[bytes] | None, reader: asyncio.StreamReader) -> None:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._transports.append(transport)

    async def _exited(self) -> int:
        """Negative for a signal."""
        descriptor = os.pidfd_open(self.pid)
        readable = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        return self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> ExitStatus:
        code = await asyncio.shield(self._exit)
        return ExitStatus(None, signal.Signals(-code).name) if code < 0 else ExitStatus(code, None)

    async def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        await asyncio.shield(self._exit)
        # What is still in the pipes can be read; nobody is left who would write more.
        if self.stdin is not None:
            self.stdin.close()

    def abandon(self) -> None:
        for transport in self._transports:
            transport.close()


class PlainSpawner:
    """`started` are all its processes, in order; `commands` what they were started with."""

    def __init__(self) -> None:
        self.started: list[PlainProcess] = []
        self.commands: list[Sequence[str]] = []
        self.has_started = asyncio.Event()

    async def start(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        merge_stderr: bool = True,
        interactive: bool = False,
    ) -> PlainProcess:
        process = _popen(command, cwd, env, merge_stderr=merge_stderr, interactive=interactive)
        started = PlainProcess(process)
        self.started.append(started)  # first: a start that is cancelled is closed as well
        self.commands.append(command)
        await started.connect()
        self.has_started.set()
        return started

    async def close(self) -> None:
        for process in self.started:
            await process.end()
            process.abandon()


def _popen(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], *, merge_stderr: bool, interactive: bool
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), "LANG": "C.UTF-8", **env},
        stdin=subprocess.PIPE if interactive else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )
