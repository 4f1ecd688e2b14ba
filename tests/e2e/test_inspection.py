"""inspect, export, import and diff through the real process, on folders and on S3."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.scene import Scene, ask, at_once, calls, stored_lines, text
from tests.fakes.callback_server import CallbackServer
from tests.servers import S3Server, moto_server, seaweed_server

__all__ = ["moto_server", "seaweed_server"]

CORPUS = Path(__file__).parents[1] / "corpus" / "session"


def test_an_engineer_looks_at_a_pipeline_and_takes_its_session_home(scene: Scene, server: CallbackServer) -> None:
    asked = scene.run(scene.spec([calls(ask())]))
    head, exported = scene.head_address(), scene.folder / "home.jsonl"

    shown, value, page, export = at_once(
        [
            lambda: scene.command("inspect", head).finish(),
            lambda: scene.command("inspect", head, "--format", "json").finish(),
            lambda: scene.command("inspect", head, "--format", "html", "--output", "page.html").finish(),
            lambda: scene.command("export", head, "home.jsonl").finish(),
        ]
    )
    assert [run.exit for run in (shown, value, page, export)] == [0, 0, 0, 0], shown.stderr + value.stderr
    assert "settled as" in shown.output
    assert "Staging or production?" in shown.output
    assert json.loads(value.output)["terminal"] == asked.terminal
    assert "Staging or production?" in (scene.folder / "page.html").read_text()
    assert exported.read_bytes() == stored_lines(scene.store, asked.terminal)

    imported = scene.command("import", "home.jsonl", "other", "--session", "s2").finish()
    restore = json.loads(imported.output)
    same, differs = at_once(
        [
            lambda: scene.command("diff", head, str(Path("other") / restore["manifest"])).finish(),
            lambda: scene.command("diff", head, str(CORPUS / "ask-user-1.jsonl")).finish(),
        ]
    )
    assert (same.exit, differs.exit) == (0, 1), same.output + same.stderr
    assert "no difference" in same.output

    reply = {"reply": {"tool_call_id": "call_1", "message": "staging"}}
    spec = scene.spec(
        [text("Deployed.")],
        pipeline_id="p2",
        session={"id": "s2", "restore": restore},
        store={"uri": "other"},
        input=reply,
    )
    done = scene.run(spec)
    assert done.settlement["kind"] == "success"
    assert done.checkpoint["parent"] == restore["digest"]


def test_what_cannot_be_read_ends_with_78_and_says_where_and_how_much(local_scene: Scene) -> None:
    (local_scene.folder / "torn.jsonl").write_bytes((CORPUS / "hole-1.jsonl").read_bytes())
    runs = at_once(
        [
            lambda: local_scene.command("inspect", "torn.jsonl").finish(),
            lambda: local_scene.command("inspect", "torn.jsonl", "--on-damage", "skip").finish(),
            lambda: local_scene.command("diff", "torn.jsonl", "nowhere.jsonl").finish(),
            lambda: local_scene.command("export", "pipelines/p9/head.json", "out.jsonl").finish(),
            lambda: local_scene.command("inspect", "s3://b/x.jsonl", "--addressing-style", "odd").finish(),
        ]
    )
    assert [run.exit for run in runs] == [78, 0, 78, 78, 64]
    assert "torn.jsonl, line 6" in runs[0].stderr
    assert "5 lines were read before it" in runs[0].stderr
    assert "== Damage ==\n- torn.jsonl, line 6: this is no JSON; skipped" in runs[1].output
    assert "pipelines/p9/head.json: it does not exist" in runs[3].stderr


def test_a_reader_that_leaves_early_is_no_fault(local_scene: Scene) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        run = local_scene.command("inspect", str(CORPUS / "linear-chat-1.jsonl"), stdout=writing).finish()
    finally:
        os.close(writing)
    assert (run.exit, run.stderr) == (0, "")


@pytest.fixture(params=["moto", pytest.param("seaweed", marks=pytest.mark.seaweedfs)])
def s3(request: pytest.FixtureRequest) -> S3Server:
    server: Any = request.getfixturevalue(f"{request.param}_server")
    assert isinstance(server, S3Server)
    return server


def test_every_kind_of_source_is_read_from_s3(local_scene: Scene, s3: S3Server) -> None:
    bucket, source = s3.new_bucket(), CORPUS / "compaction-multi-1.jsonl"
    local_scene.secrets.mkdir()
    (local_scene.secrets / "aws_access_key_id").write_text(s3.credentials.access_key_id + "\n")
    (local_scene.secrets / "aws_secret_access_key").write_text(s3.credentials.secret_access_key + "\n")
    endpoint = ["--endpoint-url", s3.endpoint_url, "--region", s3.region]
    s3.client().put_object(Bucket=bucket, Key="plain/a.jsonl", Body=source.read_bytes())

    store = f"s3://{bucket}/runs"
    imported = local_scene.command(
        "import", f"s3://{bucket}/plain/a.jsonl", store, "--session", "s1", *endpoint
    ).finish()
    assert imported.exit == 0, imported.stderr
    manifest = f"{store}/{json.loads(imported.output)['manifest']}"
    again, exported, diff, missing = at_once(
        [
            lambda: local_scene.command("import", str(source), store, "--session", "s1", *endpoint).finish(),
            lambda: local_scene.command("export", manifest, "out.jsonl", *endpoint).finish(),
            lambda: local_scene.command("diff", manifest, f"s3://{bucket}/plain/a.jsonl", *endpoint).finish(),
            lambda: local_scene.command("inspect", f"{store}/pipelines/p1/head.json", *endpoint).finish(),
        ]
    )
    assert [again.exit, exported.exit, diff.exit, missing.exit] == [0, 0, 0, 78], exported.stderr + diff.stderr
    assert again.output == imported.output
    assert (local_scene.folder / "out.jsonl").read_bytes() == source.read_bytes()
    assert f"{store}/pipelines/p1/head.json" in missing.stderr
