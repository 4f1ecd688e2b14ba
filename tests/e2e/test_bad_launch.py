"""Launches that are refused: exit 78, one sentence that says what to do, and no side effect."""

import json
import re
import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scene import Json, Run, Scene, at_once, text


@dataclass(frozen=True)
class Case:
    reason: str
    says: str
    """A regular expression for the message."""
    changes: Json = field(default_factory=dict[str, Any])
    raw: Callable[[str], str | bytes] | None = None
    """Makes the bytes of the spec file from its good text."""
    secret: str | None = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0IQ=="
    prepare: Callable[[Path], object] = lambda folder: None
    argument: str | None = None


def agent(**fields: Any) -> Json:
    return {"agent": {"model": {"api": "scripted", "script": "script.json"}, **fields}}


def model(**fields: Any) -> Json:
    return {"agent": {"model": {"api": "scripted", "script": "script.json", **fields}}}


REFUSED = {
    # the spec itself
    "a spec that is not there": Case(
        "spec_unreadable", "nowhere.json: cannot be read .*give the path", argument="nowhere.json"
    ),
    "a spec that is a folder": Case("spec_unreadable", "cannot be read", argument="."),
    "a spec that is not JSON": Case("spec_invalid", "not JSON .*line 1 column", raw=lambda good: good[:-1]),
    "a spec that is not UTF-8": Case(
        "spec_invalid", "not UTF-8 .*save it as UTF-8", raw=lambda good: good.encode("utf-16")
    ),
    "an unknown field": Case("spec_invalid", "inputs: unknown field: did you mean `input`", {"inputs": None}),
    "another version": Case("spec_version", "`version` is 2; .* understands version 1", {"version": 2}),
    "a doubled key": Case(
        "spec_invalid", "'version' stands twice .*keep one", raw=lambda good: good.replace("{", '{"version": 1, ', 1)
    ),
    "several wrong fields": Case(
        "spec_invalid",
        r"(?s)pipeline_id.*; .*limits\.max_turns.*; .*labels",
        {"pipeline_id": "a/b", "limits": {"max_turns": 0}, "labels": {"a": 1}},
    ),
    # what belongs to it
    "a missing secret": Case(
        "launch_refused", "secret `callback_secret` is missing: put it in the file .* or in the variable", secret=None
    ),
    "a secret of another form": Case("launch_refused", "secret `callback_secret`: .*whsec_", secret="12345678"),
    "a missing script": Case("launch_refused", "agent.model.script: .*cannot be read", model(script="none.json")),
    "a restore point that no store can have": Case(
        "launch_refused",
        "session.restore.jsonl: .*is no key of the store: for a file, write file://",
        {"session": {"id": "s1", "restore": {"jsonl": "../outside.jsonl"}}},
    ),
    "a store of an unknown kind": Case(
        "launch_refused", "store.uri: ftp:// is no kind of store", {"store": {"uri": "ftp://h/x"}}
    ),
    "a store that is a file": Case(
        "launch_refused", "store.uri: .*script.json is no folder", {"store": {"uri": "script.json"}}
    ),
    "a workspace in the store": Case(
        "launch_refused", "workspace .* overlaps the store .*folder of its own", {"workspace": "store/inner"}
    ),
    "a workspace that links to the secrets": Case(
        "launch_refused",
        "workspace .* overlaps the secrets directory",
        prepare=lambda folder: (folder / "workspace").symlink_to(folder / "secrets"),
    ),
    "a workspace that leads nowhere": Case(
        "launch_refused",
        "workspace .* leads nowhere",
        prepare=lambda folder: (folder / "workspace").symlink_to("workspace"),
    ),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Scene, Run]]:
    """Every refused launch, made once, several at a time."""
    folder = tmp_path_factory.mktemp("refused")
    names = list(REFUSED)

    def launch(number: int, case: Case) -> tuple[Scene, Run]:
        scene = Scene(folder, "http://127.0.0.1:9", None).at(f"case{number}", secret=case.secret)
        scene.secrets.mkdir()
        case.prepare(scene.folder)
        good = json.dumps(scene.spec([text("never said")], **case.changes))
        if case.argument is not None:
            return scene, scene.run(None, case.argument)
        return scene, scene.run(good if case.raw is None else case.raw(good))

    scenes = [(lambda number=number, name=name: launch(number, REFUSED[name])) for number, name in enumerate(names)]
    found: dict[str, tuple[Scene, Run]] = {}

    def note(name: str, start: Callable[[], tuple[Scene, Run]]) -> Run:
        found[name] = start()
        return found[name][1]

    at_once([lambda name=name, start=start: note(name, start) for name, start in zip(names, scenes, strict=True)])
    return found


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_launch_is_refused_for(name: str, refused: dict[str, tuple[Scene, Run]]) -> None:
    case, (scene, run) = REFUSED[name], refused[name]
    assert run.exit == 78
    assert run.settled["terminal"] is None
    assert run.error["reason"] == case.reason
    assert re.search(case.says, run.error["message"]), run.error
    assert run.logs[-1]["message"] == run.error["message"]
    assert not scene.store.exists(), "a refused launch has no side effect"


