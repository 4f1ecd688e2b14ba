"""Framing: only CR, LF and CRLF end lines, wherever the pieces are cut."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.models.sse import events
from runner.models.watch import Watch

pytestmark = pytest.mark.anyio


async def pieces(data: bytes, sizes: list[int]) -> AsyncIterator[bytes]:
    position = 0
    for size in sizes:
        yield data[position : position + size]
        position += size
    yield data[position:]


async def read(data: bytes, sizes: list[int] | None = None) -> list[tuple[str, str]]:
    watch = Watch(None, 10)
    try:
        found = events(pieces(data, sizes or []), watch, lambda: 5.0)
        return [(event.event, event.data) async for event in found if event.data]
    finally:
        watch.close()


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
async def test_line_ends_of_all_three_kinds(anyio_backend: str, end: str) -> None:
    text = end.join(["event: a", "data: one", "data:two", ": comment", "", "data: three", "", ""])
    assert await read(text.encode()) == [("a", "one\ntwo"), ("message", "three")]


async def test_no_other_character_ends_a_line(anyio_backend: str) -> None:
    text = "data: a\u2028b\u0085c\x0bd\x0ce\x1cf\n\n"
    assert await read(text.encode()) == [("message", "a\u2028b\u0085c\x0bd\x0ce\x1cf")]


async def test_a_mark_at_the_start_broken_bytes_and_a_missing_last_line(anyio_backend: str) -> None:
    assert await read(b"\xef\xbb\xbfdata: a\xff\n\nid: 5\ndata: last") == [
        ("message", "a\ufffd"),
        ("message", "last"),
    ]


@settings(max_examples=60)
@given(st.lists(st.integers(0, 9), max_size=40), st.sampled_from(["\n", "\r", "\r\n"]))
def test_where_the_pieces_are_cut_does_not_matter(sizes: list[int], end: str) -> None:
    import asyncio

    text = end.join(["event: x", "data: h\u00e9llo \U0001f648", "", "data: w\u00f6rld", "", ""])
    want = [("x", "h\u00e9llo \U0001f648"), ("message", "w\u00f6rld")]
    assert asyncio.run(read(text.encode(), sizes)) == want
