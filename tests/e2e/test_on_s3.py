"""The whole story of two processes on real S3 servers."""

from typing import Any

import pytest

from tests.e2e.scene import Json, Scene, ask, at_once, calls, restoring, text
from tests.fakes.callback_server import CallbackServer
from tests.servers import S3Server, moto_server, seaweed_server

__all__ = ["moto_server", "seaweed_server"]


@pytest.fixture(params=["moto", pytest.param("seaweed", marks=pytest.mark.seaweedfs)])
def s3(request: pytest.FixtureRequest) -> S3Server:
    server: Any = request.getfixturevalue(f"{request.param}_server")
    assert isinstance(server, S3Server)
    return server


def test_a_question_and_its_answer_in_two_processes_with_the_checkpoint_on_s3(
    scene: Scene, server: CallbackServer, s3: S3Server
) -> None:
    bucket = s3.new_bucket()
    scene.secrets.mkdir()
    (scene.secrets / "aws_access_key_id").write_text(s3.credentials.access_key_id + "\n")
    (scene.secrets / "aws_secret_access_key").write_text(s3.credentials.secret_access_key + "\n")
    store: Json = {"uri": f"s3://{bucket}/runs/a", "endpoint_url": s3.endpoint_url, "region": s3.region}

    asked = scene.run(scene.spec([calls(ask())], store=store))
    reply = {"reply": {"tool_call_id": "call_1", "message": "staging"}}
    second = scene.spec(
        [text("Deployed.")], store=store, pipeline_id="p2", session=restoring(asked.terminal), input=reply
    )
    done = scene.run(second)
    again, delivered, unknown = at_once(
        [
            lambda: scene.run({**second, "attempt": 2}),
            lambda: scene.command("deliver", f"{store['uri']}/pipelines/p2/head.json", *endpoint(s3)).finish(),
            lambda: scene.command("deliver", f"{store['uri']}/pipelines/p9/head.json", *endpoint(s3)).finish(),
        ]
    )

    assert [asked.settlement["kind"], done.settlement["kind"]] == ["ask_user", "success"]
    assert done.checkpoint["parent"] == asked.checkpoint["digest"]
    assert len(server.committed) == 2
    assert [again.exit, delivered.exit, unknown.exit] == [0, 0, 78]
    assert again.terminal == done.terminal
    keys = [found["Key"] for found in s3.client().list_objects_v2(Bucket=bucket)["Contents"]]
    assert {key.split("/")[2] for key in keys} == {"sessions", "pipelines", "conditions-marker.json"}
    assert s3.credentials.secret_access_key not in asked.stderr + done.stderr


def endpoint(s3: S3Server) -> list[str]:
    return ["--endpoint-url", s3.endpoint_url, "--region", s3.region]


def test_a_bucket_that_is_not_there_ends_the_process_with_what_to_do(local_scene: Scene, moto_server: S3Server) -> None:
    local_scene.environ = {
        "AWS_ACCESS_KEY_ID": moto_server.credentials.access_key_id,
        "AWS_SECRET_ACCESS_KEY": moto_server.credentials.secret_access_key,
    }
    store = {"uri": "s3://nobody-made-this-bucket/x", "endpoint_url": moto_server.endpoint_url}

    run = local_scene.run(local_scene.spec([text("never said")], store=store))

    assert run.exit == 75
    assert run.error["reason"] == "missing_bucket"
    assert "Create the bucket or correct `store.uri`" in run.error["message"]
    inspected = local_scene.command(
        "inspect", f"{store['uri']}/pipelines/p1/head.json", *endpoint(moto_server)
    ).finish()
    assert inspected.exit == 78
    assert "Create the bucket" in inspected.stderr


def test_a_command_that_opens_two_stores_reads_credentials_of_the_environment_once(
    local_scene: Scene, moto_server: S3Server
) -> None:
    local_scene.environ = {
        "AWS_ACCESS_KEY_ID": moto_server.credentials.access_key_id,
        "AWS_SECRET_ACCESS_KEY": moto_server.credentials.secret_access_key,
    }
    store = f"s3://{moto_server.new_bucket()}/runs"
    reached = endpoint(moto_server)
    spec = local_scene.spec([text("Done.")], store={"uri": store, "endpoint_url": moto_server.endpoint_url})
    assert local_scene.run(spec).exit == 0
    head = f"{store}/pipelines/p1/head.json"
    assert local_scene.command("export", head, str(local_scene.folder / "s.jsonl"), *reached).finish().exit == 0

    imported, compared = at_once(
        [
            lambda: local_scene.command(
                "import", str(local_scene.folder / "s.jsonl"), store, "--session", "s2", *reached
            ).finish(),
            lambda: local_scene.command("diff", head, head, *reached).finish(),
        ]
    )

    assert (imported.exit, imported.stderr) == (0, "")
    assert compared.exit == 0, compared.stderr
