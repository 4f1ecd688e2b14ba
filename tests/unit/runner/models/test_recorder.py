"""Recordings: whole enough to play again, and free of secrets."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.models.calls import ModelCalls
from runner.models.recorder import Recorder, scripted_response
from tests.fakes.model_server import ModelServer
from tests.unit.runner.models.conftest import KEY, Harness, anthropic_model, started_text, text_answer

pytestmark = pytest.mark.anyio
SSE = {"content-type": "text/event-stream", "set-cookie": "session=abcdef"}


def calls_of(harness: Harness, directory: Path) -> ModelCalls:
    return ModelCalls(harness.around, keys={"anthropic": KEY}, recorder=Recorder(directory, print))


def written(directory: Path) -> list[Path]:
    files = sorted(directory.iterdir())
    assert [file.name for file in files] == [
        "0001.request.json",
        "0001.response.json",
        "0001.response.sse",
        "0002.request.json",
        "0002.response.json",
        "0002.response.sse",
        "script.json",
    ]
    return files


async def test_a_run_is_recorded_as_a_script_of_its_answers(harness: Harness, tmp_path: Path) -> None:
    exchanges = [
        {"headers": SSE, "chunks": [{"text": text_answer("Hel", "lo")}]},
        {"headers": SSE, "chunks": [{"text": started_text("half")}], "end": "cut"},
    ]
    with ModelServer(exchanges) as server:
        calls = calls_of(harness, tmp_path)
        for _ in exchanges:
            await harness.ask(calls, anthropic_model(server.base_url)).result()
    script = json.loads((tmp_path / "script.json").read_text())
    first, second = script["responses"]
    assert first == {
        "content": [{"type": "text", "text": "Hello"}],
        "stopReason": "stop",
        "usage": {
            "input": 10,
            "output": 5,
            "cacheRead": 0,
            "cacheWrite": 0,
            "totalTokens": 15,
            "cost": pytest.approx((10 * 3 + 5 * 15) / 1e6),
        },
    }
    assert (second["stopReason"], second["content"]) == ("error", [{"type": "text", "text": "half"}])
    assert second["errorMessage"]
    request = json.loads((tmp_path / "0001.request.json").read_text())
    assert request["body"]["model"] == "claude"
    assert (tmp_path / "0001.response.sse").read_text() == text_answer("Hel", "lo")


async def test_what_a_script_has_no_word_for_is_left_out(anyio_backend: str) -> None:
    message: dict[str, Any] = {
        "content": [
            {"type": "thinking", "thinking": "why", "thinkingSignature": "S"},
            {"type": "toolCall", "id": "c", "name": "t", "arguments": {}, "argumentsError": "cut"},
        ],
        "stopReason": "toolUse",
    }
    assert scripted_response(message)["content"] == [
        {"type": "thinking", "thinking": "why"},
        {"type": "toolCall", "id": "c", "name": "t", "arguments": {}},
    ]


async def test_no_recorded_file_holds_a_secret(harness: Harness, tmp_path: Path) -> None:
    half = len(KEY) // 2
    rest = f"{KEY[half:]}\n\n{text_answer(KEY)}"
    chunks = [{"text": f": {KEY[:half]}"}, {"text": rest}]
    exchange = {"headers": {**SSE, "x-echo": f"Bearer {KEY}"}, "chunks": chunks}
    refusal = {"status": 401, "chunks": [{"text": f"bad key {KEY}"}]}
    with ModelServer([exchange, refusal]) as server:
        calls = calls_of(harness, tmp_path)
        model = anthropic_model(server.base_url, headers={"x-gateway": "gateway-token-1234"})
        for _ in range(2):
            await harness.ask(calls, model, [{"role": "user", "content": f"my key is {KEY}"}]).result()
    for file in written(tmp_path):
        for secret in (KEY, "gateway-token-1234", "abcdef"):
            assert secret not in file.read_text(), file.name


async def test_a_recording_that_cannot_be_written_stops_and_the_answer_goes_on(
    harness: Harness, tmp_path: Path
) -> None:
    stopped: list[str] = []
    directory = tmp_path / "gone"
    calls = ModelCalls(harness.around, keys={"anthropic": KEY}, recorder=Recorder(directory, stopped.append))
    directory.rmdir()
    with ModelServer([{"headers": SSE, "chunks": [{"text": text_answer("Hello")}]}]) as server:
        for _ in range(2):
            message = await harness.ask(calls, anthropic_model(server.base_url)).result()
            assert message["stopReason"] == "stop"
    assert stopped == [f"{directory}: No such file or directory"]


async def test_what_came_of_an_answer_that_was_given_up_is_kept(harness: Harness, tmp_path: Path) -> None:
    text = started_text("half") + "event: content_bl"
    with ModelServer([{"headers": SSE, "chunks": [{"text": text}], "end": "hang"}]) as server:
        answer = harness.ask(calls_of(harness, tmp_path), anthropic_model(server.base_url))
        async for event in answer:
            if event.type == "text_delta":
                break
        await answer.aclose()
    assert (tmp_path / "0001.response.sse").read_text() == text
