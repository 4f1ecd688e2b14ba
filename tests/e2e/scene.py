"""One pipeline's surroundings for tests through the real process: a folder with store, script, secrets and spec."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

SECRET = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0IQ=="
TIMEOUT_S = 60
AT_ONCE = 4

Json = dict[str, Any]


@dataclass
class Run:
    """What a process that has ended left behind."""

    exit: int
    output: str
    """What was on standard output."""
    stderr: str
    seconds: float = 0.0
    """From the start, or the last signal, to the end."""

    @property
    def lines(self) -> list[Json]:
        return [json.loads(line) for line in self.output.splitlines()]

    @property
    def settled(self) -> Json:
        assert self.lines, f"nothing on stdout; stderr: {self.stderr}"
        last = self.lines[-1]
        assert last["type"] == "settled"
        assert last["exit"] == self.exit, (self.exit, last, self.stderr)
        return last

    @property
    def terminal(self) -> Json:
        terminal = self.settled["terminal"]
        assert terminal is not None, self.settled
        return terminal

    @property
    def settlement(self) -> Json:
        return self.terminal["settlement"]

    @property
    def checkpoint(self) -> Json:
        return self.terminal["checkpoint"]

    @property
    def error(self) -> Json:
        return self.settled["error"]

    @property
    def logs(self) -> list[Json]:
        return [json.loads(line) for line in self.stderr.splitlines()]


RUNNING: "set[Started]" = set()
"""What was started and has not been waited for."""


class Started:
    """A process under way, whose output is read as it comes."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        RUNNING.add(self)
        self.process = process
        self._since = time.monotonic()
        self._changed = threading.Condition()
        self._lines: list[bytes] = []
        self._errors: list[bytes] = []
        self._readers = [
            threading.Thread(target=self._read, args=(stream, kept), daemon=True)
            for stream, kept in ((process.stdout, self._lines), (process.stderr, self._errors))
            if stream is not None
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[bytes], kept: list[bytes]) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    kept.append(line)
                    self._changed.notify_all()

    def wait_for(self, condition: Callable[[Json], bool], timeout_s: float = TIMEOUT_S) -> Json:
        """The first line on standard output that meets the condition."""

        def found() -> Json | None:
            return next((line for line in map(json.loads, self._lines) if condition(line)), None)

        with self._changed:
            line = self._changed.wait_for(found, timeout_s)
        assert line is not None, f"no such line; stdout: {self._lines}, stderr: {self._errors}"
        return line

    def wait_for_log(self, event: str, timeout_s: float = TIMEOUT_S) -> None:
        """Return once a log line with this event is there."""
        wanted = f'"{event}"'.encode()
        with self._changed:
            seen = self._changed.wait_for(lambda: any(wanted in line for line in self._errors), timeout_s)
        assert seen, f"no {event} in the log: {self._errors}"

    def signal(self, number: int) -> None:
        self._since = time.monotonic()
        self.process.send_signal(number)

    def end(self) -> None:
        """Kill it, wherever it is."""
        RUNNING.discard(self)
        self.process.kill()
        self.process.wait(TIMEOUT_S)
        for reader in self._readers:
            reader.join(TIMEOUT_S)

    def finish(self) -> Run:
        """Wait for the end, bounded; everything it said."""
        try:
            self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.end()
            raise AssertionError(f"the process hangs; stdout: {self._lines}, stderr: {self._errors}") from None
        seconds = time.monotonic() - self._since
        RUNNING.discard(self)
        for reader in self._readers:
            reader.join(TIMEOUT_S)
        output, errors = (b"".join(lines).decode() for lines in (self._lines, self._errors))
        return Run(self.process.returncode, output, errors, seconds)


