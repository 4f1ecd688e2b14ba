"""The agent on models of providers, through the real process: what is sent, what comes of the answers."""

import json
from itertools import pairwise

import pytest

from tests.e2e.models_scene import KEY, agent, give_key
from tests.e2e.scene import Scene, messages, restoring, texts
from tests.fakes.callback_server import CallbackServer
from tests.fakes.model_server import ModelServer
from tests.fakes.provider_answers import APIS, PATHS, Call, answer

pytestmark = pytest.mark.parametrize("api", APIS)
ASK = Call("ask_user", "call_2", {"question": "Staging or production?"})


def test_a_run_calls_a_tool_asks_a_person_and_goes_on_in_a_second_process(
    api: str, scene: Scene, server: CallbackServer
) -> None:
    give_key(scene)
    exchanges = [
        answer(api, "Let me see. ", Call("echo", "call_1", {"text": "héllo"})),
        answer(api, ASK),
        answer(api, "Deployed."),
    ]
    with ModelServer(exchanges) as provider:
        asked = scene.run(scene.spec(None, agent=agent(api, provider)), "--events")
        reply = {"reply": {"tool_call_id": asked.settlement["interruption"]["tool_call_id"], "message": "Staging."}}
        done = scene.run(
            scene.spec(
                None, pipeline_id="p2", agent=agent(api, provider), session=restoring(asked.terminal), input=reply
            )
        )

    assert (asked.exit, asked.settlement["kind"]) == (0, "ask_user")
    assert [json.loads(request.body)["question"] for request in server.questions] == ["Staging or production?"]
    assert asked.terminal["usage"] == {
        "input": 200,
        "output": 40,
        "cache_read": 0,
        "cache_write": 0,
        "total_tokens": 240,
        "cost_usd": 0,
        "requests": 2,
        "turns": 2,
    }
    deltas = [line["assistantMessageEvent"]["type"] for line in asked.lines if line["type"] == "message_update"]
    assert deltas[:3] == ["text_start", "text_delta", "text_end" if api != "openai-completions" else "toolcall_start"]
    assert (done.exit, done.settlement) == (0, {"kind": "success", "text": "Deployed.", "structured": None})
    said = messages(scene.entries(done.terminal))
    assert [message["role"] for message in said] == [
        "user", "assistant", "toolResult", "assistant", "toolResult", "user", "assistant",
    ]  # fmt: skip
    assert texts(said[2]) == "héllo"
    assert {request["path"] for request in provider.requests} == {PATHS[api]}
    header, value = ("x-api-key", KEY) if api == "anthropic-messages" else ("authorization", f"Bearer {KEY}")
    assert all(request["headers"][header] == value for request in provider.requests)
    assert len(provider.requests) == 3


def test_a_resumed_session_sends_the_bytes_of_its_earlier_requests_again(api: str, local_scene: Scene) -> None:
    """What a provider caches: model, tools and system prompt in their bytes, and the conversation, which only grows.

    Anthropic's cache marks stand at the end of the conversation and move with it; they are no part of what is cached.
    """
    give_key(local_scene)
    arguments = {"text": "héllo 😀 \u2028 \\ \x07", "n": 1.0, "z": {"b": [1e21, -0.5, None], "a": True}}
    exchanges = [answer(api, "Thinking…\n", Call("echo", "call_1", arguments)), answer(api, "Done.")]
    with ModelServer([*exchanges, *exchanges]) as provider:
        spec = {"system_prompt": "Be brief.", **agent(api, provider, thinking_level="low")}
        first = local_scene.run(local_scene.spec(None, agent=spec))
        second = local_scene.run(
            local_scene.spec(None, pipeline_id="p2", agent=spec, session=restoring(first.terminal))
        )
    assert second.settlement["kind"] == "success"
    conversation = "input" if api == "openai-responses" else "messages"
    bodies = [raw_members(request["raw"]) for request in provider.requests]
    assert len(bodies) == 4
    for body in bodies:
        grown = body.pop(conversation)
        body[conversation] = grown.replace(b',"cache_control":{"type":"ephemeral"}', b"").removesuffix(b"]")
    for earlier, later in pairwise(bodies):
        talk, longer = earlier[conversation], later[conversation]
        assert longer.startswith(talk)
        assert len(longer) > len(talk)
        assert {**earlier, conversation: b""} == {**later, conversation: b""}
    if api == "anthropic-messages":
        assert all(request["raw"].count(b"cache_control") == 3 for request in provider.requests)
    if api == "openai-responses":
        assert {body["prompt_cache_key"] for body in bodies} == {b'"s1"'}


def raw_members(raw: bytes) -> dict[str, bytes]:
    """The members of a JSON object, each as the bytes that were sent."""
    text, decoder, at = raw.decode(), json.JSONDecoder(), 1
    members: dict[str, bytes] = {}
    while at < len(text):
        name, at = decoder.raw_decode(text, at)
        start = at + 1
        _, at = decoder.raw_decode(text, start)
        members[name] = text[start:at].encode()
        at += 1
    return members


@pytest.mark.parametrize("sees", [True, False], ids=["with eyes", "without eyes"])
def test_images_of_the_user_go_to_models_that_take_them(api: str, sees: bool, local_scene: Scene) -> None:
    give_key(local_scene)
    image = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
    given = {"message": [{"type": "text", "text": "What is it?"}, image]}
    takes = ["text", "image"] if sees else ["text"]
    with ModelServer([answer(api, "A cat.")]) as provider:
        run = local_scene.run(local_scene.spec(None, agent=agent(api, provider, input=takes), input=given))

    assert run.settlement["text"] == "A cat."
    assert messages(local_scene.entries(run.terminal))[0]["content"] == [given["message"][0], image]
    (request,) = provider.requests
    assert (b"aGVsbG8=" in request["raw"]) is sees
    assert (b"(image omitted: model does not support images)" in request["raw"]) is not sees
