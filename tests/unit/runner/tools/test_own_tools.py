import asyncio
import threading
from collections.abc import Callable
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from runner.agent.abort import AbortController, AbortSignal
from runner.agent.types import ToolResult
from runner.tools.errors import ToolFailed, ToolSetupError
from runner.tools.own_tools import Progress, function_tool, result_of
from tests.fakes.tool_calls import error_from, played, text_from, text_of

pytestmark = pytest.mark.anyio


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    name: str
    count: int = 1


def order(
    items: list[Item],
    when: Annotated[date, Field(description="The day of delivery.")],
    colour: Colour = Colour.RED,
    copy: bool = False,
    note: str | None = None,
) -> dict[str, Any]:
    """Orders some items."""
    return {"names": [item.name for item in items], "when": when, "colour": colour, "copy": copy, "note": note}


async def test_a_typed_function_becomes_a_tool_with_its_schema() -> None:
    tool = function_tool(order)
    assert (tool.name, tool.description) == ("order", "Orders some items.")
    assert tool.parameters["required"] == ["items", "when"]
    assert tool.parameters["additionalProperties"] is False
    properties = tool.parameters["properties"]
    assert properties["when"] == {"description": "The day of delivery.", "format": "date", "type": "string"}
    assert properties["copy"] == {"default": False, "type": "boolean"}
    assert properties["items"]["items"] == {"$ref": "#/$defs/Item"}
    assert "title" not in str(tool.parameters)


async def test_arguments_reach_the_function_as_its_types_through_the_agent() -> None:
    message = await played([function_tool(order)], "order", items=[{"name": "nut"}], when="2026-01-02", copy="true")
    assert message["isError"] is False
    assert text_of(message) == ('{"names": ["nut"], "when": "2026-01-02", "colour": "red", "copy": true, "note": null}')


async def test_arguments_that_only_the_types_refuse_are_an_error_result() -> None:
    error = await error_from(function_tool(order), items=[{"count": 1}], when="someday")
    assert error.startswith("The arguments of order are not right: items.0.name: Field required; when: ")


async def test_an_async_function_gets_the_signal_and_reports_progress() -> None:
    async def wait(seconds: float, signal: AbortSignal, progress: Progress) -> str:
        """Waits."""
        progress("half")
        await asyncio.sleep(0)
        return f"{seconds} {signal.aborted}"

    tool, partials = function_tool(wait), list[ToolResult]()
    assert list(tool.parameters["properties"]) == ["seconds"]
    result = await tool.execute("c", {"seconds": 1.5}, None, partials.append)
    assert text_of(result) == "1.5 False"
    assert [text_of(partial) for partial in partials] == ["half"]


async def test_a_plain_function_runs_in_a_thread_and_is_left_behind_at_an_abort() -> None:
    release, started, controller = threading.Event(), threading.Event(), AbortController()

    def block() -> str:
        """Blocks."""
        started.set()
        release.wait(20)
        return "late"

    call = asyncio.ensure_future(function_tool(block).execute("c", {}, controller.signal, lambda _partial: None))
    await asyncio.to_thread(started.wait, 10)
    controller.abort()
    with pytest.raises(ToolFailed, match="The tool block was aborted"):
        await asyncio.wait_for(call, 5)
    release.set()


async def test_an_async_function_is_cancelled_at_an_abort() -> None:
    started, cancelled, controller = asyncio.Event(), asyncio.Event(), AbortController()

    async def hang(signal: AbortSignal | None = None) -> None:
        """Hangs."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    call = asyncio.ensure_future(function_tool(hang).execute("c", {}, controller.signal, lambda _partial: None))
    await asyncio.wait_for(started.wait(), 5)
    controller.abort()
    with pytest.raises(ToolFailed, match="aborted"):
        await call
    assert cancelled.is_set()


async def test_what_a_function_raises_is_the_error_result() -> None:
    def fail() -> None:
        """Fails."""
        raise LookupError("nothing there")

    assert await error_from(function_tool(fail)) == "nothing there"


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt])
async def test_a_function_that_would_end_the_process_has_failed(raised: type[BaseException]) -> None:
    def plain() -> None:
        """Ends."""
        raise raised

    async def asynchronous() -> None:
        """Ends."""
        raise raised

    signal = AbortController().signal
    for function in (plain, asynchronous):
        with pytest.raises(ToolFailed, match=f"raised {raised.__name__}"):
            await function_tool(function).execute("c1", {}, signal, lambda _partial: None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (None, "(done)"),
        (5, "5"),
        ([date(2026, 1, 2)], '["2026-01-02"]'),
        (Item(name="ä"), '{"name": "ä", "count": 1}'),
    ],
)
def test_what_a_function_returns_becomes_text(value: Any, text: str) -> None:
    assert text_of(result_of(value, "t")) == text


def test_a_whole_result_is_passed_on() -> None:
    result = {"content": [{"type": "text", "text": "x"}], "terminate": True}
    assert result_of(result, "t") is result


@pytest.mark.parametrize("value", [object(), float("nan")])
def test_what_is_no_json_is_a_failure(value: Any) -> None:
    with pytest.raises(ToolFailed, match="cannot be written as JSON"):
        result_of(value, "t")


def no_docstring(text: str) -> str:
    return text


def many(*texts: str) -> str:
    """Takes many."""
    return "".join(texts)


def positional(text: str, /) -> str:
    """Cannot be called by name."""
    return text


def foreign(text: Callable[..., threading.Lock], lock: "threading.Lock") -> str:
    """Has no schema."""
    return f"{text}{lock}"


def made(annotations: dict[str, Any]) -> Callable[..., Any]:
    """A function with the parameter `text`, annotated like that."""

    def function(text: str) -> str:
        """Is not well typed."""
        return text

    function.__annotations__ = annotations
    return function


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (no_docstring, "has no docstring"),
        (made({}), "has no type"),
        (many, "cannot be named"),
        (positional, "cannot be named"),
        (foreign, "have no schema"),
        (made({"text": "Nowhere"}), "no readable signature"),
        (lambda: "", "must be 1 to 64 letters"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_when_it_is_set_up(function: Callable[..., Any], said: str) -> None:
    with pytest.raises(ToolSetupError, match=said):
        function_tool(function)


async def test_name_and_description_can_be_given() -> None:
    tool = function_tool(no_docstring, name="echo", description="Says it again.")
    assert (tool.name, tool.description) == ("echo", "Says it again.")
    assert await text_from(tool, text="a") == "a"


def test_a_literal_type_is_an_enum_for_the_model() -> None:
    def pick(size: Literal["s", "m"]) -> str:
        """Picks."""
        return size

    assert function_tool(pick).parameters["properties"]["size"]["enum"] == ["s", "m"]
