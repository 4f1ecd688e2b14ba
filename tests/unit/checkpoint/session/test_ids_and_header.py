import re
import uuid
from collections.abc import Callable

import pytest

from checkpoint.session.header import (
    format_version,
    is_header,
    is_known_version,
    needs_migration,
    new_header,
)
from checkpoint.session.ids import iso_time, new_entry_id, new_session_uuid


def scripted(*pieces: bytes) -> Callable[[int], bytes]:
    left = list(pieces)
    return lambda count: left.pop(0) if len(left) > 1 else left[0]


def test_an_entry_id_is_eight_hex_digits() -> None:
    assert re.fullmatch("[0-9a-f]{8}", new_entry_id(frozenset[str]()))


def test_an_entry_id_that_is_known_is_tried_again() -> None:
    assert new_entry_id({"01010101"}, scripted(b"\1\1\1\1", b"\1\1\1\1", b"\2\2\2\2")) == "02020202"


def test_after_a_hundred_clashes_a_whole_uuid_is_taken() -> None:
    given: list[int] = []

    def random_bytes(count: int) -> bytes:
        given.append(count)
        return bytes(count)

    entry_id = new_entry_id({"00000000"}, random_bytes)
    assert uuid.UUID(entry_id).version == 4
    assert given == [4] * 100 + [16]


def test_a_session_uuid_is_of_version_7_and_holds_its_time() -> None:
    session_uuid = uuid.UUID(new_session_uuid(0x0189_0A5D_AC96))
    assert session_uuid.version == 7
    assert session_uuid.variant == uuid.RFC_4122
    assert str(session_uuid).startswith("01890a5d-ac96-7")


def test_times_have_milliseconds_and_a_z() -> None:
    assert iso_time(1767225600007) == "2026-01-01T00:00:00.007Z"


def test_a_new_header_has_the_fields_of_version_3_in_their_order() -> None:
    header = new_header("/workspace")
    assert list(header) == ["type", "version", "id", "timestamp", "cwd"]
    assert (header["type"], header["version"], header["cwd"]) == ("session", 3, "/workspace")
    assert uuid.UUID(header["id"]).version == 7
    assert new_header("/x", "given")["id"] == "given"


@pytest.mark.parametrize("value", [{}, [], None, {"type": "session"}, {"type": "session", "id": 1}, {"id": "x"}])
def test_what_is_no_header(value: object) -> None:
    assert not is_header(value)


@pytest.mark.parametrize(
    ("version", "counts_as", "old", "known"),
    [
        (3, 3, False, True),
        (2, 2, True, True),
        (1, 1, True, True),
        ("3", 3, False, False),
        (True, 1, True, False),
        (None, 1, True, False),
        (0, 0, True, False),
        (4, 4, False, False),
        (2.5, 2.5, True, False),
    ],
)
def test_versions_compare_as_in_javascript(version: object, counts_as: float, old: bool, known: bool) -> None:
    header = {"type": "session", "version": version, "id": "x"}
    assert format_version(header) == counts_as
    assert needs_migration(format_version(header)) is old
    assert is_known_version(header) is known


def test_a_version_that_is_no_number_is_not_migrated() -> None:
    header = {"type": "session", "version": "abc", "id": "x"}
    assert not needs_migration(format_version(header))
    assert not is_known_version(header)


def test_a_header_without_version_is_of_version_1() -> None:
    assert format_version({"type": "session", "id": "x"}) == 1
    assert is_known_version({"type": "session", "id": "x"})
