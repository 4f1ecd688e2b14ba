"""Where the process stands, for whoever looks from beside it (a heartbeat's thread): phase, turn, usage so far.

Written by the pipeline's own thread, read by any: each field is replaced whole by one assignment, so a reader never
sees half of a change. Refuses to be asked for more: nothing is decided by it.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from runner.usage import UsageTotals

RunPhase: TypeAlias = Literal["claim", "restore", "agent", "freeze", "upload", "commit", "callback"]


class StandingUsage(Struct, frozen=True):
    """What the pipeline has used, earlier attempts whose progress was taken over included."""

    total_tokens: int = 0
    cost_usd: float = 0.0
    requests: int = 0


class Standing(Struct):
    phase: RunPhase = "claim"
    turn: int = 0
    """Finished turns."""
    usage: StandingUsage = StandingUsage()

    def count(self, totals: UsageTotals) -> None:
        """Show what has been counted by now."""
        self.usage = StandingUsage(totals.total_tokens, totals.cost_usd, totals.requests)
        self.turn = totals.turns
