"""Overlap for one pass over a large session: read ahead, write and hash on other threads while this one
indexes.

hashlib, zstd and file calls release the interpreter lock, so on two cores the pass costs about its slower
half. Both ends hold a handful of pieces at most, so memory stays small whatever the size.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from checkpoint.manifest import Segment

_PENDING = 4


def read_ahead(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, each fetched on another thread while the one before is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        coming = pool.submit(next, pieces, None)
        while (piece := coming.result()) is not None:
            coming = pool.submit(next, pieces, None)
            yield piece


def fetch_ahead(
    segments: Iterable[Segment], fetch: Callable[[Segment], bytes], *, workers: int, budget: int
) -> Iterator[tuple[Segment, bytes]]:
    """Each segment with its stored bytes, in order; several under way at once while they fit into `budget`
    bytes.
    """
    waiting = deque(segments)
    under_way: deque[tuple[Segment, Future[bytes]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="fetch") as pool:
        try:
            while waiting or under_way:
                held = sum(segment.stored_bytes for segment, _ in under_way)
                while waiting and len(under_way) < workers:
                    held += waiting[0].stored_bytes
                    if under_way and held > budget:
                        break
                    under_way.append((waiting[0], pool.submit(fetch, waiting.popleft())))
                segment, future = under_way.popleft()
                yield segment, future.result()
        finally:
            for _, future in under_way:
                future.cancel()


class Behind:
    """Runs calls in order on one other thread, a few behind the caller. Failures come out of the next
    call.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._pending: deque[Future[object]] = deque()

    def do(self, call: Callable[[bytes], object], piece: bytes) -> None:
        if len(self._pending) >= _PENDING:
            self._pending.popleft().result()
        self._pending.append(self._pool.submit(call, piece))

    def wait(self) -> None:
        while self._pending:
            self._pending.popleft().result()


@contextmanager
def behind(name: str) -> Generator[Behind]:
    """A thread to run calls on; all of them have ended afterwards."""
    with ThreadPoolExecutor(1, thread_name_prefix=name) as pool:
        yield Behind(pool)


class HashBehind:
    """sha256 of pieces, computed on another thread."""

    def __init__(self, thread: Behind) -> None:
        self._thread = thread
        self._hash = hashlib.sha256()

    def update(self, piece: bytes) -> None:
        self._thread.do(self._hash.update, piece)

    def digest(self) -> str:
        self._thread.wait()
        return f"sha256:{self._hash.hexdigest()}"
