"""Answers over a real loopback connection to servers that cut, stall, refuse and talk nonsense."""

import asyncio

import httpx
import pytest

from runner.agent.types import LlmContext, StreamEvent, StreamOptions
from runner.models.answer import Surroundings
from runner.models.calls import ModelCalls
from runner.models.failure import Failure
from runner.models.settings import Timeouts
from runner.models.transport import HttpTransport
from tests.fakes.model_server import ModelServer
from tests.unit.runner.models.conftest import (
    KEY,
    Harness,
    anthropic_model,
    started_text,
    text_answer,
)

pytestmark = pytest.mark.anyio

SSE = {"content-type": "text/event-stream"}
OVERLOADED = {
    "status": 529,
    "headers": {"content-type": "application/json"},
    "chunks": [{"text": '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'}],
}


def good(*pieces: str) -> dict[str, object]:
    return {"headers": SSE, "chunks": [{"text": text_answer(*pieces)}]}


async def failure_of(harness: Harness, server: ModelServer, **changes: object) -> tuple[Failure | None, str]:
    answer = harness.ask(harness.calls(), anthropic_model(server.base_url, **changes))
    events = await harness.collect(answer)
    assert events[-1].type == "error"
    message = await answer.result()
    assert message["stopReason"] == "error"
    return answer.failure, message["errorMessage"]


async def test_a_good_answer_costs_what_its_tokens_cost_and_tells_no_failure(harness: Harness) -> None:
    with ModelServer([good("Hel", "lo")]) as server:
        calls = harness.calls()
        answer = harness.ask(calls, anthropic_model(server.base_url))
        events = await harness.collect(answer)
    kinds = [event.type for event in events]
    assert kinds == ["start", "text_start", "text_delta", "text_delta", "text_end", "done"]
    message = await answer.result()
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert message["usage"]["cost"]["total"] == pytest.approx((10 * 3 + 5 * 15) / 1e6)
    assert calls.last_failure is None


async def test_a_result_that_nobody_iterated_is_read_to_its_end(harness: Harness) -> None:
    with ModelServer([good("Hello")]) as server:
        message = await harness.ask(harness.calls(), anthropic_model(server.base_url)).result()
    assert message["content"][0]["text"] == "Hello"


async def test_a_connection_cut_before_the_headers_is_a_passing_failure(harness: Harness) -> None:
    with ModelServer([{"beforeHeaders": "cut"}]) as server:
        failure, text = await failure_of(harness, server)
    assert failure is not None
    assert (failure.reason, failure.retryable) == ("model_unavailable", True)
    assert "127.0.0.1" in text


async def test_a_connection_cut_inside_the_answer_keeps_what_had_come(harness: Harness) -> None:
    with ModelServer([{"headers": SSE, "chunks": [{"text": started_text("half an ")}], "end": "cut"}]) as server:
        answer = harness.ask(harness.calls(), anthropic_model(server.base_url))
        events = await harness.collect(answer)
    message = await answer.result()
    assert [event.type for event in events][-1] == "error"
    assert message["content"] == [{"type": "text", "text": "half an "}]
    assert answer.failure is not None
    assert answer.failure.retryable


async def test_a_refused_connection_is_a_passing_failure(harness: Harness) -> None:
    with ModelServer([good("x")]) as server:
        url = server.base_url
    answer = harness.ask(harness.calls(), anthropic_model(url))
    await harness.collect(answer)
    assert answer.failure is not None
    assert (answer.failure.reason, answer.failure.retryable) == ("model_unavailable", True)


@pytest.mark.parametrize(
    ("exchange", "timeouts"),
    [
        ({"beforeHeaders": "hang"}, Timeouts(connect_s=0.05, first_byte_s=0.05)),
        ({"headers": SSE, "end": "hang"}, Timeouts(first_byte_s=0.05)),
        (
            {"headers": SSE, "chunks": [{"text": started_text("x")}], "end": "hang"},
            Timeouts(between_events_s=0.05),
        ),
        ({"headers": SSE, "chunks": [{"text": started_text("x")}], "end": "hang"}, Timeouts(total_s=0.2)),
    ],
    ids=["headers", "first byte", "between events", "total"],
)
async def test_a_silent_server_is_left_after_the_time_that_is_set(
    harness: Harness, exchange: dict[str, object], timeouts: Timeouts
) -> None:
    with ModelServer([exchange]) as server:
        failure, text = await failure_of(harness, server, timeouts=timeouts)
        assert server.hung_up.wait(5), "the connection stayed open"
    assert failure is not None
    assert (failure.reason, failure.retryable) == ("model_unavailable", True)
    assert "timed out" in text


