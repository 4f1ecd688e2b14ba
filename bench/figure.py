"""One measured figure, and how it is made: ours and the reference by turns, in one run, medians compared.

Refuses to compare with numbers of another run or machine: what is slow here makes both sides slow.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHILD_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Figure:
    figure: str
    ours: float
    reference: float
    unit: str
    limit: float | None
    """Largest allowed ratio; None where a figure is only reported."""
    runs: int

    @property
    def ratio(self) -> float:
        return self.ours / self.reference

    @property
    def missed(self) -> bool:
        return self.limit is not None and self.ratio > self.limit

    def to_json(self) -> str:
        rounded = {
            "figure": self.figure,
            "ours": round(self.ours, 3),
            "reference": round(self.reference, 3),
            "ratio": round(self.ratio, 3),
            "unit": self.unit,
            "limit": None if self.limit is None else round(self.limit, 3),
            "runs": self.runs,
        }
        return json.dumps(rounded)


class BenchFailed(Exception):
    """A benchmark cannot run; the text says what it needs."""


def medians(ours: Callable[[], float], reference: Callable[[], float], runs: int) -> tuple[float, float]:
    """Both measured `runs` times by turns, after one unmeasured round that warms the page cache."""
    ours()
    reference()
    pairs = [(ours(), reference()) for _ in range(runs)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def child_environment(**extra: str) -> dict[str, str]:
    """This environment for a measured process: byte code may be written, nothing of Python's is tuned."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AWS_"))}
    return {**kept, "PYTHONPATH": str(ROOT), **extra}


def run_module(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run a module of ours in a process of its own; returns its standard output."""
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(
            command,
            env=dict(environment or child_environment()),
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            timeout=CHILD_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise BenchFailed(f"{module} {' '.join(arguments)}: {error}") from error
    return done.stdout
