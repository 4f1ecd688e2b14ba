"""One pipeline, several processes: who owns it, who is fenced, who delivers what is stored."""

import json
import signal

from tests.e2e.scene import OWN_TOOLS, Json, Scene, ask, at_once, call, calls, restoring, text
from tests.fakes.callback_server import CallbackServer

SLOW = text("never said", delay_ms=60_000)


def test_a_second_process_of_the_same_attempt_is_fenced_and_a_higher_one_takes_a_dead_claim_over(
    scene: Scene, server: CallbackServer
) -> None:
    owner = scene.start(scene.spec([SLOW]))
    owner.wait_for_log("restored")
    claimed = scene.head()

    spec = scene.spec([text("Done by another.")])
    second = scene.run(spec)
    owner.signal(signal.SIGKILL)
    owner.finish()

    assert second.exit == 76
    assert second.error["reason"] == "fenced"
    assert "attempt 1" in second.error["message"]
    assert second.settled["terminal"] is None
    assert scene.head() == claimed, "the fenced process changed nothing"

    again, higher = scene.run(spec), scene.run({**spec, "attempt": 2})

    assert again.exit == 76, "nobody can tell a dead process of the same attempt from a living one"
    assert higher.exit == 0
    assert higher.terminal["attempt"] == 2
    assert higher.settlement["text"] == "Done by another."
    assert len(server.committed) == 1


def test_a_process_that_lost_its_claim_while_it_ran_commits_nothing_and_calls_nobody(
    scene: Scene, server: CallbackServer
) -> None:
    gate = scene.folder / "gate"
    waiting = calls(call("hold", path=str(gate)))
    zombie = scene.start(scene.spec([waiting, text("Too late.")], agent=OWN_TOOLS), "--events")
    zombie.wait_for(lambda line: line["type"] == "tool_execution_start")

    successor = scene.run(scene.spec([text("In time.")], agent=OWN_TOOLS, attempt=2))
    gate.touch()
    fenced = zombie.finish()

    assert successor.exit == 0
    assert fenced.exit == 76
    assert fenced.error["reason"] == "fenced"
    assert [json.loads(request.body)["attempt"] for request in server.terminals] == [2]
    assert scene.head()["terminal"]["manifest"] == successor.checkpoint["manifest"]


def test_a_relaunch_over_a_settled_pipeline_runs_nothing_whatever_its_attempt(
    scene: Scene, server: CallbackServer
) -> None:
    stored, acknowledged, rejected = (scene.at(name) for name in ("stored", "acknowledged", "rejected"))
    server.answer_terminals_with([404, 410])
    first = stored.run(stored.spec([text("Done.")], pipeline_id="stored"))
    refused = rejected.run(rejected.spec([text("Done.")], pipeline_id="rejected"))
    done = acknowledged.run(acknowledged.spec([text("Done.")], pipeline_id="acknowledged", session={"id": "s2"}))
    assert [first.exit, refused.exit, done.exit] == [77, 76, 0]
    before = len(server.terminals)

    def relaunch(scene: Scene, pipeline_id: str, attempt: int, session: str = "s1") -> Json:
        return scene.spec([text("Again.")], pipeline_id=pipeline_id, attempt=attempt, session={"id": session})

    delivered, quiet, no = at_once(
        [
            lambda: stored.run(relaunch(stored, "stored", 1)),
            lambda: acknowledged.run(relaunch(acknowledged, "acknowledged", 5, "s2")),
            lambda: rejected.run(relaunch(rejected, "rejected", 2)),
        ]
    )

    assert [delivered.exit, quiet.exit, no.exit] == [0, 0, 76]
    assert delivered.terminal == first.terminal
    assert quiet.terminal == done.terminal
    assert no.error["reason"] == "rejected"
    assert "launch a new pipeline" in no.error["message"]
    assert len(server.terminals) == before + 1, "only the stored record was sent again"
    again, original = server.terminals[-1], server.terminals[0]
    assert again.body == original.body
    assert again.headers["webhook-id"] == original.headers["webhook-id"] == "term_stored"
    assert stored.head("stored")["state"] == "acknowledged"


def test_a_pipeline_id_belongs_to_one_session(local_scene: Scene) -> None:
    local_scene.run(local_scene.spec([text("Done.")]))

    run = local_scene.run(local_scene.spec([text("Done.")], session={"id": "s2"}, attempt=2))

    assert run.exit == 78
    assert run.error["reason"] == "other_session"
    assert "p1 belongs to session s1, not to s2: give every pipeline an id of its own" in run.error["message"]


def test_of_two_pipelines_on_one_restore_point_the_server_commits_one(scene: Scene, server: CallbackServer) -> None:
    asked = scene.run(scene.spec([calls(ask())])).terminal

    def answer(pipeline_id: str) -> Json:
        reply = {"reply": {"tool_call_id": "call_1", "message": pipeline_id}}
        return scene.spec([text("Done.")], pipeline_id=pipeline_id, session=restoring(asked), input=reply)

    first, second = scene.run(answer("p2")), scene.run(answer("p3"))

    assert [first.exit, second.exit] == [0, 76]
    assert second.error["reason"] == "rejected"
    assert scene.head("p3")["state"] == "rejected"
    assert second.terminal["pipeline_id"] == "p3"
    point = server.restore_point("s1")
    assert point is not None
    assert point.digest == first.checkpoint["digest"]
