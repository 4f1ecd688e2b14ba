"""Progress and takeover with real processes: each is killed somewhere, and relaunched as an orchestrator does."""

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from tests.e2e.scene import OWN_TOOLS, Json, Run, Scene, Started, ask, call, calls, messages, restoring, text, texts
from tests.fakes.callback_server import CallbackServer

TURN = {"agent": OWN_TOOLS, "checkpoint": {"every": "turn"}}
CALL = {"agent": OWN_TOOLS, "checkpoint": {"every": "call"}}
SLOW = text("never said", delay_ms=60_000)
POLL_S, LONGEST_S = 0.02, 30.0


def until_progress(scene: Scene, condition: Callable[[Json], bool], pipeline_id: str = "p1") -> Json:
    """The head's progress once it is so; another process writes it, so nothing tells when."""
    waiting = threading.Event()
    for _ in range(int(LONGEST_S / POLL_S)):
        progress = scene.head(pipeline_id)["progress"]
        if progress is not None and condition(progress):
            return progress
        waiting.wait(POLL_S)
    raise AssertionError(f"no such progress: {scene.head(pipeline_id)}")


def turns(number: int) -> Callable[[Json], bool]:
    return lambda progress: progress["usage"]["turns"] >= number


def kill(process: Started) -> None:
    process.signal(signal.SIGKILL)
    assert process.finish().exit == -signal.SIGKILL


def stored(run: Run, scene: Scene) -> list[str]:
    """The conversation of the committed checkpoint, in short."""
    return [
        f"{message['role']}{'!' if message.get('isError') else ''}" for message in messages(scene.entries(run.terminal))
    ]


# --- turns --------------------------------------------------------------------------------------------------


def test_a_killed_run_is_continued_behind_its_last_stored_turn(scene: Scene, server: CallbackServer) -> None:
    first = scene.start(scene.spec([calls(call("echo", text="one")), SLOW], **TURN))
    first.wait_for_log("restored")
    progress = until_progress(scene, turns(1))
    kill(first)

    second = scene.run(scene.spec([text("Done.")], attempt=2, **TURN))

    assert second.exit == 0
    assert progress["input_consumed"] is True
    assert stored(second, scene) == ["user", "assistant", "toolResult", "assistant"]
    assert second.terminal["usage"]["requests"] == 2
    assert second.terminal["input_consumed"] is True
    assert len(server.committed) == 1


def test_a_reply_is_taken_and_noted_once_however_often_its_process_dies(scene: Scene) -> None:
    asked = scene.run(scene.spec([calls(ask())])).terminal
    reply = {"reply": {"tool_call_id": "call_1", "message": "production"}}
    changes: Json = {"pipeline_id": "p2", "session": restoring(asked), "input": reply, **TURN}
    for attempt in (1, 2):
        process = scene.start(scene.spec([calls(call("echo", text="one")), SLOW], attempt=attempt, **changes))
        process.wait_for_log("restored")
        until_progress(scene, turns(attempt), "p2")
        kill(process)

    last = scene.run(scene.spec([text("Done.")], attempt=3, **changes))

    entries = scene.entries(last.terminal)
    assert [entry.get("customType") for entry in entries].count("runner.reply") == 1
    assert [texts(message) for message in messages(entries, "user")] == ["Deploy the project.", "production"]
    assert last.checkpoint["parent"] == asked["checkpoint"]["digest"]
    assert last.terminal["usage"]["turns"] == 3


# --- calls --------------------------------------------------------------------------------------------------


