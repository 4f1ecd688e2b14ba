"""What real models cost beside their answers: CPU per streamed event of each protocol, the way to a tool's start, and
what a run on a scripted model pays for the adapters it does not use. See `model_stream`, the measured process.
"""

import json
import re
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.cold_start import Pipelines
from bench.figure import BenchFailed, Figure, child_environment, run_module
from runner.models.calls import APIS

RUNS = 5
LIMIT = 1.5
IMPORT_MS = 15.0
_ADAPTERS = re.compile(
    r"(?:runner\.models\.(?!scripted$|script$|retry$|failure$|shapes$|error_text$)|httpx|httpcore|h11|anyio|genai_prices)"
)
"""Modules that only real models need. Judging a failed turn is needed by the scripted model too."""


def figures() -> Iterator[Figure]:
    for api in APIS:
        yield _figure("adapter", api, f"model_stream_{api}", "us", LIMIT)
    yield _figure("agent", APIS[0], "model_stream_to_the_session_log", "us", None)
    for api in APIS:
        yield _figure("tool", api, f"tool_start_{api}", "ms", None)
    with tempfile.TemporaryDirectory(prefix="runner-bench-") as folder:
        yield Figure("adapter_imports_of_a_scripted_run", _adapter_imports(Path(folder)), IMPORT_MS, "ms", 1.0, 1)


def _figure(what: str, api: str, name: str, unit: str, limit: float | None) -> Figure:
    pairs: list[tuple[float, float]] = [json.loads(run_module("bench.model_stream", what, api)) for _ in range(RUNS)]
    ours, reference = (statistics.median(values) for values in zip(*pairs, strict=True))
    return Figure(name, ours, reference, unit, limit, RUNS)


def _adapter_imports(folder: Path) -> float:
    """Milliseconds that a scripted run spends on importing what only real models need."""
    command = Pipelines(folder).command({"uri": f"file://{folder}/store"})
    environment = child_environment(PYTHONPROFILEIMPORTTIME="1")
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    times = re.findall(r"^import time: +(\d+) \| +\d+ \| +(\S+)$", done.stderr, re.MULTILINE)
    if done.returncode != 0 or not times:
        raise BenchFailed(f"runner run ended with {done.returncode}: {done.stderr[-500:]}")
    return sum(int(microseconds) for microseconds, name in times if _ADAPTERS.match(name)) / 1000
