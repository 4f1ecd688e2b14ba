"""The object store as the rest of `checkpoint` sees it: a few blocking calls with conditional writes.

Refuses to be more: no listing by page, no metadata, no delete. Nothing here overwrites blindly.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct


class Written(Struct, frozen=True):
    """The object now holds the given bytes. `etag` is opaque: good for `put_if_match`, never a checksum."""

    etag: str


class PreconditionFailed(Struct, frozen=True):
    """412 (or 404 of a conditional overwrite): the condition does not hold; nothing was changed by this
    call.

    After a lost answer the store's own retry can give this to the writer that won: read again before you
    judge.
    """


class Conflict(Struct, frozen=True):
    """409: another conditional write was under way; read again and retry, bounded."""


PutResult: TypeAlias = Written | PreconditionFailed | Conflict


class StoredObject(Struct, frozen=True):
    data: bytes
    etag: str
    modified: datetime | None
    """When it was written, by the store's own clock, UTC, maybe in whole seconds. None where the store does not say."""


class ListedObject(Struct, frozen=True):
    key: str
    size: int
    modified: datetime
    """By the store's own clock, UTC."""


class ObjectStore(Protocol):
    """A bucket and prefix, or a folder. Keys are relative and `/`-separated (`check_key` says what is
    allowed).

    Every call may raise `StoreError` (its `reason` says what kind) and is bounded: each wait for the
    network or a lock has a timeout, and retries are counted. All calls are thread-safe, and safe to repeat.
    """

    def get(self, key: str, *, limit: int | None = None) -> StoredObject | None:
        """The object, or None. More than `limit` bytes raise `StoreError` (too_large) before they are
        read.
        """
        ...

    def stream(self, key: str) -> Iterator[bytes] | None:
        """The object's bytes in pieces of at most 1 MiB, or None if it is missing. Reading may raise, too."""
        ...

    def put_if_absent(self, key: str, body: bytes | Path) -> PutResult:
        """Create the object (`If-None-Match: *`). A file's bytes are streamed, not held."""
        ...

    def put_if_match(self, key: str, body: bytes, etag: str) -> PutResult:
        """Replace the object if it still has `etag` (`If-Match`)."""
        ...

    def list(self, prefix: str) -> Iterator[ListedObject]:
        """Objects whose key starts with `prefix`, each once, in the store's own order (not always the
        keys').
        """
        ...

    def now(self) -> datetime:
        """The time by the store's own clock, UTC: what `modified` is to be compared with, however wrong it is. Writes
        nothing that stays.
        """
        ...

    def address(self, key: str) -> str:
        """The full address of a key, for messages: `s3://bucket/prefix/key` or `file:///folder/key`."""
        ...
