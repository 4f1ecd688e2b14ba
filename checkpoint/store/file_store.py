"""A folder as an object store, with the same conditional writes as S3.

A write goes to a hidden file beside its place, is fsynced, and is renamed into place under a lock that
covers only the check and the rename; then the folder is fsynced. Refuses to follow symbolic links anywhere
below the root, and every key that could leave it. What it creates is readable by its own user only. An etag
is the sha256 of the content, so equal bytes have equal etags, as on S3.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from checkpoint.errors import StoreError, StoreReason
from checkpoint.store.addresses import check_key
from checkpoint.store.port import ListedObject, PreconditionFailed, PutResult, StoredObject, Written

PIECE_BYTES = 1024 * 1024
_LOCKS = ".locks"
_STRIPES = 64
_TRY_LOCK_EVERY_S = 0.005


class FileStore:
    """`ObjectStore` over a local folder (created on the first write)."""

    def __init__(self, root: Path, *, lock_timeout_s: float = 10.0) -> None:
        self._root = root.absolute()
        self._lock_timeout_s = lock_timeout_s

    def address(self, key: str) -> str:
        return f"{self._root.as_uri()}/{key}"

    def get(self, key: str, *, limit: int | None = None) -> StoredObject | None:
        with self._translated(key):
            file = self._open(key)
            if file is None:
                return None
            with os.fdopen(file, "rb") as opened:
                status = os.fstat(file)
                size = status.st_size
                if limit is not None and size > limit:
                    raise StoreError("too_large", f"{self.address(key)} has {size} bytes, more than {limit}.")
                data = opened.read()
            return StoredObject(data, _etag(hashlib.sha256(data).hexdigest()), _time(status))

    def stream(self, key: str) -> Iterator[bytes] | None:
        with self._translated(key):
            file = self._open(key)
        return None if file is None else self._pieces(key, file)

    def _pieces(self, key: str, file: int) -> Iterator[bytes]:
        with self._translated(key), os.fdopen(file, "rb", buffering=0) as opened:
            while piece := opened.read(PIECE_BYTES):
                yield piece

    def put_if_absent(self, key: str, body: bytes | Path) -> PutResult:
        with self._translated(key), self._folder(key, create=True) as folder:
            if folder is None:
                raise FileNotFoundError(errno.ENOENT, "the folder vanished while it was used")
            name = _name(key)
            if _exists(folder, name):
                return PreconditionFailed()  # spares writing what cannot be placed
            with self._written_beside(folder, body) as (beside, digest), self._locked(key):
                if _exists(folder, name):
                    return PreconditionFailed()
                _place(folder, beside, name)
            return Written(_etag(digest))

    def put_if_match(self, key: str, body: bytes, etag: str) -> PutResult:
        with self._translated(key), self._folder(key, create=False) as folder:
            if folder is None:
                return PreconditionFailed()
            name = _name(key)
            with self._written_beside(folder, body) as (beside, digest), self._locked(key):
                if _etag_at(folder, name) != etag:
                    return PreconditionFailed()
                _place(folder, beside, name)
            return Written(_etag(digest))

    def list(self, prefix: str) -> Iterator[ListedObject]:
        return self._walk("", prefix)

    def _walk(self, below: str, prefix: str) -> Iterator[ListedObject]:
        """Files below a folder. Sorting names with a folder's `/` at its end gives the order of whole
        keys.
        """
        with self._translated(prefix):
            for name, status in sorted(_visible(self._root / below)):
                key = below + name
                if name.endswith("/"):
                    if key.startswith(prefix) or prefix.startswith(key):
                        yield from self._walk(key, prefix)
                elif key.startswith(prefix):
                    yield ListedObject(key, status.st_size, _time(status))

    def now(self) -> datetime:
        """By the clock of the file system, which need not be this machine's: the time of a file made just now."""
        with self._translated(""):
            path = self._root / f".{secrets.token_hex(8)}.part"
            try:
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                raise StoreError(
                    "missing_bucket", f"{self.address('')} is no folder: correct the address, or mount the store."
                ) from None
            try:
                os.write(file, b".")
                return _time(os.fstat(file))
            finally:
                os.close(file)
                path.unlink()

    @contextmanager
    def _folder(self, key: str, *, create: bool) -> Generator[int | None]:
        """A descriptor of the folder that holds `key`, walked to without following links; None if there is
        none.
        """
        if create:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = _open_folder(self._root, None)
        try:
            for part in check_key(key).split("/")[:-1]:
                if folder is None:
                    break
                if create:
                    _make_folder(part, folder)
                below = _open_folder(part, folder)
                os.close(folder)
                folder = below
            yield folder
        finally:
            if folder is not None:
                os.close(folder)

    def _open(self, key: str) -> int | None:
        with self._folder(key, create=False) as folder:
            return None if folder is None else _open_file(folder, _name(key))

    @contextmanager
    def _written_beside(self, folder: int, body: bytes | Path) -> Generator[tuple[str, str]]:
        """The body under a hidden name in `folder`, fsynced: (that name, sha256 hex). Gone afterwards
        unless renamed.
        """
        name = f".{secrets.token_hex(8)}.part"
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            digest = hashlib.sha256()
            with os.fdopen(file, "wb", buffering=0) as target:
                for piece in _body_pieces(body):
                    digest.update(piece)
                    _write_all(target.fileno(), piece)
                os.fsync(target.fileno())
            yield name, digest.hexdigest()
        finally:
            if _exists(folder, name):
                os.unlink(name, dir_fd=folder)

    @contextmanager
    def _locked(self, key: str) -> Generator[None]:
        """Hold the lock of `key`. A stalled holder (a stopped process) makes this fail, not wait for ever."""
        stripe = int(hashlib.sha256(key.encode()).hexdigest(), 16) % _STRIPES
        locks = self._root / _LOCKS
        locks.mkdir(mode=0o700, exist_ok=True)
        file = os.open(locks / f"{stripe:02x}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            deadline = time.monotonic() + self._lock_timeout_s
            while not _try_lock(file):
                if time.monotonic() > deadline:
                    raise StoreError(
                        "unreachable",
                        f"{self.address(key)} stayed locked for {self._lock_timeout_s:g} s. "
                        "Look for a stopped process that holds the lock, then relaunch.",
                    )
                time.sleep(_TRY_LOCK_EVERY_S)
            yield
        finally:
            os.close(file)  # releases the lock

    @contextmanager
    def _translated(self, key: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise self._store_error(key, error) from error

    def _store_error(self, key: str, error: OSError) -> StoreError:
        reason, advice = _MEANING.get(error.errno or 0, ("unreachable", "Check the disk, then relaunch."))
        return StoreError(reason, f"{self.address(key)}: {error.strerror or error}. {advice}")


_MEANING: dict[int, tuple[StoreReason, str]] = {
    errno.EACCES: ("denied", "Give this user the right to read and write the store's folder."),
    errno.EPERM: ("denied", "Give this user the right to read and write the store's folder."),
    errno.EROFS: ("denied", "Mount the store's folder writable."),
    errno.ENOSPC: ("unreachable", "Free space on the store's disk, then relaunch."),
    errno.EFBIG: ("unreachable", "Raise the limit of this process's file size, then relaunch."),
    errno.EDQUOT: ("unreachable", "Raise the quota of the store's disk, then relaunch."),
    errno.ELOOP: (
        "misconfigured",
        "The store does not follow symbolic links: replace the link by a folder or file.",
    ),
    errno.ENOTDIR: ("misconfigured", "A file or link stands where the store needs a folder: move it away."),
    errno.EISDIR: ("misconfigured", "A folder stands where the store has a file: move it away."),
    errno.ENAMETOOLONG: ("misconfigured", "Use a shorter path for the store."),
}


def _visible(folder: Path) -> list[tuple[str, os.stat_result]]:
    """(name, status) of what is no hidden file and no link; a folder's name ends in `/`."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return []
    found: list[tuple[str, os.stat_result]] = []
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            found.append((f"{entry.name}/", entry.stat(follow_symlinks=False)))
        elif entry.is_file(follow_symlinks=False):
            found.append((entry.name, entry.stat(follow_symlinks=False)))
    return found


def _time(status: os.stat_result) -> datetime:
    return datetime.fromtimestamp(status.st_mtime, UTC)


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _etag(sha256_hex: str) -> str:
    return f'"{sha256_hex}"'


def _open_folder(path: str | Path, parent: int | None) -> int | None:
    # The root itself may be reached through links: the operator named it. Below it none is followed.
    follow = 0 if parent is None else os.O_NOFOLLOW
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | follow, dir_fd=parent)
    except FileNotFoundError:
        return None


def _make_folder(name: str, parent: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return
    os.fsync(parent)


def _open_file(folder: int, name: str) -> int | None:
    """A descriptor of a regular file, or None. O_NONBLOCK: a FIFO put there must not hang the reader."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise IsADirectoryError(errno.EISDIR, "not a regular file")
    return file


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _etag_at(folder: int, name: str) -> str | None:
    file = _open_file(folder, name)
    if file is None:
        return None
    with os.fdopen(file, "rb") as opened:
        return _etag(hashlib.file_digest(opened, "sha256").hexdigest())


def _place(folder: int, beside: str, name: str) -> None:
    os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _body_pieces(body: bytes | Path) -> Iterator[bytes | memoryview]:
    if isinstance(body, bytes):
        yield body
        return
    with body.open("rb", buffering=0) as source:
        while piece := source.read(PIECE_BYTES):
            yield piece


def _write_all(file: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
