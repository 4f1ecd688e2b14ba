"""The runner's end of the file worker: starts it confined, asks it, and starts it anew when it dies.

Calls go one after the other, so that two edits of one file cannot cross. Whatever is wrong with an answer (none in
time, not JSON, of another call, too long) ends the worker and is the error result of that call only. The worker lives
where the tools' commands live; its answers are believed no more than their output.
"""

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import runner
from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import ToolResult, is_json_object
from runner.isolation.port import Spawner, ToolProcess
from runner.tools.aborting import unless_aborted
from runner.tools.errors import ToolFailed
from runner.tools.folders import ToolFolders
from runner.tools.line_reader import LineReader, LineTooLong

CALL_S = 60.0
"""One call. The worker interrupts it itself; `GRACE_S` later it is ended."""
GRACE_S = 5.0
MAX_ANSWER_BYTES = 8 * 1024 * 1024
_PROGRAM = """
import sys
runner = sys.modules["runner"] = type(sys)("runner")
runner.__path__ = [sys.argv[1]]
from runner.tools.worker.serve import main
main(sys.argv[2], sys.argv[3:])
"""
# The package by its folder: in the confinement, the folder that holds it may not be readable.
_PACKAGE = str(Path(runner.__file__).resolve().parent)


class FileWorker:
    """One per run. Not started before the first call."""

    def __init__(
        self, spawner: Spawner, folders: ToolFolders, *, call_s: float = CALL_S, grace_s: float = GRACE_S
    ) -> None:
        self._spawner = spawner
        self._folders = folders
        self._call_s = call_s
        self._grace_s = grace_s
        self._turn = asyncio.Lock()
        self._running: _Running | None = None
        self._calls = 0
        self._closed = False

    async def call(self, tool: str, args: JsonObject, signal: AbortSignal | None) -> ToolResult:
        """The result of one call. Raises ToolFailed."""
        return await unless_aborted(self._in_turn(tool, args), signal, f"The call of {tool}")

    async def close(self) -> None:
        """End the worker; later calls are refused."""
        self._closed = True
        await self._end()

    async def _in_turn(self, tool: str, args: JsonObject) -> ToolResult:
        async with self._turn:
            if self._closed:
                raise ToolFailed("aborted", "The file tools have been closed: the run is ending")
            worker = await self._worker()
            self._calls += 1
            request = {"id": self._calls, "tool": tool, "args": args, "seconds": self._call_s}
            try:
                async with asyncio.timeout(self._call_s + self._grace_s):
                    answer = await worker.ask(request)
            except TimeoutError:
                await self._end()
                raise ToolFailed("timeout", f"{tool} did not end within {self._call_s:g} s and was stopped") from None
            except _NoAnswer as error:
                await self._end()
                raise ToolFailed("died", f"{tool} failed: the file worker {error}") from None
            except asyncio.CancelledError:
                await self._end()
                raise
        return _result(answer)

    async def _worker(self) -> "_Running":
        if self._running is not None and self._running.has_ended:
            await self._end()
        if self._running is None:
            command = [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, _PACKAGE]
            process = await self._spawner.start(
                [*command, str(self._folders.workspace), str(self._folders.outputs)],
                cwd=self._folders.workspace,
                env={},
                interactive=True,
            )
            self._running = _Running(process)
        return self._running

    async def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.end()


class _NoAnswer(Exception):
    """What the worker did instead of answering: the rest of a sentence."""


class _Running:
    def __init__(self, process: ToolProcess) -> None:
        assert process.stdin is not None, "the worker is started interactive"
        self._process = process
        self._stdin = process.stdin
        self._lines = LineReader(process.stdout, MAX_ANSWER_BYTES)
        self._exit = asyncio.ensure_future(process.wait())

    @property
    def has_ended(self) -> bool:
        return self._exit.done()

    async def ask(self, request: JsonObject) -> JsonObject:
        """The answer to one request. Raises _NoAnswer."""
        with contextlib.suppress(OSError):  # it has died: what it left in its output says more
            self._stdin.write(json.dumps(request).encode("ascii") + b"\n")
            await self._stdin.drain()
        try:
            line = await self._lines.next()
        except LineTooLong:
            raise _NoAnswer(f"gave an answer of more than {MAX_ANSWER_BYTES} bytes") from None
        if line is None:
            status = await self._process.wait()
            how = f"was ended by {status.signal}" if status.signal else f"exited with code {status.code}"
            raise _NoAnswer(f"{how} (it may have met a limit)")
        try:
            answer: Any = json.loads(line)
        except (ValueError, RecursionError):
            raise _NoAnswer(f"said something else than an answer: {line[:200]!r}") from None
        if not is_json_object(answer) or answer.get("id") != request["id"]:
            raise _NoAnswer("answered another call than the one it was asked")
        return answer

    async def end(self) -> None:
        self._exit.cancel()
        self._stdin.close()
        await self._process.end()


def _result(answer: JsonObject) -> ToolResult:
    error, result = answer.get("error"), answer.get("result")
    if isinstance(error, str):
        raise ToolFailed("refused", error)
    if not is_json_object(result) or not isinstance(result.get("content"), list):
        raise ToolFailed("died", "The file worker gave a result of another shape")
    return {"content": result["content"], "details": result.get("details") or {}}
