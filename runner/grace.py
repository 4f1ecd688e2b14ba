"""How the grace after a stop is shared out (docs/launch.md): pure arithmetic on the monotonic clock.

Each phase ends at the sum of the shares up to it, so that it also uses what the earlier ones left.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

Phase: TypeAlias = Literal["agent", "freeze", "upload", "commit", "callback"]

SHARES: tuple[tuple[Phase, float], ...] = (
    ("agent", 0.20),
    ("freeze", 0.10),
    ("upload", 0.40),
    ("commit", 0.10),
    ("callback", 0.20),
)


class Grace(Struct, frozen=True):
    """`started` is a monotonic time in seconds, `grace_s` the whole budget."""

    started: float
    grace_s: float

    def ends(self, phase: Phase) -> float:
        """The monotonic time by which `phase` must be over."""
        share = 0.0
        for name, part in SHARES:
            share += part
            if name == phase:
                break
        return self.started + self.grace_s * share

    def remaining(self, phase: Phase, now: float) -> float:
        return max(0.0, self.ends(phase) - now)