@pytest.mark.parametrize("text", ["event: message_start\ndata: {oops\n\n", "event: message_start\ndata: 7\n\n"])
async def test_garbage_ends_in_an_error_message(harness: Harness, text: str) -> None:
    with ModelServer([{"headers": SSE, "chunks": [{"text": text}]}]) as server:
        failure, _ = await failure_of(harness, server)
    assert failure is not None
    assert failure.reason == "model_unavailable"


@pytest.mark.parametrize(
    "event",
    [
        '{"type":"content_block_delta","index":[1],"delta":{"type":"text_delta","text":"x"}}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":[3]}}',
        '{"type":"message_delta","delta":{"stop_reason":{"a":1}}}',
    ],
)
async def test_members_of_unheard_of_types_end_in_an_error_message(harness: Harness, event: str) -> None:
    with ModelServer([{"headers": SSE, "chunks": [{"text": f"data: {event}\n\n"}]}]) as server:
        failure, text = await failure_of(harness, server)
    assert failure is not None
    assert text


async def test_an_answer_that_is_a_web_page_ends_in_an_error_message(harness: Harness) -> None:
    page = {"headers": {"content-type": "text/html"}, "chunks": [{"text": "<html>welcome</html>"}]}
    with ModelServer([page]) as server:
        failure, _ = await failure_of(harness, server)
    assert failure is not None


@pytest.mark.parametrize(
    ("status", "body", "reason", "retryable"),
    [
        (401, '{"error":{"type":"authentication_error","message":"bad key"}}', "model_auth", False),
        (403, "", "model_auth", False),
        (402, '{"error":{"message":"pay"}}', "model_rate_limited", False),
        (404, "", "model_invalid_request", False),
        (400, '{"error":{"message":"messages.0: bad"}}', "model_invalid_request", False),
        (400, '{"error":{"message":"prompt is too long: 3 tokens > 2 maximum"}}', "context_overflow", False),
        (413, "", "context_overflow", False),
        (429, '{"error":{"message":"slow down"}}', "model_rate_limited", True),
        (500, "oh", "model_unavailable", True),
        (503, "", "model_overloaded", True),
        (529, "", "model_overloaded", True),
    ],
)
async def test_an_error_status_maps_to_its_reason(
    harness: Harness, status: int, body: str, reason: str, retryable: bool
) -> None:
    chunks = [{"text": body}] if body else []
    with ModelServer([{"status": status, "chunks": chunks}]) as server:
        failure, text = await failure_of(harness, server)
    assert failure is not None
    assert (failure.reason, failure.retryable, failure.status) == (reason, retryable, status)
    assert text.startswith(str(status))


async def test_a_failure_is_found_again_by_its_message_and_an_old_one_by_its_text(harness: Harness) -> None:
    with ModelServer([{"status": 429, "headers": {"retry-after": "17"}}]) as server:
        calls = harness.calls()
        message = await harness.ask(calls, anthropic_model(server.base_url)).result()
    found = calls.failure_of({**message})
    assert found is not None
    assert found.retry_after_s == 17
    old = calls.failure_of({"stopReason": "error", "errorMessage": "401 no", "timestamp": 1})
    assert old is not None
    assert not old.retryable


async def test_a_rate_limit_tells_how_long_to_wait(harness: Harness) -> None:
    with ModelServer([{"status": 429, "headers": {"retry-after": "17"}}]) as server:
        failure, _ = await failure_of(harness, server)
    assert failure is not None
    assert failure.retry_after_s == 17


async def test_a_request_is_repeated_only_as_often_as_asked_and_with_growing_pauses(harness: Harness) -> None:
    with ModelServer([OVERLOADED, OVERLOADED, OVERLOADED, good("Hello")]) as server:
        answer = harness.ask(harness.calls(max_retries=3), anthropic_model(server.base_url))
        await harness.collect(answer)
        assert len(server.requests) == 4
        assert len({request["raw"] for request in server.requests}) == 1
    assert harness.time.slept == [0.5, 1.0, 2.0]
    assert (await answer.result())["content"][0]["text"] == "Hello"


async def test_a_key_that_a_server_echoes_does_not_get_into_the_error(harness: Harness) -> None:
    echo = {"status": 401, "chunks": [{"text": f'{{"error":{{"message":"Incorrect API key: {KEY}"}}}}'}]}
    with ModelServer([echo]) as server:
        failure, text = await failure_of(harness, server)
    assert failure is not None
    assert KEY not in text
    assert KEY not in failure.message
    assert "Incorrect API key" in text


async def test_without_a_key_nothing_is_sent(harness: Harness) -> None:
    with ModelServer([good("x")]) as server:
        model = anthropic_model(server.base_url, provider="elsewhere")
        answer = harness.ask(harness.calls(), model)
        await harness.collect(answer)
        assert server.requests == []
    assert answer.failure is not None
    assert answer.failure.reason == "model_auth"


