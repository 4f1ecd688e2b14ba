"""Heartbeats of a real process, and what their answers can and cannot do."""

import signal
from typing import Any

import pytest

from tests.e2e.scene import OWN_TOOLS, Json, Scene, call, calls, messages, restoring, text
from tests.fakes.callback_server import HEARTBEATS_PATH, Answer, CallbackServer

GRACE_S = 1
ASKS_TO_CANCEL = Answer(200, body=b'{"action":"cancel"}')
ASKS_TO_PAUSE = Answer(200, body=b'{"action":"pause","note":"a field of later"}')


def beating(scene: Scene, responses: list[Json], *, heartbeat_s: float = 0.1, **changes: Any) -> Json:
    server = {"base_url": scene.server_url, "heartbeat_path": HEARTBEATS_PATH, "heartbeat_s": heartbeat_s}
    return scene.spec(responses, server=server, agent=OWN_TOOLS, **changes)


def test_a_process_tells_where_it_is_even_while_a_tool_holds_it(scene: Scene, server: CallbackServer) -> None:
    process = scene.start(beating(scene, [calls(call("block"))], limits={"grace_s": GRACE_S}), "--events")
    process.wait_for(lambda line: line["type"] == "tool_execution_start")
    before = len(server.heartbeats)
    server.wait_for_heartbeats(before + 5)

    process.end()

    first, last = server.heartbeats[0], server.heartbeats[-1]
    assert {beat.status for beat in server.heartbeats[:-1]} == {200}, "each is signed and well-formed"
    assert first.json()["phase"] in ("claim", "restore", "agent"), "soon after the claim"
    assert (last.json()["phase"], last.json()["turn"], last.json()["usage"]["requests"]) == ("agent", 0, 1)


def test_a_process_that_owns_no_pipeline_does_not_beat_and_neither_does_one_whose_callback_is_over(
    scene: Scene, server: CallbackServer
) -> None:
    assert scene.run(beating(scene, [text("Done.")])).exit == 0
    count = len(server.heartbeats)
    assert count >= 1
    assert scene.run(beating(scene, [text("Done.")], attempt=2)).exit == 0, "settled before: nothing is claimed"

    owner = scene.at("owned")
    held = owner.start(beating(owner, [calls(call("wait"))], pipeline_id="p2", attempt=2), "--events")
    held.wait_for(lambda line: line["type"] == "tool_execution_start")
    assert owner.run(beating(owner, [text("Done.")], pipeline_id="p2", attempt=1)).exit == 76
    held.signal(signal.SIGTERM)
    held.finish()

    spoke = {(beat.json()["pipeline_id"], beat.json()["attempt"]) for beat in server.heartbeats}
    assert spoke == {("p1", 1), ("p2", 2)}


def test_the_servers_answer_cancels_in_the_middle_of_a_tool(scene: Scene, server: CallbackServer) -> None:
    process = scene.start(beating(scene, [calls(call("wait"))], limits={"grace_s": GRACE_S}), "--events")
    process.wait_for(lambda line: line["type"] == "tool_execution_start")

    server.answer_heartbeats_with([ASKS_TO_CANCEL])
    run = process.finish()

    assert run.exit == 0
    assert run.settlement["reason"] == "cancelled"
    assert run.checkpoint["decision"] == "commit"


def test_the_servers_answer_cancels_a_process_that_a_tool_holds(scene: Scene, server: CallbackServer) -> None:
    process = scene.start(beating(scene, [calls(call("block"))], limits={"grace_s": GRACE_S}), "--events")
    process.wait_for(lambda line: line["type"] == "tool_execution_start")

    server.answer_heartbeats_with([ASKS_TO_CANCEL])
    run = process.finish()

    assert run.exit == 143
    assert scene.head()["state"] == "claimed", "left for a takeover"


def test_the_servers_answer_pauses_after_the_turn_and_the_next_pipeline_goes_on(
    scene: Scene, server: CallbackServer
) -> None:
    gate = scene.folder / "gate"
    spec = beating(scene, [calls(call("hold", path=str(gate))), text("never said")], limits={"grace_s": 1})
    process = scene.start(spec, "--events")
    process.wait_for(lambda line: line["type"] == "tool_execution_start")
    server.answer_heartbeats_with([ASKS_TO_PAUSE])
    process.wait_for_log("pausing")
    count = len(server.heartbeats)
    server.wait_for_heartbeats(count + 15)  # longer than the grace, which a pause does not start
    gate.touch()
    paused = process.finish()

    assert paused.exit == 0
    assert paused.settlement["reason"] == "paused"
    assert paused.settlement["resumable"]
    again = scene.spec([text("Went on.")], pipeline_id="p2", session=restoring(paused.terminal), input=None)
    resumed = scene.run(again)
    assert resumed.settlement["text"] == "Went on."
    assert [message["role"] for message in messages(scene.entries(resumed.terminal))] == [
        "user",
        "assistant",
        "toolResult",
        "assistant",
    ]


@pytest.mark.parametrize("wrong", [Answer(503), Answer(409, problem="superseded"), Answer(hang=True), Answer(302)])
def test_heartbeats_that_fail_change_nothing_about_the_run_nor_its_end(
    wrong: Answer, scene: Scene, server: CallbackServer
) -> None:
    server.answer_heartbeats_with([wrong] * 1000)
    gate = scene.folder / "gate"
    process = scene.start(beating(scene, [calls(call("hold", path=str(gate))), text("Done.")]), "--events")
    process.wait_for(lambda line: line["type"] == "tool_execution_start")
    server.wait_for_heartbeats(1)
    gate.touch()
    run = process.finish()

    assert run.exit == 0
    assert run.settlement["text"] == "Done."
    said = [line for line in run.logs if line["event"] == "heartbeat_failed"]
    assert len(said) <= 2
