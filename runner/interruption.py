"""The interruption adapter: reads asking tools' results, remembers that the run must wait for a person.

The tool states a fact ("the question was sent"), this gives it its meaning, and the agent, which knows
neither, stops after the turn because `should_stop_after_turn` says so. It neither aborts nor sets
`terminate`: the other calls of the batch finish, and their results are logged. It refuses to believe a tool
that may not ask, whatever its output says.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, cast

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import AfterToolCallContext, ToolResult
from runner.run_watch import text_blocks
from settlement.outcome import Interruption

ASK_TOOLS = frozenset({"ask_user", "collect_form_input"})
"""The tools that may always ask."""
MAX_CALL_ID_CHARS = 2000
"""Of a call that asks. Ids are never shortened in a callback, so an endless one would be refused by every server."""


class AskedCall(Struct, frozen=True):
    tool_call_id: str
    tool_name: str


class InterruptionAdapter:
    """Give `after_tool_call` to the agent.

    `note` is told of every successful ask at once (`QuestionGate.note`). `ask_tools`: further tools whose
    result may be a question.
    """

    def __init__(self, note: Callable[[AskedCall], None], ask_tools: Iterable[str] = ()) -> None:
        self._note = note
        self._may_ask = ASK_TOOLS | frozenset(ask_tools)
        self.reset()

    def reset(self) -> None:
        """Before each run."""
        self._interruption: Interruption | None = None

    @property
    def interruption(self) -> Interruption | None:
        """The first successful ask of the run, in order of completion."""
        return self._interruption

    def after_tool_call(self, context: AfterToolCallContext, _signal: AbortSignal | None) -> None:
        """Overrides nothing and never raises: an exception here would turn the result into an error."""
        name = context.tool_call.get("name")
        if context.is_error or name not in self._may_ask:
            return
        text = sent_text(context.result)
        if text is None:
            return
        call_id = str(context.tool_call.get("id"))
        if len(call_id) > MAX_CALL_ID_CHARS:
            return
        self._note(AskedCall(call_id, name))
        if self._interruption is None:
            self._interruption = Interruption(call_id, name, text)


def sent_text(result: ToolResult) -> str | None:
    """The result's first text, if it is a JSON object with `ask_user_sent` exactly true; else None."""
    texts = text_blocks(cast("Any", result.get("content")))
    if not texts or '"ask_user_sent"' not in texts[0]:
        return None
    try:
        value = json.loads(texts[0])
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or cast("JsonObject", value).get("ask_user_sent") is not True:
        return None
    return texts[0]
