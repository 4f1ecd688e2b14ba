import io
import os
from collections.abc import Iterator

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from checkpoint.errors import RestoreFailed
from checkpoint.manifest import chain_of, digest_of
from checkpoint.segments import (
    FRAME_BYTES,
    PIECE_BYTES,
    Extent,
    cut_extents,
    decode_segment,
    decompress,
    encode_segment,
    read_frames,
)

lines = st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=30)


@given(lines, st.integers(1, 60))
def test_cuts_are_at_line_borders_cover_everything_and_keep_the_limit(content: list[bytes], limit: int) -> None:
    data = b"".join(content)
    cuts = list(cut_extents(io.BytesIO(data), 0, len(data), limit))
    assert b"".join(data[cut.start : cut.end] for cut in cuts) == data
    for cut in cuts:
        part = data[cut.start : cut.end]
        assert part.endswith(b"\n")
        assert len(part) <= limit or part.count(b"\n") == 1


@pytest.mark.parametrize("length", [FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 2 * FRAME_BYTES + 17])
def test_a_line_longer_than_a_frame_stays_whole(length: int) -> None:
    data = b"a\n" + b"x" * (length - 1) + b"\n" + b"b\n"
    frames = list(read_frames(io.BytesIO(data), Extent(0, len(data))))
    assert b"".join(frames) == data
    assert any(frame.startswith(b"x") or b"\nx" in frame for frame in frames)
    assert all(frame.endswith(b"\n") for frame in frames)


@given(st.lists(lines.map(b"".join), max_size=4))
def test_a_segment_gives_back_its_lines(frames: list[bytes]) -> None:
    encoded = encode_segment("s1", frames)
    data = b"".join(frames)
    assert b"".join(decode_segment(encoded.segment, encoded.stored, "x")) == data
    assert encoded.segment.digest == digest_of(data)
    assert encoded.segment.bytes == len(data)
    assert encoded.segment.lines == data.count(b"\n")
    assert encoded.segment.stored_bytes == len(encoded.stored)
    assert encoded.segment.key == f"sessions/s1/segments/{digest_of(encoded.stored)[7:]}.zst"


def test_the_zstd_command_can_read_a_segment_as_one_file() -> None:
    encoded = encode_segment("s1", [b"one\n", b"two\n"])
    reader = zstandard.ZstdDecompressor().stream_reader(encoded.stored, read_across_frames=True)
    assert reader.read() == b"one\ntwo\n"


@given(st.data())
def test_any_damage_to_a_stored_segment_is_noticed(data: st.DataObject) -> None:
    encoded = encode_segment("s1", [b"one\n" * 50, b"two\n" * 50])
    stored = bytearray(encoded.stored)
    position = data.draw(st.integers(0, len(stored) - 1))
    stored[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RestoreFailed, match="some/key"):
        list(decode_segment(encoded.segment, stored, "some/key"))


def pieces_of(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=3), st.integers(1, 5000))
def test_any_zstd_stream_expands_in_small_pieces(frames: list[bytes], size: int) -> None:
    packed = b"".join(map(zstandard.compress, frames))
    assert b"".join(decompress(pieces_of(packed, size), "x")) == b"".join(frames)


def test_expanded_pieces_are_bounded_however_well_the_input_was_packed() -> None:
    packed = zstandard.compress(b"\0" * (20 * 2**20))
    assert max(map(len, decompress(iter([packed]), "x"))) <= PIECE_BYTES + 32


@given(st.binary(min_size=1, max_size=3000), st.booleans(), st.data())
def test_a_zstd_stream_that_ends_within_a_frame_is_refused(content: bytes, checked: bool, data: st.DataObject) -> None:
    whole = zstandard.compress(b"first frame")
    last = zstandard.ZstdCompressor(write_checksum=checked).compress(content)
    cut = data.draw(st.integers(1, len(last) - 1))
    with pytest.raises(RestoreFailed, match="zstd") as failure:
        list(decompress(iter([whole + last[:-cut]]), "x"))
    assert failure.value.reason == "damaged"


def test_a_stream_cut_within_an_incompressible_block_is_refused() -> None:
    packed = zstandard.compress(os.urandom(200_000))
    for cut in (1, 33, 50, 100, 50_000):
        with pytest.raises(RestoreFailed):
            list(decompress(iter([packed[:-cut]]), "x"))


def test_the_chain_depends_on_every_segment_and_their_order() -> None:
    one, two = (encode_segment("s1", [line]).segment for line in (b"one\n", b"two\n"))
    chains = {chain_of(some) for some in ([], [one], [two], [one, two], [two, one], [one, one, two])}
    assert len(chains) == 6
    other_storage = encode_segment("s2", [b"on", b"e\n"]).segment
    assert chain_of([other_storage, two]) == chain_of([one, two])
