import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tools.images import MAX_IMAGE_BYTES, Image, inspect_image
from tests.fakes.mcp_server import png

GIF = b"GIF89a" + struct.pack("<HH", 3, 4) + b"\0\0\0" + b"\x3b"
JPEG = (
    b"\xff\xd8\xff\xe0" + struct.pack(">H", 4) + b"\0\0"
    b"\xff\xc0" + struct.pack(">HBHH", 11, 8, 5, 6) + b"\1\1\x11\0" + b"\xff\xd9"
)
WEBP = b"RIFF" + struct.pack("<I", 30) + b"WEBPVP8X" + b"\0" * 8 + b"\x06\0\0" + b"\x07\0\0" + b"\0" * 8


@pytest.mark.parametrize(
    ("data", "image"),
    [
        (png(2, 3), Image("image/png", 2, 3)),
        (GIF, Image("image/gif", 3, 4)),
        (JPEG, Image("image/jpeg", 6, 5)),
        (WEBP, Image("image/webp", 7, 8)),
    ],
)
def test_the_kind_and_the_size_of_an_image_are_read_from_its_bytes(data: bytes, image: Image) -> None:
    assert inspect_image(data) == image


@pytest.mark.parametrize("data", [png()[:-20], JPEG[:-2], GIF[:-1], WEBP[:-9], png(1, 1)[:20]])
def test_half_an_image_is_none(data: bytes) -> None:
    assert inspect_image(data) == "is damaged or not whole"


def test_an_image_that_providers_would_refuse_is_refused_before_it_is_in_the_session() -> None:
    assert "8000 a side" in str(inspect_image(png(9000, 1)))
    assert "scale it down" in str(inspect_image(png() + b"\0" * MAX_IMAGE_BYTES))


@given(st.binary(max_size=64), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", WEBP[:16]]))
def test_any_bytes_are_an_image_or_a_reason(data: bytes, start: bytes) -> None:
    assert isinstance(inspect_image(start + data), Image | str)
