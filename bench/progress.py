"""What progress checkpoints cost the turns they are taken of: the same run with `checkpoint.every` `turn` and `end`.

The store is an S3 server behind a link with a delay, so a save takes several round trips and would be seen at once if
a turn waited for it. The model answers after the time that a quick one takes; each turn calls a tool. Measured is what
the callback says of the agent's time.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from bench.cold_start import CREDENTIALS, s3_server
from bench.figure import BenchFailed, Figure, child_environment, medians
from checkpoint.jsontypes import JsonObject
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentTool, ToolResult, UpdateCallback, text_result

RUNS = 5
TURNS = 25
MODEL_MS = 100
ROUND_TRIP_MS = 30
RESULT_CHARS = 8_000
LIMIT = 1.05


async def _look(_id: str, _args: JsonObject, _signal: AbortSignal | None, _update: UpdateCallback) -> ToolResult:
    return text_result("All of it is as it should be. " * (RESULT_CHARS // 30))


TOOLS = [AgentTool("look", "Look around.", {"type": "object", "properties": {}}, _look)]
"""For the measured pipelines, which load them as `bench.progress:TOOLS`."""


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="runner-bench-") as name, s3_server() as endpoint:
        with slow_link(int(endpoint.rsplit(":", 1)[1])) as port:
            runs = Runs(Path(name), f"http://127.0.0.1:{port}")
            ours, theirs = medians(lambda: runs.turn_ms("turn"), lambda: runs.turn_ms("end"), RUNS)
        yield Figure("turn_with_progress", ours, theirs, "ms", LIMIT, RUNS)


@contextlib.contextmanager
def slow_link(port: int) -> Generator[int]:
    command = [sys.executable, "-m", "bench.slow_link", str(port), str(ROUND_TRIP_MS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as link:
        try:
            assert link.stdout is not None
            yield int(link.stdout.readline())
        finally:
            link.terminate()


class Runs:
    """Each a pipeline of its own."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self._folder = folder
        self._endpoint = endpoint
        self._numbers = count(1)
        turn: JsonObject = {
            "content": [{"type": "toolCall", "id": "call_1", "name": "look", "arguments": {}}],
            "delay_ms": MODEL_MS,
        }
        responses: list[Any] = [*[turn] * (TURNS - 1), {"content": [{"type": "text", "text": "done"}]}]
        (folder / "script.json").write_text(json.dumps({"responses": responses}))

    def turn_ms(self, every: str) -> float:
        """Milliseconds per turn."""
        number = next(self._numbers)
        spec = {
            "version": 1,
            "pipeline_id": f"p{number}",
            "session": {"id": f"s{number}"},
            "store": {"uri": "s3://bench/progress", "endpoint_url": self._endpoint, "region": "us-east-1"},
            "input": {"message": "Go."},
            "agent": {"model": {"api": "scripted", "script": "script.json"}, "tools": ["bench.progress:TOOLS"]},
            "checkpoint": {"every": every},
        }
        path = self._folder / "spec.json"
        path.write_text(json.dumps(spec))
        command = [sys.executable, "-m", "runner", "run", str(path)]
        ended = subprocess.run(
            command,
            cwd=self._folder,
            env=child_environment(**CREDENTIALS),
            capture_output=True,
            timeout=120,
            check=False,
        )
        settled: JsonObject = json.loads(ended.stdout.splitlines()[-1]) if ended.stdout else {}
        if ended.returncode != 0 or settled["terminal"]["settlement"]["kind"] != "success":
            raise BenchFailed(f"runner run ended with {ended.returncode}: {ended.stderr[-800:]!r}")
        return settled["terminal"]["timings"]["agent_ms"] / TURNS
