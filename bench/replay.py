"""Replay of a recorded session of 1,000 turns, against reading its lines with `json.loads`.

Ours is all that `runner replay` does with the file, once the process has started; the reference is three times the
parsing plus 200 µs for each turn. Once with a tool call in each turn, once with a run (and a person's message) each.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, medians, run_module

RUNS = 7
TURNS = 1_000
PER_TURN_MS = 0.2


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="runner-bench-") as folder:
        for name, turns_per_run in (("one_run", TURNS), ("a_run_per_turn", 1)):
            path = Path(folder) / f"{name}.jsonl"
            run_module("bench.replayed", "make", str(path), str(TURNS), str(turns_per_run))
            ours, reference = medians(lambda path=path: _ms("replay", path), lambda path=path: _allowed_ms(path), RUNS)
            yield Figure(f"replay_1000_turns_{name}", ours, reference, "ms", 1.0 if turns_per_run > 1 else None, RUNS)


def _allowed_ms(path: Path) -> float:
    return 3 * _ms("parse", path) + PER_TURN_MS * TURNS


def _ms(what: str, path: Path) -> float:
    return float(json.loads(run_module("bench.replayed", what, str(path)))["ms"])
