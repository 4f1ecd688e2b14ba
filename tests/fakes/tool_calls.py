"""Calling a tool as the agent would, and what came of it, in few words."""

from collections.abc import Iterable
from typing import Any

from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.types import AgentTool, ToolResult
from tests.fakes.answers import Answers, answer, call


async def result_of(tool: AgentTool, signal: AbortSignal | None = None, **args: Any) -> ToolResult:
    return await tool.execute("call-1", args, signal, lambda _partial: None)


def text_of(result: ToolResult) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


async def text_from(tool: AgentTool, signal: AbortSignal | None = None, **args: Any) -> str:
    return text_of(await result_of(tool, signal, **args))


async def error_from(tool: AgentTool, signal: AbortSignal | None = None, **args: Any) -> str:
    """The text of the failure; fails if the call succeeds."""
    try:
        result = await result_of(tool, signal, **args)
    except Exception as error:  # noqa: BLE001 - whatever failed is what is asked for
        return str(error)
    raise AssertionError(f"succeeded: {text_of(result)}")


async def played(tools: Iterable[AgentTool], name: str, **args: Any) -> ToolResult:
    """The result message of one call through the real agent: prepared, validated, coerced."""
    model = Answers(answer("", call("call-1", name, **args)), answer("Done."))
    agent = Agent(stream_fn=model.stream, tools=tools)
    await agent.prompt("go")
    return agent.state.messages[2]


def named(tools: Iterable[AgentTool], name: str) -> AgentTool:
    return next(tool for tool in tools if tool.name == name)
