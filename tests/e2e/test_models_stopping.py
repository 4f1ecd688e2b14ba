"""Signals and the deadline while a real model is asked: the connection closes at once, what had come is kept."""

import signal
from typing import Any

import pytest

from tests.e2e.models_scene import agent, give_key
from tests.e2e.scene import Json, Run, Scene, messages, texts
from tests.fakes.model_server import ModelServer
from tests.fakes.provider_answers import APIS, answer, begun, refusal

ANTHROPIC, COMPLETIONS, RESPONSES = APIS
AT_ONCE_S = 10
"""Far below what the servers of these tests would make a process wait."""


def settled_as_cancelled(run: Run, provider: ModelServer) -> None:
    assert run.exit == 0
    assert (run.settlement["kind"], run.settlement["reason"]) == ("failure", "cancelled")
    assert run.checkpoint["decision"] == "commit"
    assert run.seconds < AT_ONCE_S
    assert len(provider.requests) == 1


@pytest.mark.parametrize("api", APIS)
def test_a_signal_while_the_answer_streams_closes_the_connection_and_keeps_its_text(
    api: str, local_scene: Scene
) -> None:
    give_key(local_scene)
    with ModelServer([begun(api, "Half a thought", "hang")]) as provider:
        process = local_scene.start(local_scene.spec(None, agent=agent(api, provider)), "--events")
        process.wait_for(lambda line: line.get("assistantMessageEvent", {}).get("type") == "text_delta")
        process.signal(signal.SIGTERM)
        run = process.finish()
        assert provider.hung_up.wait(5)
    settled_as_cancelled(run, provider)
    (message,) = messages(local_scene.entries(run.terminal), "assistant")
    assert (message["stopReason"], texts(message)) == ("aborted", "Half a thought")


def test_a_signal_before_the_answer_closes_the_connection(local_scene: Scene) -> None:
    give_key(local_scene)
    with ModelServer([{"beforeHeaders": "hang"}]) as provider:
        process = local_scene.start(local_scene.spec(None, agent=agent(ANTHROPIC, provider)))
        provider.wait_for_requests(1)
        process.signal(signal.SIGTERM)
        run = process.finish()
        assert provider.hung_up.wait(5)
    settled_as_cancelled(run, provider)


@pytest.mark.parametrize("spare", [True, False], ids=["with a spare model", "alone"])
def test_a_signal_between_two_tries_ends_the_wait(spare: bool, local_scene: Scene) -> None:
    give_key(local_scene)
    busy = refusal(429, "Slow down", "rate_limit_error", retry_after="50")
    with ModelServer([busy]) as provider, ModelServer([answer(COMPLETIONS, "Never asked.")]) as other:
        fallbacks = [agent(COMPLETIONS, other)["model"]] if spare else []
        spec = agent(ANTHROPIC, provider, *fallbacks, max_retry_delay_s=60)
        process = local_scene.start(local_scene.spec(None, agent=spec))
        process.wait_for_log("model_retry")
        process.signal(signal.SIGTERM)
        run = process.finish()
    settled_as_cancelled(run, provider)
    assert not other.requests
    (message,) = messages(local_scene.entries(run.terminal), "assistant")
    assert message["stopReason"] == "error"


def test_the_deadline_ends_an_answer_that_goes_on_and_on(local_scene: Scene) -> None:
    give_key(local_scene)
    limits = {"deadline_s": 9, "grace_s": 3}
    with ModelServer([begun(RESPONSES, "Half", "hang")]) as provider:
        run = local_scene.run(local_scene.spec(None, agent=agent(RESPONSES, provider), limits=limits))
        assert provider.hung_up.wait(5)
    assert (run.exit, run.settlement["reason"]) == (0, "deadline_exceeded")
    assert run.settlement["resumable"] is True
    (message,) = messages(local_scene.entries(run.terminal), "assistant")
    assert (message["stopReason"], texts(message)) == ("aborted", "Half")


def test_a_session_that_was_stopped_in_an_answer_goes_on_without_it(local_scene: Scene) -> None:
    give_key(local_scene)
    with ModelServer([begun(ANTHROPIC, "Half", "hang"), answer(ANTHROPIC, "Whole.")]) as provider:
        spec = local_scene.spec(None, agent=agent(ANTHROPIC, provider))
        process = local_scene.start(spec, "--events")
        process.wait_for(lambda line: line.get("assistantMessageEvent", {}).get("type") == "text_delta")
        process.signal(signal.SIGTERM)
        stopped = process.finish()
        point = {name: stopped.checkpoint[name] for name in ("manifest", "digest")}
        again: dict[str, Any] = {**spec, "pipeline_id": "p2", "session": {"id": "s1", "restore": point}, "input": None}
        run = local_scene.run(again)
    assert run.settlement["text"] == "Whole."
    first, second = (request["raw"] for request in provider.requests)
    assert first == second, "the part of an answer is not sent"
    assert [message["stopReason"] for message in assistant(local_scene, run)] == ["aborted", "stop"]


def assistant(scene: Scene, run: Run) -> list[Json]:
    return messages(scene.entries(run.terminal), "assistant")
