"""A log that must not be restored, kept beside the checkpoints for people to look at."""

from pathlib import Path

from checkpoint.store.port import Conflict, ObjectStore

MAX_DIAGNOSTIC_BYTES = 256 * 1024 * 1024
"""Of a longer log the end is kept: what went wrong is there."""


def store_diagnostic(store: ObjectStore, key: str, log: Path) -> bool:
    """Store the log, zstd-compressed, under `key`; False if there is none. Raises `StoreError`, OSError."""
    import zstandard

    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_DIAGNOSTIC_BYTES))
            data = file.read(MAX_DIAGNOSTIC_BYTES)
    except FileNotFoundError:
        return False
    return not isinstance(store.put_if_absent(key, zstandard.ZstdCompressor(3).compress(data)), Conflict)
