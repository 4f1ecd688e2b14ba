"""`runner reconcile` beside real processes: what it finishes for the dead, and leaves to the living."""

import json
import os
import signal

from tests.e2e.scene import OWN_TOOLS, Run, Scene, at_once, call, calls, text
from tests.fakes.callback_server import Answer, CallbackServer


def reconcile(scene: Scene, *options: str) -> Run:
    return scene.command("reconcile", str(scene.store), "--json", "--callback-s", "5", *options).finish()


def results(run: Run) -> dict[str, tuple[str, bool]]:
    return {line["pipeline_id"]: (line["result"], line["lost"]) for line in run.lines[:-1]}


def age(scene: Scene, pipeline_id: str, seconds: float) -> None:
    """As if the head had been written so long ago."""
    path = scene.store / "pipelines" / pipeline_id / "head.json"
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


def test_a_killed_pipeline_becomes_lost_by_one_of_many_reconcilers_and_a_record_is_redelivered(
    scene: Scene, server: CallbackServer
) -> None:
    server.answer_terminals_with([Answer(400)])
    assert scene.run(scene.spec([text("Done.")], pipeline_id="untold", session={"id": "s2"})).exit == 77
    killed = scene.start(scene.spec([calls(call("wait"))], agent=OWN_TOOLS, labels={"owner": "team"}), "--events")
    killed.wait_for(lambda line: line["type"] == "tool_execution_start")
    killed.end()
    first = reconcile(scene)
    assert results(first) == {"p1": ("running", False), "untold": ("delivered", False)}
    age(scene, "p1", 3600 + 25 + 1)

    runs = at_once([lambda: reconcile(scene)] * 2)

    assert {run.exit for run in (first, *runs)} == {0}
    assert sum(results(run)["p1"][1] for run in runs) == 1
    by_id = {record.pipeline_id: record for record in server.committed}
    lost = by_id["p1"]
    assert lost.settlement.kind == "failure"
    assert (lost.settlement.reason, lost.labels) == ("lost", {"owner": "team"})
    assert len(server.committed) == 2
    assert scene.head()["state"] == "acknowledged"
    late = scene.run(scene.spec([text("Too late.")], attempt=2))
    assert (late.exit, late.settlement["reason"]) == (0, "lost"), "nothing is run any more"


def test_an_owner_that_slept_beyond_its_time_is_fenced_when_it_wakes(scene: Scene, server: CallbackServer) -> None:
    gate = scene.folder / "gate"
    spec = scene.spec([calls(call("hold", path=str(gate))), text("Done.")], agent=OWN_TOOLS)
    sleeping = scene.start(spec, "--events")
    sleeping.wait_for(lambda line: line["type"] == "tool_execution_start")
    sleeping.signal(signal.SIGSTOP)
    age(scene, "p1", 3600 + 25 + 1)
    assert results(reconcile(scene)) == {"p1": ("delivered", True)}
    before = scene.head()

    gate.touch()
    sleeping.signal(signal.SIGCONT)
    woken = sleeping.finish()

    assert (woken.exit, woken.error["reason"]) == (76, "fenced")
    assert scene.head() == before
    assert len(server.terminals) == 1


def test_the_command_line_says_what_is_wrong(scene: Scene) -> None:
    missing = scene.command("reconcile", str(scene.folder / "nowhere")).finish()
    assert missing.exit == 78
    assert "nowhere/ is no folder" in missing.stderr
    assert scene.command("reconcile", "ftp://x/y").finish().exit == 78
    assert scene.command("reconcile", str(scene.store), "--at-once", "0").finish().exit == 64

    assert scene.run(scene.spec([text("Done.")], server=None)).exit == 0
    (scene.secrets / "callback_secret").unlink(missing_ok=True)
    nothing = scene.command("deliver", scene.head_address()).finish()
    assert (nothing.exit, nothing.output) == (
        0,
        "runner: there is nothing to deliver for pipeline p1: no server waits for its record\n",
    )
    (scene.store / "pipelines" / "broken").mkdir()
    (scene.store / "pipelines" / "broken" / "head.json").write_text("{")
    run = scene.command("reconcile", str(scene.store)).finish()
    assert run.exit == 78
    assert run.output.splitlines()[-1] == "runner: 2 pipelines: 1 damaged, 1 settled; 0 lost"
    dry = scene.command("reconcile", scene.store.as_uri(), "--dry-run", "--json").finish()
    assert json.loads(dry.output.splitlines()[-1])["results"] == {"damaged": 1, "settled": 1}
