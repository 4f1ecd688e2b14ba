"""CPU per streamed event of each model protocol; see `model_stream`, which is the measured process."""

import json
import statistics
from collections.abc import Iterator

from bench.figure import Figure, run_module
from runner.models.calls import APIS

RUNS = 5
LIMIT = 1.5


def figures() -> Iterator[Figure]:
    for api in APIS:
        pairs: list[tuple[float, float]] = [json.loads(run_module("bench.model_stream", api)) for _ in range(RUNS)]
        ours, reference = (statistics.median(values) for values in zip(*pairs, strict=True))
        yield Figure(f"model_stream_{api}", ours, reference, "us", LIMIT, RUNS)
