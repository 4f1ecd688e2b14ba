"""Attempt 1 stalls (SIGSTOP) at any of its calls, attempt 2 takes over and settles, attempt 1 wakes (SIGCONT).

What it sent before it stalled arrives only then, as a request does that a network held back.
"""

import os
import signal
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.scene import Run, Started
from tests.fakes.fault_proxy import Call, Fault, FaultProxy
from tests.faults.invariants import check_settled, head_of
from tests.faults.kills import NEVER, events_of, failures_at
from tests.faults.world import SCENARIOS, Trial, World

pytestmark = pytest.mark.timeout(300)
BOUND_S = 60
BEFORE_THE_CLAIM = 3
"""Calls that prove the store, on one that has never been used."""
CLAIM = BEFORE_THE_CLAIM + 1


class Stalled:
    """A process that has been stopped at one of its calls, which is held back as long."""

    def __init__(self, trial: Trial, number: int) -> None:
        self._number = number
        self._ready, self._stopped, self._woken = threading.Event(), threading.Event(), threading.Event()
        self.proxy = FaultProxy(trial.world.targets(trial), self._plan)
        self._started: Started | None = None
        self._trial = trial

    def _plan(self, call: Call) -> Fault | None:
        if call.number == self._number:
            assert self._ready.wait(BOUND_S)
            assert self._started is not None
            self._started.signal(signal.SIGSTOP)
            self._stopped.set()
            self._woken.wait(BOUND_S)
        return None

    def start(self) -> None:
        self._started = self._trial.start(1, self.proxy)
        self._ready.set()
        assert self._stopped.wait(BOUND_S), "there was no such call"

    def wake(self) -> Run:
        assert self._started is not None
        self._started.signal(signal.SIGCONT)
        self._woken.set()
        return self._started.finish()


def stall_at_call(trial: Trial, number: int) -> Call:
    """The call that was held back, after everything was checked that must hold."""
    stalled = Stalled(trial, number)
    with stalled.proxy as proxy:
        stalled.start()
        successor = trial.finish(trial.start(2))
        settled = head_of(trial.store, trial.pipeline_id)
        told = trial.told
        zombie = stalled.wake()
        held = proxy.calls[number - 1]
    assert settled is not None
    check_settled(trial, successor)
    head = head_of(trial.store, trial.pipeline_id)
    assert head is not None
    assert head.json == settled.json, "a zombie changed the head"
    if settled.fields.attempt == 1 or number <= CLAIM:
        # It had committed before it stalled, or never claimed: it finds the record, which is acknowledged.
        assert zombie.exit == 0, zombie.stderr
        return held
    assert zombie.exit == 76, zombie.stderr
    assert zombie.error["reason"] == "fenced"
    assert zombie.settled["terminal"] is None
    assert trial.told == told, "a zombie called back"
    return held


@pytest.mark.seaweedfs
def test_a_process_that_wakes_after_its_successor_has_settled_is_fenced(s3_world: World, tmp_path: Path) -> None:
    ask = SCENARIOS["ask"]
    whole = s3_world.trial(tmp_path / "whole", ask, "s3")
    _, proxy = whole.run(1)
    count = len(proxy.calls)
    held: dict[int, Call] = {}

    def stall(number: int) -> None:
        trial = s3_world.trial(tmp_path / f"stalled-{number}", ask, "s3")
        held[number] = stall_at_call(trial, number)

    numbers = range(CLAIM, count + 1)
    assert failures_at((f"call {number}", partial(stall, number)) for number in numbers) == {}

    asked = next(call for call in held.values() if "questions" in call.path)
    assert asked.status == 409, "a question of an attempt that was replaced is not shown"
    heads = [call.status for call in held.values() if call.method == "PUT" and call.path.endswith("head.json")]
    assert heads[:2] == [412, 412], "the claim and the terminal record that came too late"


def test_on_a_folder_too(world: World, tmp_path: Path) -> None:
    success = SCENARIOS["success"]
    events = events_of(world, tmp_path / "whole", success, "end")

    def stall(number: int) -> None:
        trial = world.trial(tmp_path / f"stopped-{number}", success)
        zombie = trial.start(1, kill_at=number, number=signal.SIGSTOP)
        wait_until_stopped(trial, zombie, number)
        trial.finish(trial.start(2))
        between = head_of(trial.store, trial.pipeline_id)
        assert between is not None
        zombie.signal(signal.SIGCONT)
        late = zombie.finish()
        successor = trial.relaunch_until_settled()
        check_settled(trial, successor)
        if between.fields.attempt == 2 and between.fields.terminal is not None:
            assert late.exit in (76, 0), late.stderr
            after = head_of(trial.store, trial.pipeline_id)
            assert after is not None
            assert after.json == between.json

    numbers = range(4, events, 9)
    assert failures_at((f"event {number}", partial(stall, number)) for number in numbers) == {}


def wait_until_stopped(trial: Trial, started: Started, number: int) -> None:
    """The system tells when a child has stopped; nothing else of it is taken from whoever waits for its end."""
    assert number < NEVER
    state = os.waitid(os.P_PID, started.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert state is not None
    assert state.si_code == os.CLD_STOPPED, (trial.pipeline_id, state)
