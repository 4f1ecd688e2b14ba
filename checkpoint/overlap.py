"""Overlap for one pass over a large session: a generator's work moves to a thread of its own, a few pieces
ahead.

Reading, decompressing, hashing and writing release the interpreter lock, so on two cores they cost about
nothing beside the indexing of the same bytes. A handful of pieces is held at most, so memory stays small
whatever the size.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeAlias

from checkpoint.manifest import Segment

_HELD = 3
_SWITCH_S = 0.0002

_Coming: TypeAlias = "SimpleQueue[bytes | BaseException | None]"


def ahead(pieces: Iterator[bytes]) -> Generator[bytes]:
    """The same pieces, made on another thread a few ahead of their use. Its failure comes out in its place.

    When this generator is closed, the thread has ended (after the piece it was about).
    """
    coming: _Coming = SimpleQueue()
    room: SimpleQueue[bool] = SimpleQueue()
    for _ in range(_HELD):
        room.put(True)
    thread = threading.Thread(target=_make, args=(pieces, coming, room), name="ahead", daemon=True)
    thread.start()
    try:
        while (piece := coming.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            room.put(True)
            yield piece
    finally:
        room.put(False)
        thread.join()


def _make(pieces: Iterator[bytes], coming: _Coming, room: "SimpleQueue[bool]") -> None:
    try:
        for piece in pieces:
            if not room.get():
                break
            coming.put(piece)
        coming.put(None)
    except BaseException as failure:  # noqa: BLE001 - not swallowed: the user of the pieces raises it
        coming.put(failure)


def fetch_ahead(
    segments: Iterable[Segment], fetch: Callable[[Segment], bytearray], *, workers: int, budget: int
) -> Iterator[tuple[Segment, bytearray]]:
    """Each segment with its stored bytes, in order; several under way at once while they fit into `budget`
    bytes.
    """
    waiting = deque(segments)
    under_way: deque[tuple[Segment, Future[bytearray]]] = deque()
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


@contextmanager
def quick_switching() -> Generator[None]:
    """Let threads that come back from such calls have the interpreter lock soon.

    By default each of them waits 5 ms beside a busy thread, far longer than the work on one piece takes.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
