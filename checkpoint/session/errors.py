"""What can go wrong with a session log. Each error has a machine-readable `reason` and a sentence that says
what to do.
"""

from typing import Literal, TypeAlias

DamageReason: TypeAlias = Literal[
    "empty",
    "not_a_session",
    "version",
    "encoding",
    "syntax",
    "not_an_object",
    "entry",
    "duplicate_id",
    "cycle",
    "message",
    "changed",
]


class SessionDamaged(Exception):
    """A session log cannot be read as it stands. `line` is 1-based; None if no single line is to blame."""

    def __init__(self, reason: DamageReason, line: int | None, message: str) -> None:
        where = "session log" if line is None else f"session log, line {line}"
        super().__init__(f"{where}: {message}")
        self.reason: DamageReason = reason
        self.line = line


class SessionLogBroken(Exception):
    """An append failed, so the log takes no more entries; what was written before is whole up to
    `SessionLog.size`.
    """

    reason = "session_log_broken"
