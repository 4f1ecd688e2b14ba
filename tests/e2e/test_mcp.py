"""MCP servers over streamable HTTP through the real process: progress, a call that hangs, a server that hangs."""

import signal
import socket
from collections.abc import Iterator

import pytest

from tests.e2e.scene import Json, Scene, call, calls, messages, stored_entries, text, texts
from tests.fakes.mcp_server import HttpMcp, serve_http

pytest.importorskip("mcp")

WAIT_S = 20


@pytest.fixture
def http() -> Iterator[HttpMcp]:
    with serve_http() as served:
        yield served


def agent(url: str) -> Json:
    return {"model": {"api": "scripted", "script": "script.json"}, "tools": [], "mcp": {"fake": {"url": url}}}


def test_results_images_and_progress_of_a_server_reach_session_and_events(local_scene: Scene, http: HttpMcp) -> None:
    script = [
        calls(call("fake__add", "c1", a=2, b=3), call("fake__slow", "c2"), call("fake__picture", "c3")),
        text("Done."),
    ]
    run = local_scene.run(local_scene.spec(script, agent=agent(http.url)), "--events")

    assert run.settlement["kind"] == "success"
    results = {
        message["toolCallId"]: message
        for message in messages(stored_entries(local_scene.store, run.terminal), "toolResult")
    }
    assert texts(results["c1"]) == "5"
    assert texts(results["c2"]) == "done"
    assert [block["type"] for block in results["c3"]["content"]] == ["image"]
    updates = [texts(line["partialResult"]) for line in run.lines if line["type"] == "tool_execution_update"]
    assert updates == ["1 of 2: step 1", "2 of 2: step 2"]


def test_a_stop_cancels_the_call_at_the_server(local_scene: Scene, http: HttpMcp) -> None:
    limits = {"grace_s": 10, "deadline_s": 100}
    spec = local_scene.spec([calls(call("fake__hang")), text("never")], agent=agent(http.url), limits=limits)
    process = local_scene.start(spec, "--events")
    process.wait_for(lambda line: line["type"] == "tool_execution_update")
    process.signal(signal.SIGTERM)
    run = process.finish()

    assert run.settlement["reason"] == "cancelled"
    assert http.cancelled.wait(WAIT_S)
    (result,) = messages(stored_entries(local_scene.store, run.terminal), "toolResult")
    assert result["isError"] is True
    assert "aborted" in texts(result)


def test_a_stop_does_not_wait_for_a_server_that_never_answers(local_scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        limits = {"grace_s": 10, "deadline_s": 100}
        process = local_scene.start(local_scene.spec([text("never")], agent=agent(url), limits=limits))
        connection, _ = silent.accept()
        with connection:
            process.signal(signal.SIGTERM)
            run = process.finish()

    assert run.exit == 0
    assert run.settlement["reason"] == "cancelled"


def test_a_server_that_is_not_there_fails_the_set_up_by_name(local_scene: Scene) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/mcp"
    run = local_scene.run(local_scene.spec([text("never")], agent=agent(url)))

    assert run.settlement["reason"] == "setup_failed"
    assert "fake" in run.settlement["message"]
