"""The entries of a committed checkpoint, for people to read. Blocking; the few last ones are held.

Refuses to give more than was asked for: a session can be longer than a browser likes.
"""

import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

import msgspec

from checkpoint.jsontypes import JsonObject
from checkpoint.manifest import RestorePoint as StoredPoint
from checkpoint.restore import fetch
from checkpoint.store.port import ObjectStore
from checkpoint.text import clean_json
from settlement.commit_rule import RestorePoint

HELD = 4
MAX_HELD_BYTES = 8 * 1024 * 1024


class _NoIndex:
    def feed(self, chunk: bytes) -> None:
        """The lines are read from the file."""


class Transcripts:
    """Raises `CheckpointError` where the checkpoint cannot be read."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._held: OrderedDict[str, list[bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def entries(self, point: RestorePoint | None, before: int | None, limit: int) -> tuple[list[JsonObject], int, int]:
        """At most `limit` entries before the `before`-th (None: the last ones), how many come before them, and how many
        there are. The header of the file is not an entry.
        """
        lines = [] if point is None or point.manifest is None else self._lines(point.manifest, point.digest)[1:]
        end = len(lines) if before is None else min(before, len(lines))
        start = max(0, end - limit)
        return [_entry(line) for line in lines[start:end]], start, len(lines)

    def _lines(self, manifest: str, digest: str | None) -> list[bytes]:
        key = f"{manifest} {digest}"
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        with tempfile.TemporaryDirectory(prefix="runner-") as folder:
            path = Path(folder) / "session.jsonl"
            fetched = fetch(self._store, StoredPoint(manifest=manifest, digest=digest), path, _NoIndex())
            lines = path.read_bytes().splitlines()
        if fetched.size <= MAX_HELD_BYTES:
            with self._lock:
                self._held[key] = lines
                while len(self._held) > HELD:
                    self._held.popitem(last=False)
        return lines


def _entry(line: bytes) -> JsonObject:
    try:
        return clean_json(msgspec.json.decode(line, type=JsonObject))
    except (msgspec.DecodeError, RecursionError):
        return {"type": "unreadable", "bytes": len(line)}
