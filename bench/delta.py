"""The measured process of the checkpoint benchmark: restores, appends 200 KB, freezes, uploads, counts.

Counts the bodies that reach the store, whatever the upload itself says it sent.
"""

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from bench.generate import ESCAPED, Text
from bench.stored import facts
from checkpoint.freeze import freeze
from checkpoint.manifest import RestorePoint
from checkpoint.restore import fetch
from checkpoint.session.indexer import SessionIndexer
from checkpoint.session.log import SessionLog
from checkpoint.store.file_store import FileStore
from checkpoint.store.port import ListedObject, PutResult, StoredObject
from checkpoint.upload import upload

NEW_BYTES = 200 * 1024
OUTPUT_BYTES = 5 * 1024


class CountingStore:
    """An object store that adds up the bodies it is given."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self.sent_bytes = 0

    def get(self, key: str, *, limit: int | None = None) -> StoredObject | None:
        return self._store.get(key, limit=limit)

    def stream(self, key: str) -> Iterator[bytes] | None:
        return self._store.stream(key)

    def put_if_absent(self, key: str, body: bytes | Path) -> PutResult:
        self.sent_bytes += len(body) if isinstance(body, bytes) else body.stat().st_size
        return self._store.put_if_absent(key, body)

    def put_if_match(self, key: str, body: bytes, etag: str) -> PutResult:
        self.sent_bytes += len(body)
        return self._store.put_if_match(key, body, etag)

    def list(self, prefix: str) -> Iterator[ListedObject]:
        return self._store.list(prefix)

    def now(self) -> datetime:
        return self._store.now()

    def address(self, key: str) -> str:
        return self._store.address(key)


def main(ref: RestorePoint, folder: Path, dest: Path) -> None:
    import zstandard

    store = CountingStore(FileStore(folder))
    indexer = SessionIndexer()
    fetched = fetch(store, ref, dest, indexer)
    log = SessionLog.open(dest, indexer.finish())
    start = log.size
    text = Text(3, ESCAPED)
    while log.size < start + NEW_BYTES:
        output = [{"type": "text", "text": text.take(OUTPUT_BYTES)}]
        log.append_message({"role": "toolResult", "toolCallId": "call", "toolName": "bash", "content": output})
    log.close()
    frozen = freeze(dest, size=log.size, entries=log.entries, leaf_id=log.leaf_id, stored=fetched.stored)
    upload(store, frozen, facts("bench-2"))
    with dest.open("rb") as file:
        file.seek(start)
        compressed = zstandard.ZstdCompressor(level=3).compress(file.read())
    print(json.dumps({"sent_bytes": store.sent_bytes, "compressed_bytes": len(compressed)}))


if __name__ == "__main__":
    main(RestorePoint(**json.loads(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]))
