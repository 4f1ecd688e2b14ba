"""The measured process of the loop benchmark: `python -m bench.turns TURNS` prints microseconds per turn.

A turn: the model calls one tool, the tool answers, both messages are appended to a session log on disk. The
model and the tool do as little as can be, so what is left is the loop's own cost.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.session.header import new_header
from checkpoint.session.log import SessionLog
from runner.agent.abort import AbortSignal
from runner.agent.agent import Agent
from runner.agent.types import (
    AgentEvent,
    AgentTool,
    LlmContext,
    MessageEnd,
    Model,
    ModelName,
    StreamEvent,
    StreamOptions,
    ToolResult,
    UpdateCallback,
    text_result,
)

SHORT_RUN = 100
SHORT_RUNS = 20
"""A run of 100 turns takes milliseconds: this many are averaged."""
WARM_UP = 20
PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}
COUNTERS = ("input", "output", "cacheRead", "cacheWrite")


class Calling:
    """A stream that calls the tool once, in the fewest events a real adapter would give."""

    def __init__(self, number: int, *, last: bool) -> None:
        call = {"type": "toolCall", "id": f"call_{number}", "name": "read", "arguments": {"path": "a.txt"}}
        self._content: list[JsonObject] = [{"type": "text", "text": "done"}] if last else [call]
        self._message: Message = {
            "role": "assistant",
            "content": self._content,
            "api": "scripted",
            "provider": "scripted",
            "model": "bench",
            "usage": {
                **dict.fromkeys((*COUNTERS, "totalTokens"), 10),
                "cost": dict.fromkeys((*COUNTERS, "total"), 0),
            },
            "stopReason": "stop" if last else "toolUse",
            "timestamp": 1767225600000,
        }

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        yield StreamEvent("start", partial={**self._message, "content": []})
        yield StreamEvent("done", message=self._message)

    async def result(self) -> Message:
        return self._message


class CountingModel:
    """Calls the tool `turns - 1` times, then stops."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._asked = 0

    def stream(self, _model: Model, _context: LlmContext, _options: StreamOptions) -> Calling:
        self._asked += 1
        return Calling(self._asked, last=self._asked == self._turns)


async def read(_call_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    return text_result("contents of the file")


async def seconds_of(turns: int, log: SessionLog) -> float:
    """One run of so many turns, as the runner wires it: every finished message goes to the log."""

    def persist(event: AgentEvent, _signal: AbortSignal | None) -> None:
        if isinstance(event, MessageEnd):
            log.append_message(event.message)

    agent = Agent(
        stream_fn=CountingModel(turns).stream,
        model=ModelName("bench"),
        tools=[AgentTool("read", "Read a file.", PARAMETERS, read)],
    )
    agent.subscribe(persist)
    before = log.entries
    started = time.perf_counter()
    await agent.prompt("Read the file again and again.")
    elapsed = time.perf_counter() - started
    if agent.state.error_message is not None or log.entries - before != 2 * turns:
        sys.exit(f"the run failed: {agent.state.error_message}, {log.entries - before} entries")
    return elapsed


async def measure(turns: int, folder: Path) -> float:
    log = SessionLog.create(folder / "session.jsonl", new_header(str(folder)))
    await seconds_of(WARM_UP, log)
    runs = SHORT_RUNS if turns <= SHORT_RUN else 1
    seconds = [await seconds_of(turns, log) for _ in range(runs)]
    log.close()
    return sum(seconds) / runs / turns * 1e6


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="runner-bench-") as scratch:
        print(asyncio.run(measure(int(sys.argv[1]), Path(scratch))))
