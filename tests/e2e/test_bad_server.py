"""Callback servers that misbehave: what is tried again, what is given up, and what waits in the store."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.e2e.scene import Run, Scene, at_once, text
from tests.fakes.callback_server import Answer, CallbackServer, Scripted

CALLBACK_S = 3


@dataclass(frozen=True)
class Case:
    answers: tuple[Scripted, ...]
    exit: int
    state: str
    says: str = ""
    requests: int | None = None
    """None: any number above one."""
    reason: str | None = None


ALWAYS = 100
RETRIED = Case((), 0, "acknowledged")
REJECTED = "its session has moved on without this pipeline"
CASES = {
    "answers 500 and then 200": Case((500, None), 0, "acknowledged", requests=2),
    "answers 429 and then 200": Case((Answer(429, retry_after="0"), None), 0, "acknowledged", requests=2),
    "answers 500 for ever": Case(
        (500,) * ALWAYS, 77, "terminal", "did not acknowledge the callback", None, "unacknowledged"
    ),
    "answers 409 in-flight and then 200": Case((Answer(409, problem="in-flight"), None), 0, "acknowledged", requests=2),
    "answers 409 superseded": Case((Answer(409, problem="superseded"),), 76, "rejected", REJECTED, 1, "rejected"),
    "answers 410": Case((410,), 76, "rejected", REJECTED, 1, "rejected"),
    "answers 404": Case((404,), 77, "terminal", "HTTP 404: mend the server", 1, "unacknowledged"),
    "redirects": Case(
        (Answer(307, location="/elsewhere"),), 77, "terminal", "HTTP 307: mend the server", 1, "unacknowledged"
    ),
    "hangs": Case((Answer(hang=True),) * ALWAYS, 77, "terminal", "did not acknowledge", 1, "unacknowledged"),
    "hangs in the middle of a 409": Case(
        (Answer(409, slow_body=True),) * ALWAYS, 77, "terminal", "did not acknowledge", 1, "unacknowledged"
    ),
    "commits and breaks the connection": Case((Answer(cut=True, consumed=True), None), 0, "acknowledged", requests=2),
}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Scene, CallbackServer, Run]]]:
    folder = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:
        servers = [stack.enter_context(CallbackServer()) for _ in CASES]
        scenes: list[Scene] = []
        for number, (server, case) in enumerate(zip(servers, CASES.values(), strict=True)):
            server.answer_terminals_with(case.answers)
            scenes.append(Scene(folder, server.base_url, server.secret).at(f"case{number}"))
        limits = {"callback_s": CALLBACK_S}
        runs = at_once([lambda s=scene: s.run(s.spec([text("Done.")], limits=limits)) for scene in scenes])
        yield dict(zip(CASES, zip(scenes, servers, runs, strict=True), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_record_is_delivered_or_waits_when_the_server(
    name: str, played: dict[str, tuple[Scene, CallbackServer, Run]]
) -> None:
    case, (scene, server, run) = CASES[name], played[name]
    assert run.exit == case.exit
    assert run.settlement["kind"] == "success"
    assert scene.head()["state"] == case.state
    assert server.other_requests == []
    assert len(server.terminals) == case.requests or (case.requests is None and len(server.terminals) > 1)
    assert {request.body for request in server.terminals} == {scene.head()["terminal"]["body"].encode()}
    assert {request.headers["webhook-id"] for request in server.terminals} == {"term_p1"}
    assert len(server.committed) == (case.exit == 0)
    if case.reason is None:
        assert run.settled["error"] is None
    else:
        assert run.error["reason"] == case.reason
        assert case.says in run.error["message"]
        assert (f"`runner deliver {scene.head_address()}`" in run.error["message"]) == (case.exit == 77)


def test_deliver_sends_the_waiting_record_and_then_finds_nothing_left_to_do(
    played: dict[str, tuple[Scene, CallbackServer, Run]],
) -> None:
    scene, server, run = played["answers 500 for ever"]
    tried = len(server.terminals)
    failed = scene.command("deliver", scene.head_address(), "--callback-s", "1").finish()
    server.answer_terminals_with([])

    first = scene.command("deliver", scene.head_address()).finish()
    second = scene.command("deliver", "store/pipelines/p1/head.json").finish()

    assert [failed.exit, first.exit, second.exit] == [77, 0, 0]
    assert scene.head()["state"] == "acknowledged"
    assert len(server.committed) == 1
    assert server.terminals[-1].body == server.terminals[0].body
    assert len(server.terminals) > tried + 1
    assert run.terminal["pipeline_id"] == "p1"


def test_deliver_refuses_what_it_cannot_send_with_a_sentence(local_scene: Scene, scene: Scene) -> None:
    other = local_scene.at("other", secret=scene.secret)
    commands = {
        ("store/pipelines/p9/head.json",): (78, "does not exist: check the address"),
        ("store/head.json",): (78, "it ends in pipelines/<id>/head.json"),
        ("ftp://host/pipelines/p1/head.json",): (78, "ftp:// is no kind of store"),
        ("store/pipelines/p1/head.json", "--callback-s", "nan"): (64, "must be more than 0"),
    }

    runs = at_once([lambda words=words: other.command("deliver", *words).finish() for words in commands])

    for run, (exit_code, words) in zip(runs, commands.values(), strict=True):
        assert run.exit == exit_code
        assert words in run.stderr


def test_a_server_that_is_down_leaves_the_record_to_a_relaunch(scene: Scene, server: CallbackServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        down = f"http://127.0.0.1:{taken.getsockname()[1]}"
    limits = {"callback_s": 2}
    run = scene.run(scene.spec([text("Done.")], server={"base_url": down}, limits=limits))

    again = scene.run(scene.spec(None, attempt=2, limits=limits))

    assert run.exit == 77
    assert "did not acknowledge" in run.error["message"]
    assert again.exit == 0
    assert again.terminal == run.terminal
    assert len(server.committed) == 1
