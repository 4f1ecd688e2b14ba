"""Where a plain Pi session comes from: a key of the store, another bucket (`s3://`), or a local file
(`file://`).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from checkpoint.errors import RestoreFailed, StoreError
from checkpoint.segments import PIECE_BYTES
from checkpoint.store.addresses import FileAddress, parse_address
from checkpoint.store.port import ObjectStore

OtherStore: TypeAlias = Callable[[str], ObjectStore]
"""Opens the store of an address such as `s3://bucket`, with the endpoint and credentials of the launch."""


def open_plain(store: ObjectStore, source: str, other_store: OtherStore | None) -> tuple[str, Iterator[bytes]]:
    """(full address, bytes in pieces) of a session. Raises `RestoreFailed` (missing) or `StoreError`.

    A local file may be reached through links: whoever launches names it, unlike a key.
    """
    if "://" not in source:
        return store.address(source), _existing(store.address(source), store.stream(source))
    address = parse_address(source)
    if isinstance(address, FileAddress):
        return source, _local_pieces(source, Path(address.path))
    if other_store is None:
        raise StoreError("misconfigured", f"{source} is in another store, and none can be opened here.")
    bucket = other_store(f"s3://{address.bucket}")
    return source, _existing(source, bucket.stream(address.path))


def _existing(address: str, pieces: Iterator[bytes] | None) -> Iterator[bytes]:
    if pieces is None:
        raise _missing(address)
    return pieces


def _local_pieces(address: str, path: Path) -> Iterator[bytes]:
    try:
        if not path.is_file():
            raise _missing(address)
        with path.open("rb", buffering=0) as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
    except OSError as error:
        raise RestoreFailed(
            "missing", f"{address} cannot be read ({error.strerror or error}). Check the path and its rights."
        ) from error


def _missing(address: str) -> RestoreFailed:
    return RestoreFailed("missing", f"{address} does not exist. Check `session.restore`.")
