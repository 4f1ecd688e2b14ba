"""`runner demo`: the whole story on one machine, with real processes and nothing to set up.

A session from a plain Pi file; a first process asks a question and ends; the answer starts a second process, which
restores the checkpoint and finishes. Store: a folder. Model: a script. Server: `demo_server.py` on loopback.
"""

import json
import secrets
import subprocess
import sys
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any

from checkpoint.session.header import new_header
from checkpoint.session.log import SessionLog
from runner.demo_server import DemoServer
from runner.exits import Exit
from settlement.commit_rule import RestorePoint

SESSION, QUESTION = "demo-session", "Deploy to staging or to production?"
PROCESS_S = 60

ASKING = {
    "responses": [
        {
            "content": [
                {"type": "text", "text": "The build is ready. One thing is missing."},
                {
                    "type": "toolCall",
                    "id": "call_1",
                    "name": "ask_user",
                    "arguments": {"question": QUESTION, "options": ["staging", "production"]},
                },
            ]
        }
    ]
}
FINISHING = {"responses": [{"content": [{"type": "text", "text": "Deployed to staging. All checks are green."}]}]}


def run_demo(folder: Path | None) -> int:
    """Run the story and print it; exit 0 if it went as it should, else 70."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        return _story(folder)
    with tempfile.TemporaryDirectory(prefix="runner-demo-") as temporary:
        return _story(Path(temporary))


def _story(folder: Path) -> int:
    secret = "whsec_" + b64encode(secrets.token_bytes(24)).decode()
    _write_secret(folder, secret)
    session = folder / "session.jsonl"
    session.unlink(missing_ok=True)
    _write_session(session)
    with DemoServer(secret) as server:
        server.restore_points[SESSION] = RestorePoint(None)
        _say("1", f"restores {session.name}, a plain Pi session, and runs the agent")
        first = _launch(
            folder,
            server,
            "demo-1",
            ASKING,
            restore={"jsonl": session.absolute().as_uri()},
            input={"message": "Deploy the project."},
        )
        if first is None or not server.questions:
            return _failed()
        card = server.questions[0]
        _say("?", f"the server shows the question: {card.question} ({', '.join(card.options or ())})")
        _report(first)
        point = server.restore_points[SESSION]
        if point is None or point.manifest is None:
            return _failed()
        _say("2", "a new process restores the checkpoint, with the answer: staging")
        second = _launch(
            folder,
            server,
            "demo-2",
            FINISHING,
            restore={"manifest": point.manifest, "digest": point.digest},
            input={"reply": {"tool_call_id": server.questions[0].tool_call_id, "message": "staging"}},
        )
        if second is None or second["settlement"]["kind"] != "success":
            return _failed()
        _report(second)
        _say(
            "=", f"{len(server.terminals)} pipelines, {len(server.terminals)} signed callbacks, committed by the server"
        )
    return Exit.ACKNOWLEDGED


def _launch(folder: Path, server: DemoServer, pipeline_id: str, script: Any, **spec: Any) -> dict[str, Any] | None:
    """One real process, as an orchestrator would start it; the callback's body if it exited 0."""
    (folder / f"{pipeline_id}.script.json").write_text(json.dumps(script))
    restore, given = spec["restore"], spec["input"]
    unique_id = f"{pipeline_id}-{secrets.token_hex(4)}"
    document: dict[str, Any] = {
        "version": 1,
        "pipeline_id": unique_id,
        "session": {"id": SESSION, "restore": restore},
        "store": {"uri": "store"},
        "input": given,
        "agent": {"model": {"api": "scripted", "script": f"{pipeline_id}.script.json"}},
        "server": {"base_url": server.base_url},
    }
    server.launching(unique_id, SESSION)
    path = folder / f"{pipeline_id}.spec.json"
    path.write_text(json.dumps(document, indent=2))
    command = [sys.executable, "-m", "runner", "run", str(path), "--secrets-dir", str(folder / "secrets")]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PROCESS_S, check=False)  # noqa: S603 - this very program, with a spec of our own
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"runner: the demo's process did not end within {PROCESS_S} s\n")
        return None
    if done.returncode != 0:
        sys.stderr.write(done.stderr.decode(errors="replace"))
        return None
    return json.loads(done.stdout.splitlines()[-1])["terminal"]


def _write_secret(folder: Path, secret: str) -> None:
    path = folder / "secrets" / "callback_secret"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(secret + "\n")
    path.chmod(0o600)


def _write_session(path: Path) -> None:
    """What happened before the demo, as Pi would have left it."""
    log = SessionLog.create(path, new_header(str(path.parent)))
    log.append_message({"role": "user", "content": [{"type": "text", "text": "Is the build green?"}], "timestamp": 0})
    log.append_message(
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Yes, all 214 tests pass."}],
            "api": "scripted",
            "provider": "scripted",
            "model": "scripted-model",
            "usage": {
                **dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0),
                "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0),
            },
            "stopReason": "stop",
            "timestamp": 0,
        }
    )
    log.close()


def _report(terminal: dict[str, Any]) -> None:
    settlement, checkpoint = terminal["settlement"], terminal["checkpoint"]
    text = f": {settlement['text']}" if settlement["kind"] == "success" else ""
    _say(">", f"settled: {settlement['kind']}{text}")
    _say(">", f"checkpoint: {checkpoint['entries']} entries, {checkpoint['decision']}, exit 0")


def _say(mark: str, words: str) -> None:
    sys.stdout.write(f"[{mark}] {words}\n")
    sys.stdout.flush()


def _failed() -> int:
    sys.stderr.write("runner: the demo did not go as it should; the lines above say why\n")
    return Exit.DEFECT
