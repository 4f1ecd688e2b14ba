"""Session bytes, an indexer that only collects, and checkpoints made of them, for the tests beside this
file.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from checkpoint.freeze import NOTHING_STORED, Candidate, Stored, freeze
from checkpoint.head import Claimant
from checkpoint.keys import segment_key
from checkpoint.manifest import RestorePoint, Segment, digest_of
from checkpoint.store.port import ObjectStore
from checkpoint.upload import CheckpointFacts, Uploaded, upload

HEADER = b'{"type":"session","version":3,"id":"5f0c","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/w"}\n'


class Collector:
    """An indexer that keeps what it is fed; `refuse` makes it object to a marker in the bytes."""

    def __init__(self, refuse: bytes | None = None) -> None:
        self.data = bytearray()
        self._refuse = refuse

    def feed(self, chunk: bytes) -> None:
        self.data += chunk
        if self._refuse is not None and self._refuse in self.data:
            raise ValueError("the indexer objects")


def session_lines(count: int, *, text: str = "hello", start: int = 0) -> bytes:
    return b"".join(
        json.dumps({"type": "message", "id": f"{n:08x}", "text": f"{text} {n}"}).encode() + b"\n"
        for n in range(start, start + count)
    )


def candidate_of(path: Path, data: bytes, stored: Stored = NOTHING_STORED) -> Candidate:
    path.write_bytes(data)
    return freeze(path, size=len(data), entries=data.count(b"\n") - 1, leaf_id="leaf", stored=stored)


def facts(claim_id: str = "c1", *, pipeline_id: str = "p1", parent: RestorePoint | None = None) -> CheckpointFacts:
    return CheckpointFacts("s1", pipeline_id, 1, claim_id, "2025-01-01T00:00:00.000Z", "1.0.0", parent)


def checkpoint_of(
    store: ObjectStore,
    path: Path,
    data: bytes,
    *,
    claim_id: str = "c1",
    files: Mapping[str, Path] | None = None,
) -> tuple[Uploaded, RestorePoint]:
    """Store `data` whole; the restore point names it."""
    uploaded = upload(store, candidate_of(path, data), facts(claim_id), files=files)
    return uploaded, RestorePoint(manifest=uploaded.key, digest=uploaded.digest)


def claimant(claim_id: str = "mine", *, attempt: int = 1, session_id: str = "s1") -> Claimant:
    return Claimant(
        pipeline_id="p1",
        session_id=session_id,
        attempt=attempt,
        claim_id=claim_id,
        claimed_at="2025-01-01T00:00:00.000Z",
        deadline_s=3600,
        grace_s=25,
        callback_url="https://server.example/v1/terminals",
        restore=None,
    )


def segment(size: int) -> Segment:
    """A segment of so many bytes that exists nowhere."""
    return Segment(key=segment_key("s1", "0" * 64), bytes=size, digest=digest_of(b""), stored_bytes=1, lines=1)
