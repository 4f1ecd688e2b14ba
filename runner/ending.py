"""How the process ends: the exit code and the `settled` line."""

import json

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from runner.errors import RunnerError
from runner.exits import Exit


class Ending(Struct, frozen=True):
    exit_code: Exit
    terminal: str | None = None
    """The stored callback body."""
    reason: str | None = None
    message: str | None = None
    """What to do; given with every exit code but 0."""
    traceback: str | None = None
    """Of a defect that no log has."""

    @staticmethod
    def of(error: RunnerError) -> "Ending":
        return Ending(error.exit_code, None, error.reason, error.message)

    def settled_line(self) -> JsonObject:
        error = None if self.reason is None else {"reason": self.reason, "message": self.message}
        terminal = None if self.terminal is None else json.loads(self.terminal)
        return {"type": "settled", "exit": int(self.exit_code), "terminal": terminal, "error": error}