def test_a_spec_comes_from_the_environment_or_from_standard_input_as_well(local_scene: Scene) -> None:
    spec = local_scene.spec([text("Done.")], pipeline_id="by-env")
    (local_scene.folder / "stdin.json").write_text(json.dumps({**spec, "pipeline_id": "by-stdin"}))
    (local_scene.folder / "file.json").write_text(json.dumps({**spec, "pipeline_id": "by-file"}))
    by_env = local_scene.at("env", environ={"PIPELINE_SPEC": json.dumps(spec)})
    by_file = local_scene.at("file", environ={"PIPELINE_SPEC_FILE": str(local_scene.folder / "file.json")})
    (by_env.folder / "script.json").write_text((local_scene.folder / "script.json").read_text())

    def from_stdin() -> Run:
        with (local_scene.folder / "stdin.json").open("rb") as stdin:
            return local_scene.run(None, "-", stdin=stdin)

    runs = at_once(
        [lambda: by_env.run(None), lambda: by_file.run(None), from_stdin, lambda: local_scene.at("none").run(None)]
    )

    assert [run.exit for run in runs] == [0, 0, 0, 64]
    assert [run.terminal["pipeline_id"] for run in runs[:3]] == ["by-env", "by-file", "by-stdin"]
    assert runs[3].error["reason"] == "usage"
    assert (by_env.store / "pipelines" / "by-env").is_dir(), "relative paths: to the current folder"
    assert (local_scene.store / "pipelines" / "by-file").is_dir(), "relative paths: to the spec file"


def test_a_wrong_command_line_is_exit_64_with_a_settled_line(local_scene: Scene) -> None:
    run = local_scene.run(None, "spec.json", "--evnts")

    assert run.exit == 64
    assert run.error["reason"] == "usage"
    assert "--evnts" in run.error["message"]


def test_a_store_that_cannot_be_reached_or_written_is_exit_75_and_a_relaunch_is_safe(local_scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed_port = taken.getsockname()[1]
    keys = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret-access-key"}
    s3 = local_scene.at("s3", environ=keys)
    full, no_log = local_scene.at("full"), local_scene.at("no_log")
    refusing = {"uri": "s3://bucket/prefix", "endpoint_url": f"http://127.0.0.1:{closed_port}"}

    def files_up_to(size: int) -> Callable[[], None]:
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    unreachable, unwritable, no_room = at_once(
        [
            lambda: s3.run(s3.spec([text("never said")], store=refusing)),
            lambda: full.run(full.spec([text("never said")]), preexec_fn=files_up_to(200)),
            lambda: no_log.run(no_log.spec([text("never said")]), preexec_fn=files_up_to(0)),
        ]
    )

    for run in (unreachable, unwritable):
        assert run.exit == 75
        assert run.settled["terminal"] is None
        assert run.error["reason"] == "unreachable"
        assert "a relaunch is safe, with a higher attempt" in run.error["message"]
    assert no_room.exit == 75
    assert no_room.error["reason"] == "no_temporary_folder"
    assert "Check `store.endpoint_url` and the network" in unreachable.error["message"]
    assert "secret-access-key" not in unreachable.stderr
