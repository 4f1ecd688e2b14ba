"""The processes that are measured: each does one thing once and prints what it took, as a JSON object.

`python -m bench.measured hash PATH | restore REF STORE DEST`: milliseconds, imports aside, and the peak of
the whole process's resident memory in MB.
"""

import hashlib
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.figure import run_module
from checkpoint.manifest import RestorePoint
from checkpoint.restore import fetch
from checkpoint.session.context import SessionContext, load_context
from checkpoint.session.indexer import SessionIndexer
from checkpoint.store.file_store import FileStore

PIECE_BYTES = 1024 * 1024


def hash_file(path: Path) -> None:
    """The reference: what any restore that checks its bytes has to do."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)


def restore(ref: RestorePoint, store: Path, dest: Path) -> SessionContext:
    """From a restore point to the context the agent takes up."""
    indexer = SessionIndexer()
    fetched = fetch(FileStore(store), ref, dest, indexer)
    return load_context(fetched.path, indexer.finish())


def measure(work: Callable[[], object]) -> None:
    started = time.perf_counter()
    result = work()
    elapsed = (time.perf_counter() - started) * 1000
    messages = len(result.messages) if isinstance(result, SessionContext) else 0
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"ms": elapsed, "peak_mb": peak_mb, "messages": messages}))


class Measured:
    """What such a process printed."""

    def __init__(self, *arguments: str) -> None:
        seen = json.loads(run_module("bench.measured", *arguments))
        self.ms: float = seen["ms"]
        self.peak_mb: float = seen["peak_mb"]
        self.messages: int = seen["messages"]


def main() -> None:
    match sys.argv[1:]:
        case ["hash", path]:
            measure(lambda: hash_file(Path(path)))
        case ["restore", ref, store, dest]:
            point = RestorePoint(**json.loads(ref))
            measure(lambda: restore(point, Path(store), Path(dest)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
