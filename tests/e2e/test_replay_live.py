"""Forks of a recorded session that go on with a real model."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.replaying import SCRIPTED, Recorded, echo, is_same, replay, report
from tests.e2e.scene import Json, Run, Scene, call, calls, stored_lines, text


def fork(scene: Scene, entry: Json, responses: list[Json], *options: str, **agent: Any) -> Run:
    """Go on from an entry of the recorded pipeline with a scripted model, in a fork of its own file."""
    folder = scene.folder / "live"
    folder.mkdir(exist_ok=True)
    (folder / "script.json").write_text(json.dumps({"responses": responses}))
    spec = scene.spec(None, agent={"model": SCRIPTED, **agent})
    (folder / "spec.json").write_text(json.dumps(spec))
    more = ("--from", entry["id"], "--live", "--spec", str(folder / "spec.json"), *options)
    return replay(scene, scene.head_address(), *more)


def of_role(entries: list[Json], role: str) -> list[Json]:
    return [entry for entry in entries if entry.get("message", {}).get("role") == role]


def test_a_fork_goes_on_with_another_answer_and_the_original_is_not_touched(
    recorded: Recorded,
) -> None:
    scene, terminal, entries = recorded
    before = stored_lines(scene.store, terminal)
    output = scene.folder / "fork.jsonl"
    (user,) = of_role(entries, "user")

    run = fork(scene, user, [calls(echo()), calls(echo("c2", "other")), text("Else.")], "--output", str(output))

    assert run.exit == 0, run.stderr
    found = json.loads(run.output)
    assert (found["type"], found["output"], found["settlement"]["text"]) == ("fork", str(output), "Else.")
    forked = [json.loads(line) for line in output.read_text().splitlines()]
    assert forked[0]["parentSession"] == scene.head_address()
    assert forked[0]["id"] != entries[0]["id"]
    assert [entry for entry in forked if entry["id"] == user["id"]] == [user]
    same, other = (entry["message"] for entry in of_role(forked, "toolResult"))
    assert (same["isError"], same["content"][0]["text"]) == (False, "hello")
    assert other["isError"]
    assert "No tool is run" in other["content"][0]["text"]
    assert stored_lines(scene.store, terminal) == before
    assert scene.head()["terminal"]["body"]
    is_same(scene, scene.head_address())
    assert report(replay(scene, str(output)))["same"]


def test_a_fork_runs_tools_only_if_it_is_told_to(recorded: Recorded) -> None:
    scene, _, entries = recorded
    (result,) = of_role(entries, "toolResult")
    wanted = [calls(call("bash", command="echo really > made.txt && cat made.txt")), text("done")]
    made = scene.folder / "live" / "workspace" / "made.txt"

    recorded_only = fork(scene, result, wanted, "--output", str(scene.folder / "a.jsonl"))
    assert recorded_only.exit == 0, recorded_only.stderr
    assert not made.exists()
    live = fork(scene, result, wanted, "--output", str(scene.folder / "b.jsonl"), "--tools", "live")

    assert live.exit == 0, live.stderr
    assert made.read_text() == "really\n"


def test_a_fork_after_a_finished_answer_needs_a_message(recorded: Recorded) -> None:
    scene, _, entries = recorded

    silent = fork(scene, entries[-1], [text("And?")])
    spoken = fork(scene, entries[-1], [text("And?")], "--message", "Go on.")

    assert silent.exit == 64
    assert "nothing to answer after entry" in silent.stderr
    assert spoken.exit == 0, spoken.stderr
    output = Path(json.loads(spoken.output)["output"])
    forked = [json.loads(line) for line in output.read_text().splitlines()]
    assert [entry["message"]["content"][0]["text"] for entry in of_role(forked, "user")][-1] == "Go on."
    shutil.rmtree(output.parent)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--live",), "--from and --live go together"),
        (("--from", "x"), "--from and --live go together"),
        (("--spec", "spec.json"), "--spec is for a fork"),
        (("--from", "x", "--live", "--step"), "for a replay of what is recorded"),
        (("--from", "x", "--live"), "there is no entry 'x'"),
    ],
)
def test_options_that_say_nothing_together_are_a_wrong_command_line(
    options: tuple[str, ...], said: str, recorded: Recorded
) -> None:
    scene, _, _ = recorded
    run = replay(scene, scene.head_address(), *options)
    assert run.exit == 64
    assert said in run.stderr
    assert run.output == ""
