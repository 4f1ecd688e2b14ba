"""`--record`: what is kept of a run on a real model, that it plays again, and that no key is anywhere."""

import json
from pathlib import Path

import pytest

from tests.e2e.models_scene import COST, KEY, agent, give_key
from tests.e2e.scene import OWN_TOOLS, Json, Scene, messages
from tests.fakes.callback_server import CallbackServer
from tests.fakes.model_server import ModelServer
from tests.fakes.provider_answers import APIS, Call, answer, begun, refusal

GATEWAY_KEY = "gateway-secret-token-987654"


@pytest.mark.parametrize("api", APIS)
def test_a_recorded_run_plays_again_on_the_scripted_model(
    api: str, scene: Scene, server: CallbackServer, tmp_path: Path
) -> None:
    give_key(scene)
    exchanges = [
        refusal(529, "Overloaded", "overloaded_error"),
        begun(api, "Half", "cut"),
        answer(api, "Let me see. ", Call("echo", "call_1", {"text": "on"})),
        answer(api, Call("ask_user", "call_2", {"question": "Staging or production?"})),
    ]
    recording = tmp_path / "recording"
    with ModelServer(exchanges) as provider:
        spec = scene.spec(None, agent=agent(api, provider, cost=COST))
        real = scene.run(spec, "--record", str(recording))
    assert real.settlement["kind"] == "ask_user"
    assert sorted(path.name for path in recording.iterdir()) == [
        *(f"{n:04d}.{kind}" for n in range(1, 5) for kind in ("request.json", "response.json", "response.sse")),
        "script.json",
    ]
    assert (recording / "0001.response.sse").read_text() == exchanges[0]["chunks"][0]["text"]
    assert (recording / "0003.response.sse").read_text() == "".join(chunk["text"] for chunk in exchanges[2]["chunks"])
    assert json.loads((recording / "0004.request.json").read_text())["body"] == provider.requests[3]["body"]

    played_agent = {**OWN_TOOLS, "model": {"api": "scripted", "script": str(recording / "script.json")}}
    retries = {"max_retries": 4, "max_retry_delay_s": 0.01}
    played_agent["model"] |= retries
    other = scene.at("played")
    played = other.run(other.spec(None, pipeline_id="p2", session={"id": "s2"}, agent=played_agent))

    assert played.settlement["kind"] == "ask_user"
    told, again = real.settlement["interruption"], played.settlement["interruption"]
    assert told == again
    assert played.terminal["usage"] == real.terminal["usage"]
    assert said(other, played.terminal) == said(scene, real.terminal)


def said(scene: Scene, terminal: Json) -> list[Json]:
    """The conversation, without what only the wire knows."""
    return [
        {
            "role": message["role"],
            "stopReason": message.get("stopReason"),
            "content": [
                {name: value for name, value in block.items() if not name.endswith("Signature")}
                for block in message["content"]
            ],
        }
        for message in messages(scene.entries(terminal))
    ]


@pytest.mark.parametrize("api", APIS)
def test_no_key_gets_out_of_the_process_but_to_the_provider(api: str, scene: Scene, tmp_path: Path) -> None:
    """The server echoes both keys wherever it can: in headers and body of an error, in the error of a stream."""
    give_key(scene)
    (scene.secrets / "gateway").write_text(GATEWAY_KEY)
    echo = f"no such key: {KEY} (via {GATEWAY_KEY}, Bearer {KEY})"
    inside = {
        "type": "error",
        "code": "overloaded",
        "message": echo,
        "error": {"type": "overloaded_error", "code": "overloaded", "message": echo},
    }
    exchanges = [
        refusal(529, echo, "overloaded_error", x_request=f"Bearer {KEY}"),
        {"headers": {"content-type": "text/event-stream"}, "chunks": [{"text": f"data: {json.dumps(inside)}\n\n"}]},
        refusal(401, echo, "authentication_error", www_authenticate=GATEWAY_KEY),
    ]
    recording = tmp_path / "recording"
    with ModelServer(exchanges) as provider:
        headers = {"x-gateway-token": {"secret": "gateway"}, "x-team": "blue"}
        spec = scene.spec(None, agent=agent(api, provider, headers=headers))
        run = scene.run(spec, "--events", "--record", str(recording))
    assert (run.exit, run.settlement["reason"], len(provider.requests)) == (0, "model_auth", 3)
    assert all(request["headers"]["x-gateway-token"] == GATEWAY_KEY for request in provider.requests)
    assert all(request["headers"]["x-team"] == "blue" for request in provider.requests)
    assert "[secret removed]" in run.settlement["message"]
    written = [path for folder in (scene.store, recording) for path in folder.rglob("*") if path.is_file()]
    texts = [path.read_bytes() for path in written] + [run.output.encode(), run.stderr.encode()]
    texts.append(json.dumps(scene.entries(run.terminal)).encode())
    for secret in (KEY, GATEWAY_KEY):
        assert not any(secret.encode() in text for text in texts)


def test_a_recording_is_refused_where_it_cannot_be_one(scene: Scene, tmp_path: Path) -> None:
    give_key(scene)
    full = tmp_path / "full"
    full.mkdir()
    (full / "0001.request.json").touch()
    with ModelServer([answer(APIS[0], "Never asked.")]) as provider:
        spec = scene.spec(None, agent=agent(APIS[0], provider))
        for folder, says in ((full, "is not empty: name a new folder"), (full / "0001.request.json", "cannot be made")):
            run = scene.run(spec, "--record", str(folder))
            assert (run.exit, run.error["reason"]) == (78, "launch_refused")
            assert says in run.error["message"]
        scripted = scene.run(scene.spec([{"content": []}]), "--record", str(tmp_path / "new"))
    assert scripted.exit == 78
    assert "sends no requests to record" in scripted.error["message"]
    assert not provider.requests
