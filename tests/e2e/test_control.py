"""The control channel of a real process, by standard input and by socket."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scene import OWN_TOOLS, Json, Run, Scene, Started, call, calls, messages, restoring, text, texts
from tests.fakes.callback_server import CallbackServer

TOOL_STARTED = "tool_execution_start"


class Stdin:
    """The writing end of a process's standard input."""

    def __init__(self, scene: Scene, spec: Json) -> None:
        reader, self._writer = os.pipe()
        self.process = scene.start(spec, "--events", stdin=reader)
        os.close(reader)

    def send(self, *lines: Any) -> list[Json]:
        """The answers to some commands, which have ids of their own."""
        for number, line in enumerate(lines):
            os.write(self._writer, json.dumps({**line, "id": number}).encode() + b"\n")
        return [
            self.process.wait_for(lambda said, number=number: said["type"] == "control" and said.get("id") == number)
            for number in range(len(lines))
        ]

    def write(self, data: bytes) -> None:
        os.write(self._writer, data)

    def end(self) -> None:
        os.close(self._writer)


@contextmanager
def stdin_of(scene: Scene, spec: Json) -> Generator[Stdin]:
    stdin = Stdin(scene, spec)
    try:
        yield stdin
    finally:
        stdin.end()


def by_socket(path: Path, *lines: Json) -> list[Json]:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.settimeout(30)
        answers = client.makefile()
        found: list[Json] = []
        for line in lines:
            client.sendall(json.dumps(line).encode() + b"\n")
            found.append(json.loads(answers.readline()))
        return found


def started(process: Started) -> Started:
    process.wait_for(lambda line: line["type"] == TOOL_STARTED)
    return process


def holding(scene: Scene, *responses: Json, control: str, **changes: Any) -> tuple[Json, Path]:
    """A run whose first turn waits for a file."""
    gate = scene.folder / "gate"
    first = calls(call("hold", path=str(gate)))
    return scene.spec([first, *responses], agent=OWN_TOOLS, control=control, **changes), gate


def roles_and_texts(scene: Scene, run: Run) -> list[tuple[str, str]]:
    return [(message["role"], texts(message)) for message in messages(scene.entries(run.terminal))]


def test_a_steering_message_comes_after_the_turn_and_a_follow_up_when_the_agent_would_end(scene: Scene) -> None:
    spec, gate = holding(scene, text("One."), text("Two."), control="stdin")
    with stdin_of(scene, spec) as stdin:
        started(stdin.process)
        answers = stdin.send(
            {"type": "follow_up", "text": "And then?"}, {"type": "steer", "text": "Faster, \ud800 please."}
        )
        gate.touch()
        run = stdin.process.finish()

    assert [answer["ok"] for answer in answers] == [True, True]
    assert run.exit == 0
    assert roles_and_texts(scene, run)[2:] == [
        ("toolResult", "let go"),
        ("user", "Faster, \ufffd please."),
        ("assistant", "One."),
        ("user", "And then?"),
        ("assistant", "Two."),
    ]
    assert run.terminal["undelivered"] == []


def test_a_message_that_comes_before_the_agent_waits_for_it_and_the_end_of_input_is_no_cancel(scene: Scene) -> None:
    lines = b'{"type":"steer","text":"Be brief."}\nno json\n{"type":"follow_up","text":"Bye."}'
    (scene.folder / "commands").write_bytes(lines)
    with (scene.folder / "commands").open("rb") as commands:
        slow = {"content": [{"type": "text", "text": "One.", "delay_ms": 700}]}
        run = scene.run(scene.spec([slow, text("Two."), text("Three.")], control="stdin"), stdin=commands)

    assert run.exit == 0
    assert run.terminal["undelivered"] == []
    said = [words for role, words in roles_and_texts(scene, run) if role == "user"]
    assert said == ["Deploy the project.", "Be brief.", "Bye."]
    answers = [line for line in run.lines if line["type"] == "control"]
    assert [answer["ok"] for answer in answers] == [True, False, True]
    assert run.lines[-1]["type"] == "settled"


def test_a_pause_waits_for_the_turn_and_what_was_not_taken_is_listed_for_the_next_pipeline(scene: Scene) -> None:
    spec, gate = holding(scene, text("never said"), control="stdin", limits={"grace_s": 1})
    with stdin_of(scene, spec) as stdin:
        started(stdin.process)
        answers = stdin.send(
            {"type": "steer", "text": "Not yet."},
            {"type": "pause"},
            {"type": "steer", "text": "Too late."},
            {"type": "follow_up", "text": "Too late as well."},
        )
        stdin.process.wait_for_log("pausing")
        gate.touch()
        run = stdin.process.finish()

    assert [answer["ok"] for answer in answers] == [True, True, False, False]
    assert answers[2]["error"]["reason"] == "stopping"
    assert (run.exit, run.settlement["reason"], run.settlement["resumable"]) == (0, "paused", True)
    assert run.terminal["undelivered"] == [{"queue": "steering", "text": "Not yet."}]
    assert run.terminal["input_consumed"]

    resumed = scene.run(scene.spec([text("Went on.")], pipeline_id="p2", session=restoring(run.terminal), input=None))
    assert resumed.settlement["text"] == "Went on."
    assert [role for role, _ in roles_and_texts(scene, resumed)] == ["user", "assistant", "toolResult", "assistant"]


