"""One pipeline's surroundings for tests through the real process: a folder with store, script, secrets and spec."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECRET = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0IQ=="
TIMEOUT_S = 60

Json = dict[str, Any]


@dataclass
class Run:
    exit: int
    lines: list[Json]
    stderr: str

    @property
    def settled(self) -> Json:
        assert self.lines, f"nothing on stdout; stderr: {self.stderr}"
        last = self.lines[-1]
        assert last["type"] == "settled"
        assert last["exit"] == self.exit
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
    def error(self) -> Json:
        return self.settled["error"]


@dataclass
class Scene:
    folder: Path
    server_url: str | None = None
    secret: str | None = SECRET
    spec_changes: Json = field(default_factory=dict[str, Any])
    environ: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def store(self) -> Path:
        return self.folder / "store"

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

    def start(self, spec: Json | str, *arguments: str, **popen: Any) -> "subprocess.Popen[bytes]":
        secrets = self.folder / "secrets"
        secrets.mkdir(exist_ok=True)
        if self.secret is not None:
            (secrets / "callback_secret").write_text(self.secret + "\n")
        path = self.folder / "spec.json"
        path.write_text(spec if isinstance(spec, str) else json.dumps(spec))
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PIPELINE_", "AWS_"))}
        command = [sys.executable, "-m", "runner", "run", str(path), "--secrets-dir", str(secrets), *arguments]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environ, "AWS_EC2_METADATA_DISABLED": "true", **self.environ},
            cwd=self.folder,
            **popen,
        )

    def run(self, spec: Json | str, *arguments: str, **popen: Any) -> Run:
        return finish(self.start(spec, *arguments, **popen))

    def head(self, pipeline_id: str = "p1") -> Json:
        return json.loads((self.store / "pipelines" / pipeline_id / "head.json").read_text())


def finish(process: "subprocess.Popen[bytes]") -> Run:
    """Wait for the process, bounded; read all it said."""
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"the process hangs; stdout: {out!r}, stderr: {err!r}") from None
    return Run(process.returncode, [json.loads(line) for line in out.splitlines()], err.decode())


def text(words: str) -> Json:
    return {"content": [{"type": "text", "text": words}]}


def calls(*blocks: Json) -> Json:
    return {"content": list(blocks)}


def ask(call_id: str = "call_1", question: str = "Staging or production?", **arguments: Any) -> Json:
    return {
        "type": "toolCall",
        "id": call_id,
        "name": "ask_user",
        "arguments": {"question": question, **arguments},
    }
