"""`--step`: shows each turn as it is replayed, and waits for a line before the next.

Enter goes on, `q` ends the replay there, and so does the end of the input. Refuses to wait for anything else.
"""

from collections.abc import Callable, Sequence
from typing import Any, TextIO, cast

from checkpoint.jsontypes import JsonObject
from runner.inspection.visible_text import visible_line
from runner.replay.segments import calls_of
from runner.run_watch import text_blocks

MAX_TEXT_CHARS = 500
PROMPT = "Enter: next turn, q: quit > "


class Stepper:
    """Called after each turn; true once a person has had enough."""

    def __init__(self, entries: Sequence[JsonObject], read: Callable[[], str], out: TextIO, *, echoes: bool) -> None:
        """`echoes`: what is typed shows up on `out`, as at a terminal."""
        self._entries = entries
        self._read = read
        self._out = out
        self._echoes = echoes
        self._turn = 0
        self._shown = 0

    def after_turn(self, last: int) -> bool:
        """Show what came up to the position `last`, and ask."""
        self._turn += 1
        self._out.write(f"--- turn {self._turn} ---\n")
        for position in range(self._shown, last + 1):
            for line in entry_lines(self._entries[position]):
                self._out.write(f"{line}\n")
        self._shown = last + 1
        self._out.write(PROMPT)
        self._out.flush()
        answer = self._read()
        self._out.write("" if self._echoes and answer.endswith("\n") else "\n")
        return not answer or answer.strip().lower() in ("q", "quit")


def entry_lines(entry: JsonObject) -> list[str]:
    """One entry for a person: its id, what it is, its text and its calls."""
    name = f"[{visible_line(str(entry.get('id')))}]"
    message: Any = entry.get("message")
    if not isinstance(message, dict):
        return [f"{name} {visible_line(str(entry.get('type')))}"]
    fields = cast("JsonObject", message)
    role = visible_line(str(fields.get("role")))
    if role == "toolResult":
        role = f"{visible_line(str(fields.get('toolName')))} -> {'error' if fields.get('isError') else 'result'}"
    text = visible_line(" ".join("".join(text_blocks(fields.get("content"))).split()))
    shown = text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"
    calls = [f"{name} calls {visible_line(str(call.get('name')))}" for call in calls_of(fields)]
    return [f"{name} {role}: {shown}", *calls]
