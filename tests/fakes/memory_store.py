"""An object store in memory, as strict about conditions as a real one, with a hook for faults.

`before` and `after` are called around the effect of every call with (operation, key); raising there is a
request that never arrived, or an answer that was lost.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from checkpoint.errors import StoreError
from checkpoint.store.addresses import check_key
from checkpoint.store.port import ListedObject, PreconditionFailed, PutResult, StoredObject, Written

Hook = Callable[[str, str], None]


def _nothing(operation: str, key: str) -> None:
    del operation, key


def _real_time() -> datetime:
    return datetime.now(UTC)


class MemoryStore:
    """`ObjectStore` in a dict. Etags are those of S3: a digest of the content."""

    def __init__(
        self, *, before: Hook = _nothing, after: Hook = _nothing, clock: Callable[[], datetime] = _real_time
    ) -> None:
        self.objects: dict[str, bytes] = {}
        self.writes: list[tuple[str, int]] = []
        """(key, bytes) of every body that was sent, in order."""
        self.before = before
        self.after = after
        self.modified: dict[str, datetime] = {}
        self._clock = clock
        self._lock = threading.Lock()

    def address(self, key: str) -> str:
        return f"memory:///{key}"

    def get(self, key: str, *, limit: int | None = None) -> StoredObject | None:
        self.before("get", check_key(key))
        data = self.objects.get(key)
        self.after("get", key)
        if data is None:
            return None
        if limit is not None and len(data) > limit:
            raise StoreError("too_large", f"{self.address(key)} has {len(data)} bytes, more than {limit}.")
        return StoredObject(data, etag_of(data), self.modified.get(key))

    def stream(self, key: str) -> Iterator[bytes] | None:
        self.before("stream", check_key(key))
        data = self.objects.get(key)
        self.after("stream", key)
        if data is None:
            return None
        return (data[at : at + 2**20] for at in range(0, len(data), 2**20))

    def put_if_absent(self, key: str, body: bytes | Path) -> PutResult:
        data = body if isinstance(body, bytes) else body.read_bytes()
        return self._put("put_if_absent", key, data, None)

    def put_if_match(self, key: str, body: bytes, etag: str) -> PutResult:
        return self._put("put_if_match", key, body, etag)

    def _put(self, operation: str, key: str, data: bytes, etag: str | None) -> PutResult:
        self.before(operation, check_key(key))
        with self._lock:
            self.writes.append((key, len(data)))
            present = self.objects.get(key)
            holds = present is None if etag is None else present is not None and etag_of(present) == etag
            if holds:
                self.objects[key] = data
                self.modified[key] = self._clock()
        self.after(operation, key)
        return Written(etag_of(data)) if holds else PreconditionFailed()

    def list(self, prefix: str) -> Iterator[ListedObject]:
        self.before("list", prefix)
        keys = sorted((key for key in self.objects if key.startswith(prefix)), key=str.encode)
        return (ListedObject(key, len(self.objects[key]), self.modified[key]) for key in keys)

    def now(self) -> datetime:
        self.before("now", "")
        return self._clock()


def etag_of(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
