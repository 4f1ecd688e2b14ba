import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.control_lines import (
    MAX_LINE_BYTES,
    Command,
    LineSplitter,
    Refusal,
    TooLong,
    answer,
    parse_command,
)


def cut(pieces: Iterable[bytes]) -> list[bytes | TooLong]:
    splitter = LineSplitter()
    found = [line for piece in pieces for line in splitter.feed(piece)]
    return [*found, *splitter.finish()]


@given(st.lists(st.binary(max_size=30)))
def test_lines_are_the_same_however_they_come_in_pieces(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert cut(pieces) == cut([whole]) == [line.strip() for line in whole.split(b"\n") if line.strip()]


@given(st.integers(1, 5000))
def test_a_line_that_is_too_long_is_said_once_and_the_next_one_is_read(step: int) -> None:
    whole = b"x" * (3 * MAX_LINE_BYTES) + b"\nnext\n" + b"y" * (MAX_LINE_BYTES + 1)
    pieces = [whole[start : start + step * 100] for start in range(0, len(whole), step * 100)]
    assert cut(pieces) == [TooLong(), b"next", TooLong()]


def test_a_line_of_just_the_longest_length_is_taken() -> None:
    assert cut([b"x" * MAX_LINE_BYTES + b"\n"]) == [b"x" * MAX_LINE_BYTES]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ({"type": "steer", "text": "Look at the tests."}, Command("steer", "Look at the tests.")),
        ({"type": "follow_up", "text": "Then stop.", "id": "a-1"}, Command("follow_up", "Then stop.", "a-1")),
        ({"type": "pause", "id": 7}, Command("pause", id=7)),
        ({"type": "cancel", "id": None}, Command("cancel")),
        ({"type": "steer", "text": "half \ud800, a NUL \0"}, Command("steer", "half \ufffd, a NUL \ufffd")),
    ],
)
def test_a_command_is_read_and_its_text_cleaned(line: dict[str, object], command: Command) -> None:
    assert parse_command(json.dumps(line).encode()) == command


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"steer", "not_json"),
        (b"\xff", "not_json"),
        (b"[]", "not_json"),
        (b"null", "not_json"),
        (b"[" * 60_000, "not_json"),
        (b"1" * 6000, "not_json"),
        (b"{}", "unknown_type"),
        (b'{"type":"stop"}', "unknown_type"),
        (b'{"type":["steer"]}', "unknown_type"),
        (b'{"type":"steer"}', "bad_text"),
        (b'{"type":"steer","text":" \\n"}', "bad_text"),
        (b'{"type":"steer","text":["x"]}', "bad_text"),
        (b'{"type":"steer","text":"x","when":"now"}', "unknown_field"),
        (b'{"type":"pause","text":"x"}', "unknown_field"),
        (b'{"type":"pause","id":true}', "bad_id"),
        (b'{"type":"pause","id":"' + b"x" * 201 + b'"}', "bad_id"),
        (TooLong(), "line_too_long"),
    ],
)
def test_what_is_no_command_is_refused_with_what_is_wrong(line: bytes | TooLong, reason: str) -> None:
    refusal = parse_command(line)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason
    assert refusal.message


@given(
    st.binary(max_size=100) | st.text(max_size=100).map(lambda text: json.dumps({"type": text, "id": text}).encode())
)
def test_whatever_comes_is_answered_by_one_line_of_json(line: bytes) -> None:
    said = json.dumps(answer("p1", parse_command(line)))
    assert "\n" not in said
    assert json.loads(said)["type"] == "control"


def test_the_answer_names_pipeline_and_id() -> None:
    assert answer("p1", Command("pause", id=7)) == {
        "type": "control",
        "pipeline_id": "p1",
        "id": 7,
        "ok": True,
        "command": "pause",
    }
    assert answer("p1", Refusal("ending", "It is over.", "a")) == {
        "type": "control",
        "pipeline_id": "p1",
        "id": "a",
        "ok": False,
        "error": {"reason": "ending", "message": "It is over."},
    }
