import sys
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from checkpoint.manifest import Segment
from checkpoint.overlap import ahead, fetch_ahead, quick_switching
from tests.unit.checkpoint.checkpoints import segment


def numbered(count: int, made: list[int]) -> Iterator[bytes]:
    for number in range(count):
        made.append(number)
        yield b"%d" % number


def test_pieces_come_in_order_from_another_thread() -> None:
    threads: set[str] = set()

    def pieces() -> Iterator[bytes]:
        for number in range(50):
            threads.add(threading.current_thread().name)
            yield b"%d" % number

    assert list(ahead(pieces())) == [b"%d" % number for number in range(50)]
    assert threads == {"ahead"}


def test_only_a_handful_of_pieces_is_made_ahead() -> None:
    made: list[int] = []
    with closing(ahead(numbered(50, made))) as pieces:
        for used, _ in enumerate(pieces):
            assert len(made) <= used + 6


def test_a_failure_comes_out_behind_the_pieces_before_it() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"one"
        raise ValueError("broken")

    coming = ahead(pieces())
    assert next(coming) == b"one"
    with pytest.raises(ValueError, match="broken"):
        next(coming)


def test_closing_early_ends_the_thread() -> None:
    before = threading.active_count()
    coming = ahead(numbered(1000, []))
    next(coming)
    coming.close()
    assert threading.active_count() == before


def test_segments_are_fetched_several_at_once_within_the_budget_and_given_in_order() -> None:
    sizes = [5, 5, 5, 30, 1, 1, 1, 1]
    segments = [
        Segment(key=s.key, bytes=n, digest=s.digest, stored_bytes=size, lines=0)
        for n, size in enumerate(sizes)
        for s in [segment(0)]
    ]
    lock = threading.Lock()
    held: list[int] = []
    most: list[int] = []

    def fetch(one: Segment) -> bytearray:
        with lock:
            held.append(one.stored_bytes)
            most.append(sum(held))
        return bytearray(b"%d" % one.bytes)

    given: list[int] = []
    for one, data in fetch_ahead(segments, fetch, workers=3, budget=12):
        assert data == b"%d" % one.bytes
        given.append(one.bytes)
        with lock:
            held.remove(one.stored_bytes)
    assert given == list(range(len(sizes)))
    assert max(most) <= 30 + 12


def test_a_failed_fetch_comes_out_in_its_place() -> None:
    def fetch(one: Segment) -> bytearray:
        if one.bytes == 2:
            raise ValueError("gone")
        return bytearray()

    coming = fetch_ahead([segment(n) for n in range(5)], fetch, workers=4, budget=100)
    assert next(coming)[0].bytes == 0
    assert next(coming)[0].bytes == 1
    with pytest.raises(ValueError, match="gone"):
        next(coming)


def test_the_switch_interval_is_put_back() -> None:
    before = sys.getswitchinterval()
    with quick_switching():
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before
