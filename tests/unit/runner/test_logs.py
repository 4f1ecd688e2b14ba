import json
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest
import structlog

from runner.logs import LogOutput, configure_logs
from runner.secrets import Secrets

SECRET = "a-secret-of-some-length"


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_a_log_line_is_json_with_its_context_and_without_secrets(capfd: pytest.CaptureFixture[str]) -> None:
    log = configure_logs(Secrets({"callback_secret": SECRET}), pipeline_id="p1", attempt=2)

    log.info("claim", nested={"list": [f"key {SECRET}", 3]})
    try:
        raise ValueError(SECRET)
    except ValueError:
        log.exception("defect")

    first, second = (json.loads(line) for line in capfd.readouterr().err.splitlines())
    assert first["nested"] == {"list": ["key [secret callback_secret]", 3]}
    assert (first["event"], first["level"], first["pipeline_id"], first["attempt"]) == ("claim", "info", "p1", 2)
    assert "ValueError: [secret callback_secret]" in second["exception"]


def test_a_reader_that_left_or_stalls_costs_log_lines_and_nothing_else() -> None:
    reader, writer = os.pipe()
    output = LogOutput(writer)
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)

    output.write("dropped after a second\n")
    for _ in range(100):
        output.write("dropped at once\n" * 1000)
    os.read(reader, 1 << 20)
    output.write("taken again\n")
    assert os.read(reader, 1 << 20) == b"taken again\n"

    os.close(reader)
    output.write("nobody is there\n")
    os.close(writer)
    output.write("nor here\n")
    output.flush()


def test_a_long_line_and_odd_characters_come_out_whole() -> None:
    reader, writer = os.pipe()
    LogOutput(writer).write("é\ud800" + "x" * 9000 + "\n")
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.read() == "é".encode() + rb"\ud800" + b"x" * 9000 + b"\n"
