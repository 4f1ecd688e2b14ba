"""A generated session as it lies in a store after an earlier pipeline.

`python -m bench.stored STORE SESSION` prints its restore point. A process of its own, like everything that
needs memory.
"""

import json
import sys
from pathlib import Path

from bench.figure import run_module
from checkpoint.freeze import NOTHING_STORED, freeze
from checkpoint.session.indexer import SessionIndexer
from checkpoint.store.file_store import FileStore
from checkpoint.upload import CheckpointFacts, upload

PIECE_BYTES = 1024 * 1024


def facts(pipeline_id: str) -> CheckpointFacts:
    return CheckpointFacts(
        session_id="bench",
        pipeline_id=pipeline_id,
        attempt=1,
        claim_id="bench",
        created_at="2026-01-01T00:00:00.000Z",
        runner="bench",
        parent=None,
    )


def main(store: Path, session: Path) -> None:
    indexer = SessionIndexer()
    with session.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            indexer.feed(piece)
    index = indexer.finish()
    frozen = freeze(session, size=index.size, entries=index.entries, leaf_id=index.leaf_id, stored=NOTHING_STORED)
    uploaded = upload(FileStore(store), frozen, facts("bench-1"))
    print(json.dumps({"manifest": uploaded.key, "digest": uploaded.digest}))


def store_session(store: Path, session: Path) -> dict[str, str]:
    """Put `session` into a file store; returns its restore point as in a spec."""
    return json.loads(run_module("bench.stored", str(store), str(session)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
