"""What stands in for tools when a fork goes on with a real model: recorded results for the same calls, else an error.

The model is offered the same tools; nothing of them is run. Pure but for what it remembers of the calls that were made.
"""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentTool, ToolResult, UpdateCallback
from runner.replay.segments import Run, calls_of, segment
from runner.tools.errors import ToolFailed
from runner.tools.own_tools import TOOL_NAME

NOT_RUN = (
    "No tool is run in this fork of a recorded session, and it holds no result of this very call. Go on with what is "
    "known, or end with a text that says what is missing."
)
_RESULT_FIELDS = ("content", "details", "usage")


class RecordedResults:
    """The results of a recorded session, by tool and arguments; the same call twice gets the first, then the second."""

    def __init__(self, entries: Sequence[JsonObject]) -> None:
        self._results: dict[tuple[str, str], deque[Message]] = {}
        for piece in segment(entries, may_ask=()):
            for turn in piece.turns if isinstance(piece, Run) else ():
                calls = calls_of(entries[turn.answer]["message"])
                for call, position in zip(calls, turn.results, strict=False):
                    name = call.get("name")
                    if position is not None and isinstance(name, str):
                        key = (name, _key(call.get("arguments")))
                        self._results.setdefault(key, deque()).append(entries[position]["message"])

    def names(self) -> list[str]:
        return sorted({name for name, _ in self._results})

    def instead_of(self, tools: Iterable[AgentTool]) -> list[AgentTool]:
        """The same tools, answered from here; and those of the recording that are not among them."""
        offered = [replace(tool, execute=self._answering(tool.name)) for tool in tools]
        known = {tool.name for tool in offered} | {"ask_user", "collect_form_input"}
        for name in self.names():
            if name not in known and TOOL_NAME.fullmatch(name):
                offered.append(AgentTool(name, "A tool of the recorded session.", {}, self._answering(name)))
        return offered

    def _answering(self, name: str) -> Any:
        async def execute(
            _call_id: str, args: JsonObject, _signal: AbortSignal | None, _on_update: UpdateCallback
        ) -> ToolResult:
            return self._answer(name, args)

        return execute

    def _answer(self, name: str, args: JsonObject) -> ToolResult:
        found = self._results.get((name, _key(args)))
        if not found:
            raise ToolFailed("refused", NOT_RUN)
        recorded = found.popleft() if len(found) > 1 else found[0]
        if recorded.get("isError"):
            raise ToolFailed("failed", _text(recorded))
        return {field: recorded[field] for field in _RESULT_FIELDS if recorded.get(field) is not None}


def _key(arguments: Any) -> str:
    return json.dumps(arguments, sort_keys=True)


def _text(message: Message) -> str:
    from runner.run_watch import message_text

    return message_text(message)
