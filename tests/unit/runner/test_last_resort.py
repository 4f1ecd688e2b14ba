"""The bound on a process whose event loop is held by something."""

import json
import os
import threading
import time
from collections.abc import Iterator

import pytest

from runner.ending import Ending
from runner.exits import Exit
from runner.last_resort import LastResort
from runner.signals import StopLatch
from runner.stdout import JsonLines

LATE_S = 60.0
CUT = Ending(Exit.STOPPED, None, "stopped_before_commit", "Relaunch.")


class Leaving:
    """Takes the exit code instead of leaving."""

    def __init__(self) -> None:
        self.code: int | None = None
        self._left = threading.Event()

    def __call__(self, code: int) -> None:
        self.code = code
        self._left.set()

    def wait(self) -> int | None:
        assert self._left.wait(30), "the process was not ended"
        return self.code


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_a_process_that_does_not_end_within_its_grace_is_ended_with_a_settled_line(pipe: tuple[int, int]) -> None:
    stop, leaving = StopLatch(lambda: time.monotonic() - LATE_S), Leaving()
    last_resort = LastResort(JsonLines(pipe[1]), stop, leaving)
    last_resort.start(lambda: CUT, grace_s=1.0, ends=time.monotonic() + LATE_S)

    stop.request("cancelled", signal_name="SIGTERM")

    assert leaving.wait() == 143
    assert json.loads(os.read(pipe[0], 65536))["error"]["reason"] == "stopped_before_commit"


def test_the_deadline_counts_as_well_when_nobody_could_say_so(pipe: tuple[int, int]) -> None:
    leaving = Leaving()
    LastResort(JsonLines(pipe[1]), StopLatch(), leaving).start(lambda: CUT, grace_s=1.0, ends=time.monotonic() - LATE_S)
    assert leaving.wait() == 143


def test_once_the_pipeline_has_ended_by_itself_only_its_last_words_are_cut_short(pipe: tuple[int, int]) -> None:
    stop, leaving = StopLatch(lambda: time.monotonic() - LATE_S), Leaving()
    last_resort = LastResort(JsonLines(pipe[1]), stop, leaving)
    last_resort.ended(Ending(Exit.ACKNOWLEDGED, "{}"))
    last_resort.start(lambda: CUT, grace_s=1.0, ends=time.monotonic() - LATE_S)

    assert leaving.wait() == 0
    os.set_blocking(pipe[0], False)
    with pytest.raises(BlockingIOError):
        os.read(pipe[0], 1)
