"""What `runner serve` refuses before it opens anything, and what it makes by itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.server.errors import ServeRefused
from runner.server.launching import Order
from runner.server.settings import CommandTemplate, Folder, callback_secrets, load_token
from runner.server.template import Template, load_template
from settlement.commit_rule import RestorePoint
from tests.unit.settlement.samples import digest_of

AGENT: dict[str, Any] = {"model": {"api": "scripted", "script": "story-{n}.json"}}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "serve")
    folder.make()
    return folder


def test_token_and_secret_are_made_once_and_for_their_owner_only(folder: Folder) -> None:
    assert callback_secrets(folder) == callback_secrets(folder)
    assert load_token(folder, None).text == load_token(folder, None).text
    for name in ("token", "callback_secret"):
        assert (folder.private / name).stat().st_mode & 0o777 == 0o600
    assert folder.private.stat().st_mode & 0o777 == 0o700


def test_a_token_that_others_may_read_or_guess_is_refused(folder: Folder) -> None:
    path = folder.path / "token"
    path.write_text("a-token-that-is-long-enough\n")
    path.chmod(0o644)
    with pytest.raises(ServeRefused, match="chmod 600"):
        load_token(folder, path)
    path.write_text("short\n")
    path.chmod(0o600)
    with pytest.raises(ServeRefused, match="at least 20"):
        load_token(folder, path)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("docker run image", "spec"),
        ("docker run {spec} {secret}", "unknown placeholder {secret}"),
        ("docker run {spec!r:>10}", "unknown placeholder {spec!r:>10}"),
        ("docker run {spec} {attempt:d}", "unknown placeholder {attempt:d}"),
        ("docker 'run {spec}", "quotation"),
        ("docker {spec", "--command"),
    ],
)
def test_a_command_that_could_start_nothing_is_refused(command: str, problem: str) -> None:
    with pytest.raises(ServeRefused, match=problem):
        CommandTemplate(command)


def test_a_command_is_split_before_it_is_filled_in() -> None:
    command = CommandTemplate("run --name 'p {pipeline_id}' {spec}")
    words = command.words(spec="/a b/spec.json", secrets="", pipeline_id="p1; rm", attempt="1", session_id="s1")
    assert words == ["run", "--name", "p p1; rm", "/a b/spec.json"]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "agent: must be given"),
        ({"agent": {}}, "agent.model: must be given"),
        ({"agent": AGENT, "pipeline_id": "p"}, "`pipeline_id` is filled in by the server"),
        ({"agent": AGENT, "limit": {}}, "unknown field"),
        ({"agent": AGENT, "server": 3}, "server"),
        ({"agent": AGENT, "store": []}, "store"),
    ],
)
def test_a_template_that_launches_nothing_is_refused(folder: Folder, document: Any, problem: str) -> None:
    with pytest.raises(ServeRefused, match=problem):
        Template(document, folder.path, folder)


def test_a_template_file_that_is_missing_or_no_json_is_refused(folder: Folder) -> None:
    with pytest.raises(ServeRefused, match="give --template"):
        load_template(None, folder)
    (folder.path / "template.json").write_text("{")
    with pytest.raises(ServeRefused, match="not JSON"):
        load_template(None, folder)


def test_the_server_fills_the_template_in(folder: Folder) -> None:
    document = {"agent": AGENT, "limits": {"max_turns": 3}, "labels": {"team": "a"}, "store": {"uri": "objects"}}
    (folder.path / "template.json").write_text(json.dumps(document))
    template = load_template(None, folder)
    point = RestorePoint(digest_of("c"), "sessions/s1/checkpoints/c.json")
    order = Order("p2", 3, "s1", "room", "chat:ann", {"message": "Go."}, point, 2)
    spec = template.spec(order, "http://127.0.0.1:1")
    assert (spec["pipeline_id"], spec["attempt"], spec["input"]) == ("p2", 3, {"message": "Go."})
    assert spec["session"] == {"id": "s1", "restore": {"manifest": point.manifest, "digest": point.digest}}
    assert spec["labels"] == {"team": "a", "stream_id": "room", "owner": "chat:ann"}
    assert spec["agent"]["model"]["script"] == str(folder.path / "story-2.json")
    assert (spec["store"]["uri"], spec["limits"]) == (str(folder.path / "objects"), {"max_turns": 3})
    assert spec["server"]["base_url"] == "http://127.0.0.1:1"
