import inspect
from typing import Any

import pytest

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentTool, LlmContext, ModelName, StreamOptions, ToolResult, UpdateCallback, text_result
from runner.cleaning import BadResult, clean_stream, clean_tool
from tests.fakes.answers import Answers, answer

pytestmark = pytest.mark.anyio

DIRTY, CLEAN = "a\0b\ud800c", "a\ufffdb\ufffdc"


async def dirty(_id: str, _args: JsonObject, _signal: AbortSignal | None, update: UpdateCallback) -> ToolResult:
    update(text_result(DIRTY))
    return text_result(DIRTY, {"path": DIRTY})


async def leaving(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    raise SystemExit(7)


async def test_what_a_tool_gives_is_cleaned_its_updates_too() -> None:
    seen: list[ToolResult] = []
    result = await clean_tool(AgentTool("t", "", {}, dirty)).execute("c1", {}, None, seen.append)
    assert result == text_result(CLEAN, {"path": CLEAN})
    assert seen == [text_result(CLEAN)]


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": "x"}, None]},
        {"content": {"type": "text", "text": "x"}},
        {"content": b"bytes"},
        {"content": [], "details": {1, 2}},
        {"content": [], "details": {1: "key"}},
    ],
)
async def test_a_result_that_no_session_could_be_restored_with_is_an_error_of_the_call(result: Any) -> None:
    async def give(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
        return result

    async def report(_id: str, _args: JsonObject, _signal: AbortSignal | None, update: UpdateCallback) -> ToolResult:
        update(result)
        return text_result("reported")

    for execute in (give, report):
        with pytest.raises(BadResult, match=r"The tool's result cannot be used: it"):
            await clean_tool(AgentTool("t", "", {}, execute)).execute("c1", {}, None, lambda _partial: None)


@pytest.mark.parametrize("content", [None, "text", [], [{"type": "text", "text": "x"}]])
async def test_every_content_that_a_session_can_hold_passes(content: Any) -> None:
    async def give(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
        return {"content": content, "details": float("nan")}

    result = await clean_tool(AgentTool("t", "", {}, give)).execute("c1", {}, None, lambda _partial: None)
    assert result["content"] == content


async def test_a_tool_cannot_end_the_process() -> None:
    with pytest.raises(RuntimeError, match=r"the tool tried to end the process \(exit 7\)"):
        await clean_tool(AgentTool("t", "", {}, leaving)).execute("c1", {}, None, lambda _partial: None)


async def test_an_interrupt_that_a_tool_raises_is_its_own_failure() -> None:
    async def interrupt(_id: str, _args: JsonObject, _signal: AbortSignal | None, _up: UpdateCallback) -> ToolResult:
        raise KeyboardInterrupt

    with pytest.raises(RuntimeError, match="the tool raised KeyboardInterrupt"):
        await clean_tool(AgentTool("t", "", {}, interrupt)).execute("c1", {}, None, lambda _partial: None)


async def test_a_final_message_is_cleaned_and_a_clean_one_is_the_same() -> None:
    good, bad = answer("fine"), answer(DIRTY)
    ask = clean_stream(Answers(good, bad).stream)
    for expected in (good, answer(CLEAN)):
        given = ask(ModelName("m", "p", "scripted"), LlmContext("", []), StreamOptions())
        stream = await given if inspect.isawaitable(given) else given
        events = [event async for event in stream]
        assert events[-1].message == await stream.result() == expected
