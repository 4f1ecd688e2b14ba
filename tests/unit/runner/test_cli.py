import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.cli import run_command
from runner.ending import Ending
from runner.errors import Refused, RunnerError
from runner.exits import Exit
from runner.redeliver import split_head_address
from runner.signals import StopLatch

HEAD = "pipelines/p1/head.json"


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """What pytest has for these signals comes back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def run(*argv: str) -> int:
    return run_command(argv, StopLatch())


@pytest.mark.parametrize("argv", [[], ["rum"], ["schema", "spek"], ["deliver"], ["deliver", "x", "--callback-s", "0"]])
def test_wrong_words_are_exit_64_with_a_hint(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*argv) == 64
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("runner: ")
    assert "--help" in said.err


@pytest.mark.parametrize("argv", [["--help"], ["run", "--help"], ["deliver", "--help"], ["version"]])
def test_asking_for_help_or_the_version_is_no_error(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*argv) == 0
    assert capsys.readouterr().out


def test_other_commands_than_run_may_be_killed_at_any_time(capsys: pytest.CaptureFixture[str]) -> None:
    latch = StopLatch()
    latch.install()
    assert run_command(["version"], latch) == 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_check_says_every_problem_on_a_line_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"version": 1, "pipeline_id": "p 1", "session": {"id": "s1"}, "store": {}, "agent": {}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert run("check", str(tmp_path / "spec.json")) == 78
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"runner: {tmp_path}/spec.json: ") for line in lines)


@pytest.mark.parametrize(
    ("address", "store", "pipeline"),
    [
        (f"s3://bucket/a/b/{HEAD}", "s3://bucket/a/b", "p1"),
        (f"s3://bucket/{HEAD}", "s3://bucket", "p1"),
        (f"file:///var/store/{HEAD}", "file:///var/store", "p1"),
        (f"store/{HEAD}", "store", "p1"),
        (HEAD, ".", "p1"),
        (f"/{HEAD}", "/", "p1"),
    ],
)
def test_the_address_of_a_head_names_its_store_and_pipeline(address: str, store: str, pipeline: str) -> None:
    assert split_head_address(address) == (store, pipeline)


@pytest.mark.parametrize(
    "address", ["", "head.json", "p1/head.json", "pipelines/p.1/head.json", "s3://b/pipelines/p1", "x/y/z"]
)
def test_any_other_address_is_refused(address: str) -> None:
    with pytest.raises(Refused, match="is not the address of a head"):
        split_head_address(address)


@pytest.mark.parametrize("address", [f"s3://[b/{HEAD}", f"\udcff/{HEAD}"])
def test_an_address_that_cannot_be_read_is_refused(address: str) -> None:
    with pytest.raises(Refused, match="is no address"):
        split_head_address(address)


def test_the_settled_line_has_the_record_and_the_error() -> None:
    assert Ending(Exit.ACKNOWLEDGED, '{"version": 1}').settled_line() == {
        "type": "settled",
        "exit": 0,
        "terminal": {"version": 1},
        "error": None,
    }
    assert Ending.of(RunnerError("internal", "Report it.")).settled_line() == {
        "type": "settled",
        "exit": 70,
        "terminal": None,
        "error": {"reason": "internal", "message": "Report it."},
    }
