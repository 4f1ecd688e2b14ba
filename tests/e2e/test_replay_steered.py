"""Replays of runs that were steered, paused, or killed and taken over."""

import json
import signal

from tests.e2e.replaying import is_same
from tests.e2e.scene import OWN_TOOLS, Scene, ask, call, calls, text
from tests.e2e.test_control import holding, started, stdin_of

PROGRESS = {"checkpoint": {"every": "call"}, "agent": OWN_TOOLS}


def test_queued_messages_are_taken_up_in_the_same_places(scene: Scene) -> None:
    spec, gate = holding(scene, text("One."), text("Two."), control="stdin")
    with stdin_of(scene, spec) as stdin:
        started(stdin.process)
        stdin.send({"type": "follow_up", "text": "And then?"}, {"type": "steer", "text": "Faster."})
        gate.touch()
        run = stdin.process.finish()
    assert run.settlement["text"] == "Two."

    found = is_same(scene, scene.head_address())

    assert (found["runs"], found["turns"]) == (1, 3)


def test_a_pause_with_messages_still_waiting_is_the_same(scene: Scene) -> None:
    spec, gate = holding(scene, text("never said"), control="stdin")
    with stdin_of(scene, spec) as stdin:
        started(stdin.process)
        stdin.send({"type": "steer", "text": "Not yet."}, {"type": "pause"})
        stdin.process.wait_for_log("pausing")
        gate.touch()
        run = stdin.process.finish()
    assert (run.settlement["reason"], len(run.terminal["undelivered"])) == ("paused", 1)

    assert is_same(scene, scene.head_address())["settlement"]["reason"] == "paused"


def test_a_run_that_was_killed_and_taken_over_is_replayed_as_one(scene: Scene) -> None:
    echo, hold = call("echo", "c1", text="hello"), call("hold", "c2", path=str(scene.folder / "never"))
    process = scene.start(scene.spec([calls(echo), calls(ask("c3"), hold)], **PROGRESS), "--events")
    process.wait_for(lambda line: line.get("type") == "tool_execution_start" and line["toolCallId"] == "c2")
    process.signal(signal.SIGKILL)
    process.finish()
    spec = scene.spec([text("never said")], attempt=2, **PROGRESS)
    taken_over = scene.run(spec)
    assert taken_over.settlement["kind"] == "ask_user", taken_over.settlement
    assert any("taken over" in warning for warning in taken_over.terminal["warnings"])

    found = is_same(scene, scene.head_address())

    assert (found["runs"], found["turns"], found["settlement"]["kind"]) == (1, 2, "ask_user")


def test_a_run_that_went_on_after_calls_in_doubt_is_the_same(scene: Scene) -> None:
    hold = call("hold", "c2", path=str(scene.folder / "never"))
    process = scene.start(scene.spec([calls(call("echo", "c1", text="hello"), hold)], **PROGRESS), "--events")
    process.wait_for(lambda line: line.get("type") == "tool_execution_start" and line["toolCallId"] == "c2")
    process.signal(signal.SIGKILL)
    process.finish()
    taken_over = scene.run(scene.spec([text("I looked again.")], attempt=2, **PROGRESS))
    assert taken_over.settlement["text"] == "I looked again."
    assert any("taken over" in warning for warning in taken_over.terminal["warnings"])

    assert is_same(scene, scene.head_address())["turns"] == 2


def test_the_progress_of_a_dead_run_is_replayed_as_far_as_it_goes(scene: Scene) -> None:
    hold = call("hold", "c2", path=str(scene.folder / "never"))
    process = scene.start(
        scene.spec([calls(call("echo", "c1", text="a")), calls(call("echo", "c0", text="b"), hold)], **PROGRESS),
        "--events",
    )
    process.wait_for(lambda line: line.get("type") == "tool_execution_start" and line["toolCallId"] == "c2")
    process.signal(signal.SIGKILL)
    process.finish()

    run = scene.command("replay", scene.head_address(), "--format", "json").finish()
    difference = json.loads(run.output)["difference"]

    assert run.exit == 1
    assert "calls 'echo' (call 'c0'), and no result of it is recorded" in difference["what"]
