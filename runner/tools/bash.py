"""`bash`: a command in the workspace, confined, with its output as it comes.

The call ends when the shell ends: what the command left running is given a moment for its last output and then ended,
with all that it started. A command that fails is an error result that holds its output; so is one that took too long
or was aborted. There is no input.
"""

import asyncio
import math
import time
from collections.abc import Callable
from signal import Signals

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentTool, ToolResult, UpdateCallback, text_result
from runner.isolation.port import ExitStatus, Spawner, ToolProcess
from runner.tools.aborting import aborted
from runner.tools.command_output import CommandOutput
from runner.tools.errors import ToolFailed
from runner.tools.folders import ToolFolders
from runner.tools.truncation import MAX_BYTES, MAX_LINES

DEFAULT_TIMEOUT_S = 600.0
MAX_TIMEOUT_S = 30 * 86_400.0
DRAIN_S = 1.0
"""For output that comes after the shell has ended."""
READ_BYTES = 64 * 1024
UPDATE_S = 0.25
"""Between two updates, at first."""
MAX_UPDATE_S = 5.0

ENVIRONMENT = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Nobody is there to turn pages or to type a password."""

PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "minLength": 1, "description": "The command, for bash."},
        "timeout": {
            "type": "number",
            "description": f"Seconds until the command is stopped; {DEFAULT_TIMEOUT_S:g} if left out, 0 for no limit.",
        },
    },
    "required": ["command"],
}
DESCRIPTION = (
    "Run a bash command in the workspace. The result is its output (standard output and error together): the last "
    f"{MAX_LINES} lines or {MAX_BYTES // 1024} KB of it; longer output is kept in a file that the result names. There "
    "is no standard input. Whatever the command leaves running is ended with it."
)


def bash_tool(spawner: Spawner, folders: ToolFolders) -> AgentTool:
    async def execute(
        _call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: UpdateCallback
    ) -> ToolResult:
        command, timeout_s = args["command"], timeout_of(args.get("timeout"))
        if "\0" in command:
            raise ToolFailed("refused", "The command holds a NUL character, which no shell can take")
        if signal is not None and signal.aborted:
            raise aborted("The command")
        output = CommandOutput(folders, "bash")
        process = await spawner.start(["bash", "-c", command], cwd=folders.workspace, env=ENVIRONMENT)
        ending = _Ending()
        try:
            await _follow(process, output, ending, signal, timeout_s, Updates(output, on_update))
        finally:
            # Also when this task is cancelled: nothing may outlive the call.
            await process.end()
            output.close()
        return finished(output, ending, timeout_s)

    return AgentTool("bash", DESCRIPTION, PARAMETERS, execute, label="bash")


def timeout_of(given: float | None) -> float | None:
    """The seconds that a command may take; None for no limit. Raises ToolFailed for what is no time."""
    if given is None:
        return DEFAULT_TIMEOUT_S
    if not math.isfinite(given) or not 0 <= given <= MAX_TIMEOUT_S:
        raise ToolFailed("refused", f"timeout must be a number of seconds from 0 to {MAX_TIMEOUT_S:g}")
    return given or None


class _Ending:
    """How the command ended: by itself (`status`), or `cut` short."""

    status: ExitStatus | None = None
    cut: str | None = None


async def _follow(
    process: ToolProcess,
    output: CommandOutput,
    ending: _Ending,
    signal: AbortSignal | None,
    timeout_s: float | None,
    updates: "Updates",
) -> None:
    """Take in output until the command has ended or must end. What is left running is killed before the last bit."""
    reading = asyncio.ensure_future(_read(process, output, updates))
    waiting = asyncio.ensure_future(process.wait())
    stopping = asyncio.ensure_future(signal.wait()) if signal is not None else None
    try:
        watched = [waiting] if stopping is None else [waiting, stopping]
        await asyncio.wait(watched, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            ending.status = waiting.result()
            await asyncio.wait({reading}, timeout=DRAIN_S)
        else:
            ending.cut = "aborted" if stopping is not None and stopping.done() else "timeout"
        await process.end()
        await asyncio.wait({reading}, timeout=DRAIN_S)
    finally:
        for task in (reading, waiting, stopping):
            if task is not None:
                task.cancel()
    if reading.done() and not reading.cancelled() and (error := reading.exception()) is not None:
        raise error


async def _read(process: ToolProcess, output: CommandOutput, updates: "Updates") -> None:
    try:
        while data := await process.stdout.read(READ_BYTES):
            output.feed(data)
            updates.changed()
    finally:
        updates.close()


class Updates:
    """Tells of output that came, at most once in a while: the longer the command, the longer the while."""

    def __init__(
        self, output: CommandOutput, on_update: UpdateCallback, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._output = output
        self._on_update = on_update
        self._clock = clock
        self._began = clock()
        self._last = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def changed(self) -> None:
        if self._timer is not None:
            return
        now = self._clock()
        wait = update_interval(now - self._began) - (now - self._last)
        if wait <= 0:
            self._send()
        else:
            self._timer = asyncio.get_running_loop().call_later(wait, self._send)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _send(self) -> None:
        self._timer = None
        self._last = self._clock()
        self._on_update(text_result(self._output.latest()))


def update_interval(elapsed_s: float) -> float:
    """Seconds between updates of a command that has run so long; so their number grows ever slower."""
    return min(MAX_UPDATE_S, max(UPDATE_S, elapsed_s / 60))


def finished(output: CommandOutput, ending: _Ending, timeout_s: float | None) -> ToolResult:
    """The result of a command that ended. Raises ToolFailed, with the output, unless it ended well."""
    text, details = output.shown()
    if ending.cut == "aborted":
        raise _failed("aborted", text, "The command was aborted")
    if ending.cut == "timeout":
        raise _failed("timeout", text, f"The command took longer than {timeout_s:g} seconds and was stopped")
    status = ending.status
    assert status is not None, "a command that was not cut short has ended"
    if status.signal is not None:
        raise _failed("signal", text, f"The command was ended by {status.signal}")
    if status.code:
        raise _failed("exit", text, f"The command exited with code {status.code}{_inner_signal(status.code)}")
    return text_result(text or "(no output)", details=details)


def _inner_signal(code: int) -> str:
    """A shell tells of a command in it that a signal ended by 128 and the signal's number."""
    try:
        return f" (a command in it was ended by {Signals(code - 128).name})"
    except ValueError:
        return ""


def _failed(reason: str, text: str, sentence: str) -> ToolFailed:
    return ToolFailed(reason, f"{text}\n\n{sentence}" if text else sentence)
