"""`runner serve` as a real process, for tests: started, asked, killed, started again; its pipelines are real, too."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.e2e.scene import TIMEOUT_S, Started

Json = dict[str, Any]
OVER = ("SUCCEEDED", "FAILED", "CANCELLED")


class Serving:
    """One server folder. `stories`: the scripts of a session's first, second, … pipeline."""

    def __init__(self, folder: Path, *stories: list[Json], **template: Any) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        agent: Json = {"model": {"api": "scripted", "script": "story-{n}.json"}}
        document: Json = {"agent": agent, "limits": {"deadline_s": 60, "grace_s": 5, "callback_s": 20}, **template}
        (folder / "template.json").write_text(json.dumps(document))
        for number, responses in enumerate(stories, start=1):
            (folder / f"story-{number}.json").write_text(json.dumps({"responses": responses}))
        self.url = ""
        self.started: Started | None = None

    # --- the process ----------------------------------------------------------------------------------------

    def start(self, *arguments: str) -> "Serving":
        command = [sys.executable, "-m", "runner", "serve", "--folder", str(self.folder), *arguments]
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PIPELINE_", "AWS_"))}
        process: Any = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.started = Started(process)
        self.url = self.started.wait_for(lambda line: line["type"] == "serving")["url"]
        return self

    @property
    def process(self) -> Started:
        assert self.started is not None, "start it first"
        return self.started

    def kill(self) -> None:
        """SIGKILL to the server alone; its pipelines run on."""
        self.process.end()

    def stop(self) -> int:
        self.process.signal(signal.SIGTERM)
        return self.process.finish().exit

    def close(self) -> None:
        """End the server and every pipeline it started."""
        if self.started is not None:
            self.started.end()
        for pid in self.pipeline_pids():
            os.kill(pid, signal.SIGKILL)

    def pipeline_pids(self) -> list[int]:
        """Every process that was given a spec of this folder."""
        runs = os.fsencode(self.folder / "private" / "runs")
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if runs in words and b"serve" not in words.split(b"\0"):
                    found.append(int(entry.name))
        return found

    # --- requests -------------------------------------------------------------------------------------------

    @property
    def token(self) -> str:
        return (self.folder / "private" / "token").read_text().strip()

    def client(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, timeout=TIMEOUT_S, headers=headers)

    def get(self, path: str) -> Any:
        with self.client() as client:
            answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Json | None = None) -> httpx.Response:
        with self.client() as client:
            return client.post(path, json=body)

    def new_task(self, session_id: str, message: str = "Deploy the project.", **more: Any) -> str:
        answer = self.post("/api/sessions", {"message": message, "session_id": session_id, **more})
        assert answer.status_code == 201, answer.text
        return answer.json()["task_id"]

    def session(self, session_id: str) -> Json:
        return self.get(f"/api/sessions/{session_id}")

    def state(self, session_id: str) -> str:
        return self.session(session_id)["tasks"][-1]["state"]

    def reply(self, question_id: str, message: str = "staging", reply_id: str | None = None) -> httpx.Response:
        """Without `reply_id`: another answer than any before."""
        body = {"reply_id": reply_id or uuid4().hex, "message": message}
        return self.post(f"/api/questions/{question_id}/reply", body)

    def cancel(self, task_id: str) -> httpx.Response:
        return self.post(f"/api/tasks/{task_id}/cancel")

    # --- waiting --------------------------------------------------------------------------------------------

    @contextmanager
    def events(self, session_id: str, after: str) -> Generator[Iterator[Json]]:
        """What happens in the session from the cursor on, as it is said."""
        with (
            self.client() as client,
            client.stream("GET", f"/api/sessions/{session_id}/events", params={"after": after}) as stream,
        ):
            assert stream.status_code == 200, stream.status_code
            yield _parsed(stream.iter_lines())

    def wait_for(self, session_id: str, condition: Callable[[Json], Any]) -> Json:
        """The session, once it meets the condition; it is looked at after every event."""
        until = time.monotonic() + TIMEOUT_S
        seen = self.session(session_id)
        if condition(seen):
            return seen
        with self.events(session_id, seen["cursor"]) as events:
            for _ in events:
                seen = self.session(session_id)
                if condition(seen):
                    return seen
                assert time.monotonic() < until, seen
        raise AssertionError(f"the events ended: {seen}")

    def wait_for_state(self, session_id: str, *states: str) -> Json:
        return self.wait_for(session_id, lambda seen: seen["tasks"][-1]["state"] in states)

    def wait_for_end(self, session_id: str) -> Json:
        """Once no pipeline is at work."""
        return self.wait_for(session_id, lambda seen: all(found["standing"] == "ended" for found in seen["pipelines"]))

    def wait_for_card(self, session_id: str, count: int = 1) -> Json:
        seen = self.wait_for(session_id, lambda seen: len(seen["questions"]) >= count)
        return seen["questions"][count - 1]

    # --- a tool that waits ----------------------------------------------------------------------------------

    def gate(self, session_id: str, name: str = "gate") -> "Gate":
        """A pipe in the session's workspace, for `waiting_call`: the tool runs until it is opened."""
        workspace = self.folder / "workspaces" / session_id
        workspace.mkdir(parents=True, exist_ok=True)
        os.mkfifo(workspace / name)
        return Gate(workspace / name)


def waiting_call(call_id: str = "call_gate", name: str = "gate") -> Json:
    """A tool call that ends when the gate is opened."""
    return {"type": "toolCall", "id": call_id, "name": "bash", "arguments": {"command": f"cat {name}"}}


class Gate:
    def __init__(self, path: Path) -> None:
        self._path = path

    def wait_until_reached(self) -> int:
        """The tool has opened its end. Returns the descriptor of ours: close it to let the tool end."""
        opened: list[int] = []
        thread = threading.Thread(target=lambda: opened.append(os.open(self._path, os.O_WRONLY)), daemon=True)
        thread.start()
        thread.join(TIMEOUT_S)
        assert opened, "the tool was not reached"
        return opened[0]

    def open(self) -> None:
        os.close(self.wait_until_reached())


def _parsed(lines: Iterator[str]) -> Iterator[Json]:
    event: Json = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line == "" and "event" in event:
            yield event
            event = {}
        elif name == "data":
            event["data"] = json.loads(value)
        elif name in ("id", "event"):
            event[name] = value
