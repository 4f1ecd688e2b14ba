"""No end of the process leaves a tool's process or folder behind, and no tool keeps the log from being frozen."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.scene import Json, Scene, call, calls, text

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolation is Linux's")

STUBBORN_SERVER = """
import json, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("started", file=open("started", "a"))
for line in sys.stdin if sys.argv[1] == "answers" else ():
    message = json.loads(line)
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        server = {"name": "stubborn", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "hang", "description": "Never ends.", "inputSchema": {"type": "object"}}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
while True:
    time.sleep(1)
"""


def with_own_temporary_folder(scene: Scene) -> Path:
    """Where the scene's runner has its folders. Tools of another user come through it."""
    folder = scene.folder / "temporary"
    folder.mkdir()
    folder.chmod(0o755)
    scene.environ["TMPDIR"] = str(folder)
    return folder


def with_stubborn_server(scene: Scene, behaviour: str) -> Json:
    """The spec's `agent` for a server that ignores both its input's end and SIGTERM."""
    pytest.importorskip("mcp")
    workspace = scene.folder / "workspace"
    workspace.mkdir()
    (workspace / "server.py").write_text(STUBBORN_SERVER)
    command = {"command": sys.executable, "args": ["-S", "server.py", behaviour, mark(scene)]}
    return {"model": {"api": "scripted", "script": "script.json"}, "mcp": {"stubborn": command}}


def mark(scene: Scene) -> str:
    return f"mark-{scene.folder.name}"


