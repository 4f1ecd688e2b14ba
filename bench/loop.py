"""The loop's own cost per turn, and how it grows: 10,000 turns (ours) against 100 turns (the reference).

A loop that copies or converts the whole transcript for each request passes every test and grows with the
square of the session; this ratio is what shows it.
"""

from collections.abc import Iterator

from bench.figure import Figure, medians, run_module

RUNS = 5
LONG, SHORT = 10_000, 100
FLAT = 1.25
"""What counts as flat: room for caches that a longer transcript misses, none for a cost per earlier turn."""


def figures() -> Iterator[Figure]:
    long, short = medians(lambda: _microseconds(LONG), lambda: _microseconds(SHORT), RUNS)
    yield Figure("loop_turn_10000_vs_100", long, short, "us", FLAT, RUNS)


def _microseconds(turns: int) -> float:
    return float(run_module("bench.turns", str(turns)))
