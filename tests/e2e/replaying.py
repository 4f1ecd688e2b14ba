"""How tests of replays ask for them, and what they are given back."""

import json
from typing import Any, TypeAlias

from tests.e2e.scene import Json, Run, Scene, call

SCRIPTED = {"api": "scripted", "script": "script.json"}
Recorded: TypeAlias = tuple[Scene, Json, list[Json]]
"""A pipeline of two turns with a tool: its scene, its terminal record, the entries of its session."""


def replay(scene: Scene, source: str, *options: str, **popen: Any) -> Run:
    return scene.command("replay", source, "--format", "json", *options, **popen).finish()


def report(run: Run) -> Json:
    assert run.exit in (0, 1), run.stderr
    return json.loads(run.output.splitlines()[-1])


def is_same(scene: Scene, source: str) -> Json:
    run = replay(scene, source)
    found = report(run)
    assert (run.exit, found["same"], found["difference"], found["settlement_changes"]) == (0, True, None, []), found
    return found


def echo(call_id: str = "call_1", words: str = "hello") -> Json:
    return call("echo", call_id, text=words)