def test_a_call_that_killed_its_process_is_in_doubt_and_never_made_again(scene: Scene, server: CallbackServer) -> None:
    ran = scene.folder / "ran"
    deadly = calls(call("count", path=str(ran), kill=True))
    first = scene.run(scene.spec([deadly], **CALL))
    second = scene.run(scene.spec([deadly], attempt=2, **CALL))
    third = scene.run(scene.spec([text("I looked: it was done.")], attempt=3, **CALL))

    assert (first.exit, second.exit, third.exit) == (-signal.SIGKILL, -signal.SIGKILL, 0)
    assert ran.read_text() == "ran\n" * 2, "once for each time that the model asked for it"
    assert stored(third, scene) == ["user", *["assistant", "toolResult!"] * 2, "assistant"]
    doubt = messages(scene.entries(third.terminal), "toolResult")[0]
    assert "not known whether" in texts(doubt)
    assert third.terminal["usage"]["requests"] == 3
    assert any("count" in warning for warning in third.terminal["warnings"])
    assert len(server.committed) == 1


def test_a_question_in_doubt_is_one_card_and_is_waited_for(scene: Scene, server: CallbackServer) -> None:
    both = calls(ask("call_1"), call("count", "call_2", path=str(scene.folder / "ran"), kill=True))
    first = scene.run(scene.spec([both], **CALL))
    second = scene.run(scene.spec([], attempt=2, **CALL))

    assert (first.exit, second.exit) == (-signal.SIGKILL, 0)
    assert second.settlement["kind"] == "ask_user"
    (question,) = second.terminal["questions"]
    assert {json.loads(sent.body)["question_id"] for sent in server.questions} == {question["question_id"]}
    assert stored(second, scene) == ["user", "assistant", "toolResult", "toolResult!"]

    answered = scene.run(
        scene.spec(
            [text("Done.")],
            pipeline_id="p2",
            session=restoring(second.terminal),
            input={"reply": {"tool_call_id": "call_1", "message": "staging"}},
        )
    )
    assert answered.settlement["text"] == "Done."


# --- zombies ------------------------------------------------------------------------------------------------


def test_a_process_whose_claim_is_gone_does_not_run_on_to_its_end(scene: Scene, server: CallbackServer) -> None:
    gate = scene.folder / "gate"
    zombie = scene.start(scene.spec([calls(call("hold", path=str(gate))), SLOW], **TURN), "--events")
    zombie.wait_for(lambda line: line["type"] == "tool_execution_start")
    successor = scene.run(scene.spec([text("In time.")], attempt=2, **TURN))

    gate.touch()
    fenced = zombie.finish()

    assert (successor.exit, fenced.exit) == (0, 76)
    assert fenced.error["reason"] == "fenced"
    assert fenced.settled["terminal"] is None
    assert [json.loads(request.body)["attempt"] for request in server.terminals] == [2]


# --- signals ------------------------------------------------------------------------------------------------


def large_session(path: Path, megabytes: int) -> None:
    """A plain session that compression only halves."""
    header = {"type": "session", "version": 3, "id": "x", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/"}
    with path.open("wb") as file:
        file.write(json.dumps(header).encode() + b"\n")
        for number in range(megabytes):
            message = {"role": "user", "content": [{"type": "text", "text": os.urandom(500_000).hex()}], "timestamp": 0}
            parent = f"a{number - 1}" if number else None
            entry = {"type": "message", "id": f"a{number}", "parentId": parent, "timestamp": header["timestamp"]}
            file.write(json.dumps({**entry, "message": message}).encode() + b"\n")


def test_signals_during_an_upload_of_200_megabytes_have_a_defined_end(scene: Scene) -> None:
    large_session(scene.folder / "large.jsonl", 200)
    restore = {"jsonl": (scene.folder / "large.jsonl").as_uri()}
    process = scene.start(scene.spec([text("Done.")], session={"id": "s1", "restore": restore}, limits={"grace_s": 3}))
    process.wait_for_log("agent_ended")
    process.signal(signal.SIGTERM)
    process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.seconds < 3 + 3
    assert run.exit in (0, 77, 143), "acknowledged, committed, or left to a relaunch"
    if run.exit == 143:
        assert scene.head()["state"] == "claimed"
    elif run.settlement["kind"] == "success":
        assert run.checkpoint["entries"] == 204, "the whole upload made it in time"
    else:
        assert run.settlement["reason"] == "checkpoint_failed"
        assert run.checkpoint["decision"] == "keep_previous"
        assert run.terminal["input_consumed"] is False