async def test_an_abort_closes_the_connection_at_once_and_keeps_the_text(harness: Harness) -> None:
    exchange = {"headers": SSE, "chunks": [{"text": started_text("so far ")}], "end": "hang"}

    def abort_at_text(event: StreamEvent) -> None:
        if event.type == "text_delta":
            harness.abort.abort()

    with ModelServer([exchange]) as server:
        answer = harness.ask(harness.calls(), anthropic_model(server.base_url))
        events = await harness.collect(answer, abort_at_text)
        assert server.hung_up.wait(5), "the connection stayed open"
    message = await answer.result()
    assert events[-1].type == "error"
    assert (events[-1].reason, message["stopReason"]) == ("aborted", "aborted")
    assert message["content"] == [{"type": "text", "text": "so far "}]
    assert answer.failure is None


async def test_an_abort_before_the_call_sends_nothing(harness: Harness) -> None:
    harness.abort.abort()
    with ModelServer([good("x")]) as server:
        answer = harness.ask(harness.calls(), anthropic_model(server.base_url))
        events = await harness.collect(answer)
        assert server.requests == []
    assert [event.type for event in events] == ["error"]
    assert events[0].reason == "aborted"


async def test_giving_an_answer_up_closes_its_connection(harness: Harness) -> None:
    exchange = {"headers": SSE, "chunks": [{"text": started_text("x")}], "end": "hang"}
    with ModelServer([exchange]) as server:
        answer = harness.ask(harness.calls(), anthropic_model(server.base_url))
        async for event in answer:
            if event.type == "text_delta":
                break
        await answer.aclose()
        assert server.hung_up.wait(5), "the connection stayed open"


async def test_an_answer_to_more_than_the_window_holds_counts_as_a_full_context(harness: Harness) -> None:
    with ModelServer([good("Hello")]) as server:
        answer = harness.ask(harness.calls(), anthropic_model(server.base_url, context_window=9))
        events = await harness.collect(answer)
    assert events[-1].type == "done"
    assert answer.failure is not None
    assert answer.failure.reason == "context_overflow"


async def test_two_processes_send_the_same_bytes_for_the_same_conversation(harness: Harness) -> None:
    import json

    messages = [
        {"role": "user", "content": "read it \U0001f648"},
        {
            "role": "assistant",
            "provider": "anthropic",
            "api": "anthropic-messages",
            "model": "claude",
            "stopReason": "toolUse",
            "content": [
                {
                    "type": "toolCall",
                    "id": "t1",
                    "name": "read",
                    "arguments": {"path": "a", "n": 1.5, "b": 1e-7},
                }
            ],
        },
        {
            "role": "toolResult",
            "toolCallId": "t1",
            "toolName": "read",
            "content": [{"type": "text", "text": "A"}],
        },
    ]
    restored = json.loads(json.dumps(messages))
    with ModelServer([good("x")]) as server:
        model = anthropic_model(server.base_url)
        await harness.collect(harness.ask(harness.calls(), model, messages))
        await harness.collect(harness.ask(harness.calls(), model, restored))
        first, second = (request["raw"] for request in server.requests)
    assert first == second
    assert b"cache_control" in first


async def test_the_client_is_made_once_by_whoever_comes_first(anyio_backend: str) -> None:
    """The preload thread and the first request may meet."""
    made: list[httpx.AsyncClient] = []

    def make() -> httpx.AsyncClient:
        made.append(httpx.AsyncClient(verify=False))
        return made[-1]

    transport = HttpTransport(make)
    around = Surroundings(transport)
    with ModelServer([{"headers": SSE, "chunks": [{"text": text_answer("Hello")}]}]) as server:
        preload = asyncio.to_thread(transport.preload)
        calls = ModelCalls(around, keys={"anthropic": KEY})
        context = LlmContext("", [{"role": "user", "content": "Hi"}])
        answer = calls(anthropic_model(server.base_url), context, StreamOptions())
        _, message = await asyncio.gather(preload, answer.result())
    await transport.aclose()
    assert message["stopReason"] == "stop"
    assert len(made) == 1


async def test_a_client_that_cannot_be_made_is_a_failed_answer(anyio_backend: str) -> None:
    def make() -> httpx.AsyncClient:
        raise FileNotFoundError("no such file: certificates.pem")

    transport = HttpTransport(make)
    transport.preload()
    calls = ModelCalls(Surroundings(transport), keys={"anthropic": KEY})
    context = LlmContext("", [{"role": "user", "content": "Hi"}])
    message = await calls(anthropic_model("http://127.0.0.1:9"), context, StreamOptions()).result()
    assert message["stopReason"] == "error"
    assert "check SSL_CERT_FILE and the proxy variables" in message["errorMessage"]
    failure = calls.last_failure
    assert failure is not None
    assert (failure.reason, failure.retryable) == ("model_unavailable", False)