@dataclass
class Scene:
    folder: Path
    server_url: str | None = None
    secret: str | None = SECRET
    spec_changes: Json = field(default_factory=dict[str, Any])
    environ: dict[str, str] = field(default_factory=dict[str, str])

    def at(self, name: str, **changes: Any) -> "Scene":
        """The same surroundings in a folder of its own."""
        folder = self.folder / name
        folder.mkdir()
        return replace(self, folder=folder, **changes)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets"

    def spec(self, responses: list[Json] | None, **changes: Any) -> Json:
        spec: Json = {
            "version": 1,
            "pipeline_id": "p1",
            "session": {"id": "s1"},
            "store": {"uri": "store"},
            "input": {"message": "Deploy the project."},
            "agent": {"model": {"api": "scripted", "script": "script.json"}},
            "server": {"base_url": self.server_url} if self.server_url else None,
        }
        spec.update(self.spec_changes)
        spec.update(changes)
        if responses is not None:
            (self.folder / "script.json").write_text(json.dumps({"responses": responses}))
        return spec

    def start(self, spec: Json | str | bytes | None, *arguments: str, **popen: Any) -> Started:
        """Start `runner run` on the spec; None: the arguments say where it is."""
        path = self.folder / "spec.json"
        if spec is None:
            return self.command("run", *arguments, **popen)
        text = json.dumps(spec) if isinstance(spec, dict) else spec
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.command("run", str(path), *arguments, **popen)

    def command(self, name: str, *arguments: str, **popen: Any) -> Started:
        return self.launch(
            [sys.executable, "-m", "runner", name, *arguments, "--secrets-dir", str(self.secrets)], **popen
        )

    def launch(self, command: Sequence[str], **popen: Any) -> Started:
        """Start a command in the folder, with nothing of a launch in its environment but the scene's own."""
        self.secrets.mkdir(exist_ok=True)
        if self.secret is not None:
            (self.secrets / "callback_secret").write_text(self.secret + "\n")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PIPELINE_", "AWS_"))}
        streams: Json = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        process: Any = subprocess.Popen(
            command,
            env={**environ, "AWS_EC2_METADATA_DISABLED": "true", **self.environ},
            cwd=self.folder,
            **{**streams, **popen},
        )
        return Started(process)

    def run(self, spec: Json | str | bytes | None, *arguments: str, **popen: Any) -> Run:
        return self.start(spec, *arguments, **popen).finish()

    def head(self, pipeline_id: str = "p1") -> Json:
        return json.loads((self.store / "pipelines" / pipeline_id / "head.json").read_text())

    def head_address(self, pipeline_id: str = "p1") -> str:
        return f"{self.store.as_uri()}/pipelines/{pipeline_id}/head.json"

    def entries(self, terminal: Json) -> list[Json]:
        return stored_entries(self.store, terminal)


def at_once(starts: Sequence[Callable[[], Run]]) -> list[Run]:
    """Run them a few at a time: most of a short process is its start."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [future.result() for future in [pool.submit(start) for start in starts]]


def stored_entries(store: Path, terminal: Json) -> list[Json]:
    """The lines of the checkpoint that a terminal record names, read without the product's own restore."""
    return [json.loads(line) for line in stored_lines(store, terminal).splitlines()]


def stored_lines(store: Path, terminal: Json) -> bytes:
    import zstandard

    manifest = json.loads((store / terminal["checkpoint"]["manifest"]).read_text())
    data = b""
    for segment in manifest["segments"]:
        with zstandard.ZstdDecompressor().stream_reader(
            (store / segment["key"]).open("rb"), read_across_frames=True
        ) as reader:
            data += reader.read()
    return data


def messages(entries: list[Json], role: str | None = None) -> list[Json]:
    found = [entry["message"] for entry in entries if entry["type"] == "message"]
    return [message for message in found if role in (None, message["role"])]


def texts(message: Json) -> str:
    return "".join(block.get("text", "") for block in message["content"])


def text(words: str, **fields: Any) -> Json:
    return {"content": [{"type": "text", "text": words}], **fields}


def calls(*blocks: Json) -> Json:
    return {"content": list(blocks)}


def call(name: str, call_id: str = "call_1", **arguments: Any) -> Json:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def ask(call_id: str = "call_1", question: str = "Staging or production?", **arguments: Any) -> Json:
    return call("ask_user", call_id, question=question, **arguments)


OWN_TOOLS: Json = {"model": {"api": "scripted", "script": "script.json"}, "tools": ["tests.e2e.own_tools:TOOLS"]}


def restoring(terminal: Json, session_id: str = "s1") -> Json:
    """The spec's `session` for what a terminal record committed."""
    checkpoint = terminal["checkpoint"]
    return {
        "id": session_id,
        "restore": {"manifest": checkpoint["manifest"], "digest": checkpoint["digest"]},
    }