def marked(scene: Scene) -> list[str]:
    """Processes with the mark in their command line."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark(scene).encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def eventually(condition: Callable[[], bool]) -> bool:
    """Another process does it, which tells nobody."""
    until = time.monotonic() + 20
    while not condition() and time.monotonic() < until:
        os.sched_yield()
    return condition()


def left_of(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


@pytest.mark.parametrize("signals", [1, 2])
def test_a_server_that_will_not_end_does_not_use_up_the_time_of_the_checkpoint(
    local_scene: Scene, signals: int
) -> None:
    temporary = with_own_temporary_folder(local_scene)
    agent = with_stubborn_server(local_scene, "answers")
    limits = {"grace_s": 5, "deadline_s": 100}
    process = local_scene.start(
        local_scene.spec([calls(call("stubborn__hang")), text("Done.")], agent=agent, limits=limits), "--events"
    )
    process.wait_for(lambda line: line["type"] == "tool_execution_start")
    for _ in range(signals):
        process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.settlement["reason"] == "cancelled"
    assert run.checkpoint["decision"] == "commit"
    assert marked(local_scene) == []
    assert left_of(temporary) == []


def test_a_stop_while_servers_are_being_connected_is_not_waited_out(local_scene: Scene) -> None:
    temporary = with_own_temporary_folder(local_scene)
    agent = with_stubborn_server(local_scene, "silent")
    limits = {"grace_s": 60, "deadline_s": 100}
    process = local_scene.start(local_scene.spec([text("Done.")], agent=agent, limits=limits))
    process.wait_for_log("isolation")
    process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.settlement["reason"] == "cancelled"
    assert run.seconds < 10, "the agent's share of the grace is 12 s"
    assert marked(local_scene) == []
    assert left_of(temporary) == []


def test_a_process_that_is_cut_off_ends_its_tools_and_removes_their_folders(local_scene: Scene) -> None:
    """Something holds the event loop: only the thread beside it is left."""
    temporary = with_own_temporary_folder(local_scene)
    agent = {
        "model": {"api": "scripted", "script": "script.json"},
        "tools": ["bash", "tests.e2e.own_tools:TOOLS"],
    }
    command = f"(setsid sh -c 'trap \"\" TERM; sleep 600; : {mark(local_scene)}' &) ; echo $$ > started; sleep 600"
    script = [
        calls(call("bash", "c1", command=command), call("blocks_when_there", "c2", path="started")),
        text("Done."),
    ]
    process = local_scene.start(
        local_scene.spec(script, agent=agent, limits={"grace_s": 1, "deadline_s": 100}), "--events"
    )
    process.wait_for(lambda line: line.get("type") == "tool_execution_update" and line.get("toolCallId") == "c2")
    assert marked(local_scene) != []
    process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.exit == 143
    assert run.error["reason"] == "stopped_before_commit"
    assert marked(local_scene) == []
    assert [name for name in left_of(temporary) if not name.startswith("runner-")] == [], "the log is kept"


def test_a_launch_that_is_stopped_while_its_isolation_is_attacked_claims_nothing(local_scene: Scene) -> None:
    """The attack is held by a `bwrap` that hangs, and tells of it by a file."""
    temporary = with_own_temporary_folder(local_scene)
    programs = local_scene.folder / "programs"
    programs.mkdir()
    began = local_scene.folder / "began"
    os.mkfifo(began)
    (programs / "bwrap").write_text(f"#!/bin/sh\necho began > {began}\nsleep 600 {mark(local_scene)}\n")
    (programs / "bwrap").chmod(0o755)
    local_scene.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    process = local_scene.start(local_scene.spec([text("Done.")], isolation={"required": "process"}))
    assert began.read_text() == "began\n"
    process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.exit == 143
    assert run.error["reason"] == "stopped_before_commit"
    assert not (local_scene.store / "pipelines").exists()
    assert left_of(temporary) == []


def test_a_runner_that_is_killed_leaves_no_tool_and_no_folder_of_theirs(local_scene: Scene) -> None:
    temporary = with_own_temporary_folder(local_scene)
    command = f"(setsid sh -c 'trap \"\" TERM; sleep 600; : {mark(local_scene)}' &); echo there; sleep 600"
    process = local_scene.start(local_scene.spec([calls(call("bash", command=command)), text("never")]), "--events")
    process.wait_for(lambda line: line["type"] == "tool_execution_update")
    assert marked(local_scene) != []
    process.signal(signal.SIGKILL)
    process.finish()

    assert eventually(lambda: marked(local_scene) == [])
    assert eventually(lambda: not [name for name in left_of(temporary) if name.startswith("pipeline-tools-")])


def test_a_search_that_would_never_end_ends_with_the_run(local_scene: Scene) -> None:
    temporary = with_own_temporary_folder(local_scene)
    (local_scene.folder / "workspace").mkdir()
    (local_scene.folder / "workspace" / "text").write_text("a" * 100 + "\n")
    limits = {"grace_s": 10, "deadline_s": 100}
    spec = local_scene.spec([calls(call("grep", pattern="(a+)+$b")), text("never")], limits=limits)
    process = local_scene.start(spec, "--events")
    process.wait_for_log("isolation")
    process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.settlement["reason"] == "cancelled"
    assert run.checkpoint["decision"] == "commit"
    assert left_of(temporary) == []


def test_folders_that_forbid_their_removal_are_removed(local_scene: Scene) -> None:
    temporary = with_own_temporary_folder(local_scene)
    command = "mkdir -p $HOME/cache/inner $TMPDIR/closed; touch $HOME/cache/inner/file; chmod -R a-w $HOME/cache"
    command += "; chmod 0 $TMPDIR/closed"
    run = local_scene.run(local_scene.spec([calls(call("bash", command=command)), text("Done.")]))
    assert run.settlement["kind"] == "success"
    assert left_of(temporary) == []


@pytest.mark.parametrize("required", ["process", "landlock", "namespace"])
def test_a_launch_whose_isolation_is_refused_leaves_nothing(local_scene: Scene, required: str) -> None:
    temporary = with_own_temporary_folder(local_scene)
    run = local_scene.run(local_scene.spec([text("Done.")], isolation={"required": required, "memory_mb": 1}))
    assert run.exit == 78
    assert run.error["reason"] == "isolation_too_weak"
    assert not (local_scene.store / "pipelines").exists()
    assert left_of(temporary) == []
