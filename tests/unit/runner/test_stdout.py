import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.stdout import JsonLines

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):  # a test may have closed it
            os.close(end)


def written(reader: int, writer: int) -> list[Any]:
    os.close(writer)
    with os.fdopen(os.dup(reader), "rb") as file:
        return [json.loads(line) for line in file]


def test_objects_come_out_in_order_one_a_line(pipe: Pipe) -> None:
    lines = JsonLines(pipe[1])
    for number in range(100):
        lines.write({"number": number, "text": "line\nend \u2028 é"})
    assert lines.close()
    assert written(*pipe) == [{"number": number, "text": "line\nend \u2028 é"} for number in range(100)]


def test_closing_what_was_never_used_starts_nothing(pipe: Pipe) -> None:
    assert JsonLines(pipe[1]).close()
    assert written(*pipe) == []


def test_a_reader_that_left_is_noticed_and_ignored(pipe: Pipe) -> None:
    os.close(pipe[0])
    lines = JsonLines(pipe[1])
    for _ in range(10):
        lines.write({"type": "event"})
    assert lines.close(10)


def test_a_reader_that_stalls_does_not_hold_up_writing_and_closing_is_bounded(pipe: Pipe) -> None:
    lines = JsonLines(pipe[1])
    for _ in range(100):
        lines.write({"text": "x" * 4096})
    assert not lines.close(0.01)
    os.close(pipe[0])  # lets the thread go
    assert lines.close(10)  # or it would write into the next test's pipe, which gets the same number


def test_a_slow_reader_gets_everything_once_it_reads(pipe: Pipe) -> None:
    reader, writer = pipe
    os.set_blocking(writer, False)
    lines = JsonLines(writer)
    for number in range(200):
        lines.write({"number": number, "text": "x" * 1000})
    assert not lines.close(0.01)
    with os.fdopen(os.dup(reader), "rb") as file:
        assert [json.loads(file.readline())["number"] for _ in range(200)] == list(range(200))
    assert lines.close(10)


def test_lines_of_any_depth_come_out(pipe: Pipe) -> None:
    value: Any = {"number": float("nan"), "text": "\ud800"}
    for _ in range(3000):
        value = {"inner": [value]}
    lines = JsonLines(pipe[1])
    lines.write({"arguments": value})
    assert lines.close()
    os.close(pipe[1])
    with os.fdopen(os.dup(pipe[0]), "rb") as file:
        line = file.read()
    assert line.startswith(b'{"arguments":{"inner":[')
    assert b'{"number":null,"text":"\\ud800"}' in line
    assert line.endswith(b"]}}\n")


def test_where_no_thread_can_be_started_the_lines_come_out_at_the_end() -> None:
    script = (
        "import resource, threading\n"
        "from runner.stdout import JsonLines\n"
        "lines = JsonLines()\n"
        "threading.stack_size(1 << 30)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))\n"
        "lines.write({'type': 'event'})\n"
        "lines.write({'type': 'settled'})\n"
        "assert lines.close()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=True)
    assert [json.loads(line)["type"] for line in ended.stdout.splitlines()] == ["event", "settled"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def refuse(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


@given(st.dictionaries(st.text(), VALUES))
def test_whatever_an_event_holds_its_line_is_json(value: dict[str, Any]) -> None:
    reader, writer = os.pipe()
    try:
        lines = JsonLines(writer)
        lines.write(value)
        lines.close()
        os.close(writer)
        with os.fdopen(os.dup(reader), "rb") as file:
            (line,) = file.read().splitlines()
        assert isinstance(json.loads(line, parse_constant=refuse), dict)
    finally:
        os.close(reader)
