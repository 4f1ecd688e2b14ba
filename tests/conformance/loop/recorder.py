"""What happened in a scenario, in order, and who waits for it to happen."""

import asyncio
from random import Random
from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentEvent
from tests.conformance.loop.matching import label, matches, shown, traits


async def tick(count: int = 1) -> None:
    """Let everything that is ready run once."""
    for _ in range(count):
        await asyncio.sleep(0)


def aborted(signal: AbortSignal | None) -> bool | None:
    return None if signal is None else signal.aborted


class Recorder:
    """`jitter` inserts up to three extra ticks where the harness is called; no recording may depend on
    them.
    """

    def __init__(self, jitter_seed: int | None = None) -> None:
        self.trace: list[str] = []
        self.events: list[JsonObject] = []
        self.requests: list[JsonObject] = []
        self.hooks: list[JsonObject] = []
        self.tools: list[JsonObject] = []
        self.outcomes: list[JsonObject] = []
        self.contexts: list[JsonObject] = []
        self.snapshots: list[JsonObject] = []
        self.attempts: list[JsonObject] = []
        self.flags: set[str] = set()
        self._seen: list[JsonObject] = []
        self._changed = asyncio.Event()
        self._settled: dict[int, asyncio.Event] = {}
        self._random = None if jitter_seed is None else Random(jitter_seed)

    async def jitter(self) -> None:
        if self._random is not None:
            await tick(self._random.randint(0, 3))

    def event(self, event: AgentEvent) -> JsonObject:
        """Record it, wake who waits for it, and give back what matchers look at."""
        self.trace.append(f"event {label(event)}")
        self.events.append(shown(event))
        found = traits(event)
        self._seen.append(found)
        self._changed.set()
        self._changed = asyncio.Event()
        return found

    def count(self, matcher: JsonObject) -> int:
        return sum(1 for found in self._seen if matches(matcher, found))

    async def wait_event(self, matcher: JsonObject) -> None:
        while self.count(matcher) < matcher.get("nth", 1):
            await self._changed.wait()
        await tick()

    def hook(self, name: str, entry: dict[str, Any], tool_call_id: str | None = None) -> JsonObject:
        """The entry; what the hook gives back may be added to it."""
        self.trace.append(f"hook {name}" if tool_call_id is None else f"hook {name} {tool_call_id}")
        written: JsonObject = {"hook": name, **entry}
        self.hooks.append(written)
        return written

    def flag(self, name: str) -> None:
        self.flags.add(name)
        self.trace.append(f"flag {name}")

    def op_settled(self, index: int) -> asyncio.Event:
        return self._settled.setdefault(index, asyncio.Event())

    async def wait_op(self, index: int) -> None:
        await self.op_settled(index).wait()
        await tick()
