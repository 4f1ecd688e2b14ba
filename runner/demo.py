"""`runner demo`: the whole story on one machine, with real processes and nothing to set up.

The server (`runner serve`) in a folder, with a scripted model. A task starts a first pipeline, which asks and ends; the
answer starts a second one, which restores the checkpoint and finishes. The page shows it; the demo plays the person.
"""

import json
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from checkpoint.jsontypes import JsonObject
from runner.errors import Refused
from runner.exits import Exit

TASK, QUESTION, ANSWER = "Deploy the project.", "Deploy to staging or to production?", "staging"
STEP_S = 60.0
LOOK_S = 0.1

ASKING = {
    "responses": [
        {
            "content": [
                {"type": "text", "text": "The build is ready. One thing is missing."},
                {
                    "type": "toolCall",
                    "id": "call_1",
                    "name": "ask_user",
                    "arguments": {
                        "question": QUESTION,
                        "context": "Staging is free. Production has a change window until 18:00.",
                        "options": ["staging", "production"],
                    },
                },
            ],
            "usage": {"input": 1240, "output": 64},
        }
    ]
}
FINISHING = {
    "responses": [
        {
            "content": [{"type": "text", "text": "Deployed to staging. All checks are green."}],
            "usage": {"input": 1380, "output": 18},
        }
    ]
}


class _WentWrong(Exception):
    """The story did not go as it should. The text says where."""


def run_demo(folder: Path | None, *, keep: bool = False) -> int:
    """Run the story and print it; exit 0 if it went as it should, else 70. `keep`: the server stays until a signal.
    Raises Refused without the extra, and for a folder that cannot be made.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise Refused("extra_missing", ["`runner demo` needs the extra: pip install 'pipeline-runner[server]'"])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror or error
            raise Refused("folder", [f"{folder} cannot be used ({why}): name another folder"]) from None
        return _served(folder.absolute(), keep=keep)
    with tempfile.TemporaryDirectory(prefix="runner-demo-") as temporary:
        return _served(Path(temporary), keep=keep)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _served(folder: Path, *, keep: bool) -> int:
    _write(folder / "template.json", {"agent": {"model": {"api": "scripted", "script": "pipeline-{n}.json"}}})
    _write(folder / "pipeline-1.json", ASKING)
    _write(folder / "pipeline-2.json", FINISHING)
    command = [sys.executable, "-m", "runner", "serve", "--folder", str(folder)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL)  # noqa: S603 - this very program
    try:
        _story(server, folder)
        if keep:
            _say("=", "the server stays for a look at the page: Ctrl-C ends it")
            server.wait()
    except KeyboardInterrupt:
        return Exit.ACKNOWLEDGED if keep else Exit.STOPPED
    except (_WentWrong, httpx.HTTPError) as error:
        sys.stderr.write(f"runner: the demo did not go as it should: {error}\n")
        sys.stderr.write((folder / "server.log").read_text(errors="replace"))
        return Exit.DEFECT
    finally:
        _end(server)
    return Exit.ACKNOWLEDGED


def _story(server: "subprocess.Popen[bytes]", folder: Path) -> None:
    url = _address(server)
    token = (folder / "private" / "token").read_text().strip()
    session_id = f"demo-{secrets.token_hex(4)}"
    _say("0", f"the page: {url}/?token={token}")
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, timeout=STEP_S, trust_env=False) as client:
        _say("1", f"a task: {TASK} A first process runs the agent")
        client.post("/api/sessions", json={"message": TASK, "session_id": session_id}).raise_for_status()
        waiting = _wait(client, session_id, "WAITING_INPUT", pipelines=1)
        card = waiting["questions"][0]
        _say("?", f"the page shows the question: {card['question']} ({', '.join(card['options'])})")
        _report(waiting["pipelines"][0])
        _say("2", f"the answer: {ANSWER}. A new process restores the checkpoint and goes on")
        reply = {"reply_id": secrets.token_hex(8), "message": ANSWER}
        client.post(f"/api/questions/{card['question_id']}/reply", json=reply).raise_for_status()
        done = _wait(client, session_id, "SUCCEEDED", pipelines=2)
        _report(done["pipelines"][1])
    _say("=", "2 pipelines, 2 signed callbacks, committed by the server")


def _address(server: "subprocess.Popen[bytes]") -> str:
    assert server.stdout is not None, "it is a pipe"
    line = server.stdout.readline()
    if not line:
        raise _WentWrong("the server did not start")
    return json.loads(line)["url"]


def _wait(client: httpx.Client, session_id: str, state: str, *, pipelines: int) -> JsonObject:
    """The session once its task has this state and its processes have ended."""

    def reached(session: JsonObject) -> bool:
        ended = [pipeline for pipeline in session["pipelines"] if pipeline["standing"] == "ended"]
        return session["tasks"][-1]["state"] == state and len(ended) == pipelines

    return _look_until(lambda: client.get(f"/api/sessions/{session_id}").raise_for_status().json(), reached, state)


def _look_until(look: Callable[[], JsonObject], reached: Callable[[JsonObject], bool], wanted: str) -> JsonObject:
    until = time.monotonic() + STEP_S
    while not reached(seen := look()):
        if seen["tasks"][-1]["state"] in ("FAILED", "CANCELLED") or time.monotonic() > until:
            raise _WentWrong(f"{wanted} was expected, the task is {seen['tasks'][-1]['state']}")
        time.sleep(LOOK_S)
    return seen


def _report(pipeline: dict[str, Any]) -> None:
    settlement, checkpoint = pipeline["settlement"], pipeline["checkpoint"]
    text = f": {settlement['text']}" if settlement["kind"] == "success" else ""
    _say(">", f"settled: {settlement['kind']}{text}")
    exit_code = pipeline["attempts"][-1]["exit"]
    _say(">", f"checkpoint: {checkpoint['entries']} entries, {checkpoint['decision']}, exit {exit_code}")


def _end(server: "subprocess.Popen[bytes]") -> None:
    """In good order; a second signal does not leave it behind."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    server.terminate()
    with suppress(subprocess.TimeoutExpired):
        server.wait(STEP_S)
    server.kill()
    server.wait()
    assert server.stdout is not None, "it is a pipe"
    server.stdout.close()


def _write(path: Path, document: object) -> None:
    path.write_text(json.dumps(document, indent=2))


def _say(mark: str, words: str) -> None:
    sys.stdout.write(f"[{mark}] {words}\n")
    sys.stdout.flush()
