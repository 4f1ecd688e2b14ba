"""Checkpoint: bytes sent for 200 KB of new entries on a restored session of 100 MB.

The reference is those 200 KB alone, compressed as a segment is. A checkpoint costs its delta and a manifest.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, run_module
from bench.generate import generate
from bench.stored import store_session

OVERHEAD_BYTES = 8 * 1024


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="runner-bench-") as folder:
        session, store = Path(folder, "session.jsonl"), Path(folder, "store")
        generate(session, all_active=False)
        ref = store_session(store, session)
        dest = Path(folder, "restored.jsonl")
        seen = json.loads(run_module("bench.delta", json.dumps(ref), str(store), str(dest)))
    reference: int = seen["compressed_bytes"]
    limit = (1.1 * reference + OVERHEAD_BYTES) / reference
    yield Figure("checkpoint_delta_sent", seen["sent_bytes"], reference, "bytes", limit, 1)
