"""The pipelines' processes on this machine: started, watched, found again after a restart, ended.

A process is told by its number and the moment it began, since numbers come again. It has a session of its own and
writes to files, so that it outlives the server and what it says is not lost. Refuses to signal a process that it
cannot prove to be one it started.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from runner.exits import Exit
from runner.server.launching import Order
from runner.server.relaunching import Gone
from runner.server.settings import CommandTemplate, Folder
from runner.server.template import Template

LAST_LINE_BYTES = 256 * 1024
_PROC = Path("/proc")


class Process(Struct, frozen=True):
    """`born`: the machine's boot and the clock tick at which it began."""

    pipeline_id: str
    attempt: int
    pid: int
    born: str


class LocalProcesses:
    """Starts `runner run`, or the command template's command."""

    def __init__(self, folder: Folder, template: Template, command: CommandTemplate | None, base_url: str) -> None:
        self._folder = folder
        self._template = template
        self._command = command
        self._base_url = base_url
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, order: Order) -> Process | Gone:
        """Gone: it could not be started at all."""
        run = self._folder.run(order.pipeline_id, order.attempt)
        spec = run / "spec.json"
        try:
            run.mkdir(mode=0o700, exist_ok=True)
            spec.write_text(json.dumps(self._template.spec(order, self._base_url), indent=2))
        except OSError as error:
            return Gone(Exit.INFRASTRUCTURE, "start_failed", f"{run} cannot be written ({error.strerror})")
        words = self._words(spec, order)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
        try:
            with (run / "events.jsonl").open("wb") as output, (run / "stderr.log").open("wb") as errors:
                child = subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    env=environ,
                    cwd=run,
                    start_new_session=True,
                )
        except OSError as error:
            return Gone(Exit.REFUSED, "command_failed", f"{words[0]} cannot be started ({error.strerror})")
        self._children[child.pid] = child
        return Process(order.pipeline_id, order.attempt, child.pid, _born(child.pid) or "gone")

    def _words(self, spec: Path, order: Order) -> list[str]:
        secrets = str(self._folder.private)
        if self._command is None:
            return [sys.executable, "-m", "runner", "run", str(spec), "--events", "--secrets-dir", secrets]
        return self._command.words(
            spec=str(spec),
            secrets=secrets,
            pipeline_id=order.pipeline_id,
            attempt=str(order.attempt),
            session_id=order.session_id,
        )

    def find(self, pipeline_id: str, attempt: int, pid: int | None, born: str | None) -> Process | None:
        """A process that an earlier server started and that still runs. Where that server was killed before it noted
        the number, it is known by the spec it was given.
        """
        if pid is not None and born is not None:
            return Process(pipeline_id, attempt, pid, born) if _born(pid) == born else None
        spec = os.fsencode(self._folder.run(pipeline_id, attempt) / "spec.json")
        for entry in _PROC.iterdir():
            if entry.name.isdigit() and spec in _command_line(entry):
                found = _born(int(entry.name))
                if found is not None and int(entry.name) != os.getpid():
                    return Process(pipeline_id, attempt, int(entry.name), found)
        return None

    def gone(self, process: Process) -> Gone | None:
        """How it ended, or None while it runs."""
        child = self._children.get(process.pid)
        if child is not None:
            exit_code = child.poll()
            if exit_code is None:
                return None
            del self._children[process.pid]
            return self.last_words(process.pipeline_id, process.attempt, exit_code)
        return None if _born(process.pid) == process.born else self.last_words(process.pipeline_id, process.attempt)

    def last_words(self, pipeline_id: str, attempt: int, exit_code: int | None = None) -> Gone:
        """What the last line on its standard output says of how it ended."""
        last = _last_line(self._folder.events(pipeline_id, attempt))
        if last is None or last.get("type") != "settled":
            return Gone(exit_code)
        said = last.get("exit")
        error: JsonObject | None = last.get("error")
        exit_code = said if exit_code is None and isinstance(said, int) else exit_code
        if error is None:
            return Gone(exit_code)
        return Gone(exit_code, _text(error.get("reason")), _text(error.get("message")))

    def terminate(self, process: Process) -> None:
        """Ask it to settle what is there."""
        self._signal(process, signal.SIGTERM)

    def kill(self, process: Process) -> None:
        """End it and what runs in its session."""
        if self.gone(process) is None and _born(process.pid) == process.born:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def _signal(self, process: Process, number: int) -> None:
        if _born(process.pid) == process.born:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)


def _born(pid: int) -> str | None:
    """The boot and the start tick of a process that runs; None for one that has ended, reaped or not."""
    try:
        status = (_PROC / str(pid) / "stat").read_bytes()
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    fields = status[status.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else f"{boot}:{int(fields[19])}"


def _command_line(entry: Path) -> list[bytes]:
    try:
        return (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def _last_line(path: Path) -> JsonObject | None:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_LINE_BYTES))
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
        return msgspec.json.decode(last, type=JsonObject)
    except (OSError, ValueError, RecursionError):
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
