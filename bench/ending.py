"""Ending: from the agent's last event to the exit of the process, for a new session of 1 MB, all servers on loopback.

In between lie the freeze, the upload of all of it, the record, the callback and its note in the head. Observed from
outside: `agent_end` is printed as an event, and the process is waited for. The reference is the promise, 150 ms, so a
busy machine misses it; the median counts.
"""

import json
import random
import statistics
import string
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

from bench.cold_start import CREDENTIALS, s3_server
from bench.figure import BenchFailed, Figure, child_environment

RUNS = 15
PROMISED_MS = 150.0
SESSION_BYTES = 1024 * 1024
SECRET = "whsec_" + "YmVuY2gtYmVuY2gtYmVuY2gtYmVuY2ghIQ=="
WAIT_S = 60.0
MODEL_MS = 1000
"""How long the model talks: less than a real one for an answer of some length."""


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="runner-bench-") as folder, taking_callbacks() as url:
        endings = Endings(Path(folder), url)
        yield endings.figure("ending_file_store", {"uri": f"file://{folder}/store"}, child_environment())
        with s3_server() as endpoint:
            store = {"uri": "s3://bench/runner", "endpoint_url": endpoint, "region": "us-east-1"}
            yield endings.figure("ending_s3_store", store, child_environment(**CREDENTIALS))


class _Taking(BaseHTTPRequestHandler):
    """Takes everything at once: what a server does with a callback is not measured here."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_args: Any, **_named: Any) -> None:
        """Figures are all that is printed."""


@contextmanager
def taking_callbacks() -> Generator[str]:
    """The address of a loopback server in this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Taking)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Endings:
    """Runs pipelines with one long input and a short answer."""

    def __init__(self, folder: Path, server_url: str) -> None:
        self._folder = folder
        self._server_url = server_url
        self._numbers = count(1)
        (folder / "secrets").mkdir()
        (folder / "secrets" / "callback_secret").write_text(SECRET + "\n")
        script = {"responses": [{"content": [{"type": "text", "text": "done", "delay_ms": MODEL_MS}]}]}
        (folder / "script.json").write_text(json.dumps(script))
        letters = random.Random(1).choices(string.ascii_letters, k=SESSION_BYTES)
        self._input = "".join(letters)

    def figure(self, name: str, store: Mapping[str, str], environment: Mapping[str, str]) -> Figure:
        self._ending_ms(store, environment)
        measured = [self._ending_ms(store, environment) for _ in range(RUNS)]
        return Figure(name, statistics.median(measured), PROMISED_MS, "ms", 1.0, RUNS)

    def _ending_ms(self, store: Mapping[str, str], environment: Mapping[str, str]) -> float:
        command = [sys.executable, "-m", "runner", "run", str(self._spec(store)), "--events"]
        command += ["--secrets-dir", str(self._folder / "secrets")]
        with subprocess.Popen(
            command, env=dict(environment), cwd=self._folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            ended: float | None = None
            last = b""
            for line in process.stdout:
                last = line
                if b'"agent_end"' in line[:200]:
                    ended = time.perf_counter()
            process.wait(WAIT_S)
        if ended is None or process.returncode != 0:
            raise BenchFailed(f"runner run ended with {process.returncode}: {last[-500:]!r}")
        return (time.perf_counter() - ended) * 1000

    def _spec(self, store: Mapping[str, str]) -> Path:
        name = f"bench-{next(self._numbers)}"
        spec: dict[str, Any] = {
            "version": 1,
            "pipeline_id": name,
            "session": {"id": name},
            "store": dict(store),
            "input": {"message": self._input},
            "agent": {"model": {"api": "scripted", "provider": "scripted", "id": "bench", "script": "script.json"}},
            "server": {"base_url": self._server_url},
        }
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps(spec))
        return path
