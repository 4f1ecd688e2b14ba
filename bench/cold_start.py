"""Cold start: from exec of `runner run` to its first model request, which a pipeline pays every time.

Observed from outside, without hooks: with `--events` the first assistant `message_start` appears on standard
output after the scripted model was asked, so the time to that line is no less than the time to the request.
The reference is the whole life of a process that imports, or fetches, what any such program needs.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from bench.figure import ROOT, BenchFailed, Figure, child_environment, medians

RUNS = 15
IMPORTS = "import httpx, pydantic, structlog"
FETCH = """
import sys, boto3
client = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1")
assert client.get_object(Bucket="bench", Key="small")["Body"].read() == b"x" * 1024
"""
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-secret"}


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="runner-bench-") as folder:
        pipelines = Pipelines(Path(folder))
        reference = [sys.executable, "-c", IMPORTS]
        ours, theirs = medians(
            lambda: pipelines.first_request({"uri": f"file://{folder}/store"}, child_environment()),
            lambda: lifetime(reference, child_environment()),
            RUNS,
        )
        yield Figure("cold_start_file_store", ours, theirs, "ms", 1.6, RUNS)
        with s3_server() as endpoint:
            store = {"uri": "s3://bench/runner", "endpoint_url": endpoint, "region": "us-east-1"}
            environment = child_environment(**CREDENTIALS)
            ours, theirs = medians(
                lambda: pipelines.first_request(store, environment),
                lambda: lifetime([sys.executable, "-c", FETCH, endpoint], environment),
                RUNS,
            )
        yield Figure("cold_start_s3_store", ours, theirs, "ms", 1.3, RUNS)


class Pipelines:
    """Writes launch specs, each for a pipeline of its own, and runs them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)
        self._program = Path(sys.executable).with_name("runner")
        script = {"responses": [{"content": [{"type": "text", "text": "done"}]}]}
        (folder / "script.json").write_text(json.dumps(script))
        if not self._program.exists():
            raise BenchFailed(f"{self._program} is missing: run `make setup`")

    def first_request(self, store: dict[str, str], environment: dict[str, str]) -> float:
        """Milliseconds from exec to the first assistant `message_start`; the run must then end well."""
        command = [*self.command(store), "--events"]
        started = time.perf_counter()
        with subprocess.Popen(
            command, env=environment, cwd=self._folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            elapsed: float | None = None
            line = b""
            for line in process.stdout:
                if elapsed is None and b'"message_start"' in line and b'"assistant"' in line:
                    elapsed = (time.perf_counter() - started) * 1000
            _, errors = process.communicate(timeout=30)
        if process.returncode != 0 or elapsed is None:
            raise BenchFailed(f"runner run ended with {process.returncode}: {line!r} {errors[-500:]!r}")
        return elapsed

    def command(self, store: dict[str, str]) -> list[str]:
        """`runner run` on a pipeline of its own, in this folder."""
        return [str(self._program), "run", str(self._write_spec(store))]

    def _write_spec(self, store: dict[str, str]) -> Path:
        name = f"bench-{next(self._numbers)}"
        model = {"api": "scripted", "provider": "scripted", "id": "bench", "script": "script.json"}
        spec: dict[str, Any] = {
            "version": 1,
            "pipeline_id": name,
            "session": {"id": name},
            "store": store,
            "input": {"message": "Say done."},
            "agent": {"model": model},
            "server": None,
        }
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps(spec))
        return path


def lifetime(command: list[str], environment: dict[str, str]) -> float:
    """Milliseconds from exec to exit."""
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, cwd=ROOT, check=False, capture_output=True, timeout=60)
    elapsed = (time.perf_counter() - started) * 1000
    if done.returncode != 0:
        raise BenchFailed(f"the reference ended with {done.returncode}: {done.stderr[-500:]!r}")
    return elapsed


@contextlib.contextmanager
def s3_server() -> Generator[str]:
    """A moto server on loopback, in a process of its own, with the object the reference fetches."""
    command = [sys.executable, "-m", "bench.s3_server"]
    environment = child_environment(**CREDENTIALS)
    with subprocess.Popen(
        command, env=environment, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            endpoint = process.stdout.readline().strip()
            if not endpoint:
                raise BenchFailed("the S3 server did not start: run `make setup`")
            yield endpoint
        finally:
            process.terminate()