def test_a_cancel_ends_the_run_in_the_middle_of_a_tool_and_a_signal_after_a_pause_does_so_too(scene: Scene) -> None:
    runs: list[Run] = []
    for name in ("cancelled", "paused first"):
        own = scene.at(name.replace(" ", "-"))
        ids: Json = {"pipeline_id": name[:6], "session": {"id": name[:6]}}
        spec = own.spec([calls(call("wait"))], agent=OWN_TOOLS, control="stdin", limits={"grace_s": 5}, **ids)
        with stdin_of(own, spec) as stdin:
            started(stdin.process)
            if name == "cancelled":
                assert stdin.send({"type": "steer", "text": "x"}, {"type": "cancel"})[1]["ok"]
            else:
                assert stdin.send({"type": "pause"})[0]["ok"]
                stdin.process.signal(signal.SIGTERM)
            runs.append(stdin.process.finish())

    for run in runs:
        assert (run.exit, run.settlement["reason"], run.checkpoint["decision"]) == (0, "cancelled", "commit")
    assert runs[0].terminal["undelivered"] == [{"queue": "steering", "text": "x"}]


def test_a_socket_takes_commands_of_several_clients_and_is_gone_at_the_end(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    spec, gate = holding(scene, text("One."), control="control.sock")
    process = started(scene.start(spec, "--events"))

    assert path.stat().st_mode & 0o777 == 0o600
    half = socket.socket(socket.AF_UNIX)
    half.connect(str(path))
    half.sendall(b'{"type":"cancel"')
    first = by_socket(path, {"type": "steer", "text": "Faster."}, {"type": "stop"}, {"type": "pause", "now": True})
    second = by_socket(path, {"type": "follow_up", "text": "x" * 70_000})
    gate.touch()
    run = process.finish()
    half.close()

    assert first[0] == {"type": "control", "pipeline_id": "p1", "ok": True, "command": "steer"}
    assert [answer["error"]["reason"] for answer in (*first[1:], *second)] == [
        "unknown_type",
        "unknown_field",
        "line_too_long",
    ]
    assert (run.exit, run.settlement["text"]) == (0, "One.")
    assert ("user", "Faster.") in roles_and_texts(scene, run)
    assert not path.exists()
    assert all(line["type"] != "control" for line in run.lines), "a socket's answers go to its client"


def test_a_cancel_by_socket_is_taken_while_a_tool_holds_the_process(scene: Scene, tmp_path: Path) -> None:
    spec = scene.spec([calls(call("block"))], agent=OWN_TOOLS, control="control.sock", limits={"grace_s": 1})
    process = started(scene.start(spec, "--events"))

    assert by_socket(tmp_path / "control.sock", {"type": "cancel"})[0]["ok"]
    run = process.finish()

    assert run.exit == 143
    assert not (tmp_path / "control.sock").exists()


REACH = (
    "import socket,sys;c=socket.socket(socket.AF_UNIX);c.connect(sys.argv[1]);"
    'c.sendall(b\'{\\"type\\":\\"cancel\\"}\\\\n\');print(c.makefile().readline())'
)


def test_tools_cannot_reach_the_socket(scene: Scene, tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    command = f'python3 -c "{REACH}" {path} 2>&1 || echo "no way"'
    spec = scene.spec(
        [calls(call("bash", command=command)), text("Done.")],
        agent={**OWN_TOOLS, "tools": ["bash"]},
        control="control.sock",
    )
    run = scene.run(spec)

    assert (run.exit, run.settlement["text"]) == (0, "Done."), run.stderr
    (result,) = messages(scene.entries(run.terminal), "toolResult")
    assert "no way" in texts(result) or "not_allowed" in texts(result)


def test_the_servers_being_down_changes_nothing_about_the_channel(scene: Scene, server: CallbackServer) -> None:
    spec, gate = holding(
        scene, text("One."), control="stdin", server={"base_url": "http://127.0.0.1:1"}, limits={"callback_s": 1}
    )
    del server
    with stdin_of(scene, spec) as stdin:
        started(stdin.process)
        assert stdin.send({"type": "steer", "text": "Faster."})[0]["ok"]
        gate.touch()
        run = stdin.process.finish()
    assert run.exit == 77
    assert ("user", "Faster.") in roles_and_texts(scene, run)


def test_a_message_that_was_taken_into_a_log_which_is_not_committed_is_listed(scene: Scene) -> None:
    spec, gate = holding(scene, text("One."), control="stdin")
    with stdin_of(scene, spec) as stdin:
        started(stdin.process)
        assert stdin.send({"type": "steer", "text": "Faster."})[0]["ok"]
        segments = scene.store / "sessions"
        segments.write_text("a file where the store needs a folder")
        gate.touch()
        run = stdin.process.finish()
    assert run.settlement["reason"] == "checkpoint_failed"
    assert run.terminal["undelivered"] == [{"queue": "steering", "text": "Faster."}]


@pytest.mark.parametrize(
    ("control", "says"),
    [
        ("x" * 120, "shorten it"),
        ("nowhere/control.sock", "does not exist"),
        ("workspace/control.sock", "overlaps the control socket"),
        ("script.json", "no socket"),
        ("secrets", "no socket"),
    ],
)
def test_a_socket_that_cannot_be_is_refused_by_check(control: str, says: str, scene: Scene) -> None:
    (scene.folder / "workspace").mkdir()
    (scene.folder / "spec.json").write_text(json.dumps(scene.spec([text("Done.")], control=control)))
    checked = scene.command("check", str(scene.folder / "spec.json")).finish()
    assert checked.exit == 78
    assert says in checked.stderr


def test_standard_input_cannot_be_both_the_spec_and_the_channel(scene: Scene) -> None:
    path = scene.folder / "spec.json"
    path.write_text(json.dumps(scene.spec([text("Done.")], control="stdin")))
    with path.open("rb") as spec:
        run = scene.run(None, "-", stdin=spec)
    assert run.exit == 78
    assert "control" in run.error["message"]
    assert scene.command("check", str(path), stdin=subprocess.DEVNULL).finish().exit == 0
