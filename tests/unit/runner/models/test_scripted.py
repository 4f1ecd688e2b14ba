"""The scripted model behaves like an adapter of a real one."""

import asyncio

import pytest

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortController, AbortSignal
from runner.agent.types import LlmContext, ModelName, StreamEvent, StreamOptions
from runner.models.script import parse_script
from runner.models.scripted import ScriptedModel, ScriptedStream, ScriptThrown
from tests.fakes.agent_parts import call, calls, says, user

pytestmark = pytest.mark.anyio


def scripted(*responses: JsonObject) -> ScriptedModel:
    return ScriptedModel(parse_script({"responses": list(responses)}))


async def ask(
    model: ScriptedModel, signal: AbortSignal | None = None, messages: list[Message] | None = None
) -> ScriptedStream:
    context = LlmContext("", messages or [user("go")])
    return await model.stream_fn(ModelName("m", "acme"), context, StreamOptions(signal))


async def events_of(stream: ScriptedStream) -> list[StreamEvent]:
    return [event async for event in stream]


async def test_an_answer_streams_block_by_block_and_ends_with_the_whole_message() -> None:
    model = scripted(
        {
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "ab", "deltas": ["a", "b"]},
                call("t", n=1),
            ]
        }
    )
    events = await events_of(await ask(model))
    assert [(event.type, event.content_index, event.delta) for event in events] == [
        ("start", None, None),
        ("thinking_start", 0, None),
        ("thinking_delta", 0, "hm"),
        ("thinking_end", 0, None),
        ("text_start", 1, None),
        ("text_delta", 1, "a"),
        ("text_delta", 1, "b"),
        ("text_end", 1, None),
        ("toolcall_start", 2, None),
        ("toolcall_delta", 2, '{"n":1}'),
        ("toolcall_end", 2, None),
        ("done", None, None),
    ]
    final = events[-1].message
    assert final is not None
    assert final["content"] == [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "ab"}, call("t", n=1)]
    assert (final["stopReason"], final["model"], final["provider"]) == ("toolUse", "m", "acme")


async def test_each_request_gets_the_next_response() -> None:
    model = scripted(says("one"), says("two"))
    answers = [(await (await ask(model)).result())["content"][0]["text"] for _ in range(2)]
    assert answers == ["one", "two"]


async def test_a_script_that_has_run_out_is_a_failed_answer() -> None:
    stream = await ask(scripted())
    (_start, error) = await events_of(stream)
    assert error.type == "error"
    final = await stream.result()
    assert final["stopReason"] == "error"
    assert final["errorMessage"] == "the script has 0 responses; request 1 has none: add one to the script"


async def test_an_error_of_the_script_is_an_error_event() -> None:
    stream = await ask(scripted(says("half", stopReason="error", errorMessage="overloaded")))
    last = (await events_of(stream))[-1]
    assert (last.type, last.reason) == ("error", "error")
    assert (await stream.result())["errorMessage"] == "overloaded"


async def test_a_throw_raises_from_the_request() -> None:
    with pytest.raises(ScriptThrown, match="adapter bug"):
        await ask(scripted({"throw": "adapter bug"}))


async def test_a_delay_ends_with_the_abort_and_keeps_what_had_arrived() -> None:
    controller = AbortController()
    model = scripted(
        {"content": [{"type": "text", "text": "half"}, {"type": "text", "text": "whole", "delay_ms": 60_000}]}
    )
    stream = await ask(model, controller.signal)
    seen: list[str] = []

    async def read() -> None:
        async for event in stream:
            seen.append(event.type)
            if event.type == "text_end":
                asyncio.get_running_loop().call_soon(controller.abort)

    await asyncio.wait_for(read(), 5)
    final = await stream.result()
    assert seen[-1] == "error"
    assert (final["stopReason"], final["errorMessage"]) == ("aborted", "Request was aborted")
    assert final["content"] == [{"type": "text", "text": "half"}]


async def test_a_request_that_is_aborted_beforehand_gets_nothing() -> None:
    controller = AbortController()
    controller.abort()
    stream = await ask(scripted(says("x")), controller.signal)
    assert [event.type for event in await events_of(stream)] == ["error"]
    assert (await stream.result())["content"] == []


async def test_calls_without_an_id_get_one_that_the_context_determines() -> None:
    unnamed: JsonObject = {"content": [{"type": "toolCall", "name": "t"}, {"type": "toolCall", "name": "t"}]}

    async def ids(messages: list[Message]) -> list[str]:
        message = await (await ask(scripted(unnamed), messages=messages)).result()
        return [block["id"] for block in message["content"]]

    short, longer = [user("a")], [user("a"), user("b"), user("c")]
    assert await ids(short) == await ids(short) == ["call_1_0", "call_1_1"]
    assert await ids(longer) == ["call_3_0", "call_3_1"]


async def test_calls_of_one_answer_do_not_share_their_arguments_with_the_script() -> None:
    script = parse_script({"responses": [calls("t"), calls("t")]})
    stream = await ask(ScriptedModel(script))
    (await stream.result())["content"][0]["arguments"]["changed"] = True
    again = await ask(ScriptedModel(script))
    assert (await again.result())["content"][0]["arguments"] == {}
