"""Tools through the real process: files and commands in the workspace, isolation as the launch requires it."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scene import Json, Scene, calls, messages, stored_entries, text

MODEL = {"api": "scripted", "script": "script.json"}


def call(call_id: str, name: str, **arguments: Any) -> Json:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def results(scene: Scene, terminal: Json) -> dict[str, str]:
    return {
        message["toolCallId"]: message["content"][0]["text"]
        for message in messages(stored_entries(scene.store, terminal), "toolResult")
    }


def test_the_agent_works_on_files_and_with_commands_in_its_workspace(local_scene: Scene) -> None:
    run = local_scene.run(
        local_scene.spec(
            [
                calls(call("c1", "write", path="notes/todo.txt", content="buy milk\n")),
                calls(call("c2", "edit", path="notes/todo.txt", edits=[{"oldText": "milk", "newText": "tea"}])),
                calls(call("c3", "bash", command="cat notes/todo.txt; echo end of $PWD")),
                calls(call("c4", "read", path="notes/todo.txt"), call("c5", "ls", path="notes")),
                text("Done."),
            ]
        )
    )
    assert run.settlement["kind"] == "success"
    said = results(local_scene, run.terminal)
    assert (local_scene.folder / "workspace" / "notes" / "todo.txt").read_text() == "buy tea\n"
    assert "buy tea" in said["c3"]
    assert "buy tea" in said["c4"]
    assert "todo.txt" in said["c5"]


def test_what_a_tool_starts_does_not_outlive_the_run(local_scene: Scene) -> None:
    command = "setsid sh -c 'trap \"\" TERM; echo $$ > pid; sleep 600' >/dev/null 2>&1 & sleep 0.3"
    run = local_scene.run(local_scene.spec([calls(call("c1", "bash", command=command)), text("Done.")]))
    assert run.settlement["kind"] == "success"
    mark = 'trap "" TERM; echo $$ > pid; sleep 600'
    left = [
        entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and mark.encode() in _command_line(entry)
    ]
    assert left == []


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_subagent_answers_and_its_transcript_is_stored_with_the_checkpoint(local_scene: Scene) -> None:
    """Each agent plays the script from its start: the main agent's first call asks the subagent, whose first answer is
    the same call, which is refused there because of the depth; so the script ends both with its later texts.
    """
    run = local_scene.run(
        local_scene.spec(
            [calls(call("c1", "subagent", task="Look around.")), text("Nothing to see.")],
        )
    )
    assert run.settlement == {"kind": "success", "text": "Nothing to see.", "structured": None}
    manifest = json.loads((local_scene.store / run.terminal["checkpoint"]["manifest"]).read_text())
    assert manifest["files"]
    assert all((local_scene.store / file["key"]).exists() for file in manifest["files"])


@pytest.mark.skipif(sys.platform != "linux", reason="isolation is Linux's")
def test_a_required_namespace_holds_and_keeps_secrets_out_of_sight(scene: Scene) -> None:
    isolation = {"required": "namespace", "network": False}
    command = f"cat {scene.folder}/secrets/callback_secret; cat /proc/*/environ | tr '\\0' '\\n' | grep -i secret; true"
    run = scene.run(
        scene.spec([calls(call("c1", "bash", command=command)), text("Done.")], isolation=isolation),
    )
    if run.exit == 78:
        pytest.skip(f"this machine cannot do it: {run.error['message'][:200]}")
    assert run.settlement["kind"] == "success"
    assert scene.secret is not None
    assert scene.secret not in results(scene, run.terminal)["c1"]


def test_what_cannot_be_kept_is_refused_before_the_claim(scene: Scene) -> None:
    """Without bubblewrap no namespace can be had."""
    if os.environ.get("PATH") is None:
        pytest.skip("no PATH to hide things from")
    isolation = {"required": "namespace", "memory_mb": 1}
    run = scene.run(scene.spec([text("never said")], isolation=isolation))
    assert run.exit == 78
    assert run.error["reason"] == "isolation_too_weak"
    assert "isolation.required" in run.error["message"]
    assert not (scene.store / "pipelines").exists()
