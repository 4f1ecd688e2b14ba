"""Restore: how long a 100 MB session keeps a pipeline from its start, against sha256 of the same bytes.

Every measurement is a process of its own, so that its peak memory is its own too.
"""

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, medians
from bench.generate import generate
from bench.measured import Measured
from bench.stored import store_session

RUNS = 7
PEAK_MB = 120.0


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="runner-bench-") as folder:
        for all_active in (False, True):
            yield from _of_one_session(Path(folder), all_active=all_active)


def _of_one_session(folder: Path, *, all_active: bool) -> Iterator[Figure]:
    name = "all_active" if all_active else "compacted"
    session, store = folder / f"{name}.jsonl", folder / f"{name}.store"
    generate(session, all_active=all_active)
    plain = {"jsonl": session.as_uri()}
    for source, ref, limit in (("plain", plain, 3.0), ("manifest", store_session(store, session), 5.0)):
        peaks: list[float] = []

        def restored(ref: dict[str, str] = ref, peaks: list[float] = peaks) -> float:
            dest = folder / "restored.jsonl"
            measured = Measured("restore", json.dumps(ref), str(store), str(dest))
            dest.unlink()
            peaks.append(measured.peak_mb)
            return measured.ms

        ours, reference = medians(restored, lambda: Measured("hash", str(session)).ms, RUNS)
        figure = f"restore_{source}_{name}"
        yield Figure(figure, ours, reference, "ms", None if all_active else limit, RUNS)
        peak = statistics.median(peaks)
        yield Figure(f"{figure}_peak", peak, PEAK_MB, "MB", None if all_active else 1.0, RUNS)
