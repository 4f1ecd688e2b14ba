"""How many round trips follow one another between the model's last answer and the end of the process."""

import itertools
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.fault_proxy import Call, Fault, FaultProxy, longest_chain
from tests.faults.invariants import check_settled
from tests.faults.kills import failures_at
from tests.faults.world import SCENARIOS, World

IN_A_ROW = 5
"""Segments, manifest, record, callback, and its note in the head."""
ROUND_TRIP_S = 1.0
"""Longer than anything the process does in between, so that what does not wait for a call begins before it ends."""
LAST = {"success": "/chat/completions", "ask": "/questions"}
LAST_NUMBER = {"success": 2, "ask": 1}


def count_round_trips(world: World, folder: Path, name: str, every: str) -> None:
    trial = world.trial(folder / f"trips-{name}-{every}", SCENARIOS[name], "s3", every)
    numbers = itertools.count(1)
    last: list[Call] = []

    def slow_from_the_last_turn_on(call: Call) -> Fault | None:
        if call.path.endswith(LAST[name]) and next(numbers) == LAST_NUMBER[name]:
            last.append(call)
            proxy.round_trip_s = ROUND_TRIP_S
        return None

    with FaultProxy(world.targets(trial), slow_from_the_last_turn_on) as proxy:
        run = trial.finish(trial.start(1, proxy))

    check_settled(trial, run, may_repeat=False)
    ended = last[0].ended
    assert ended is not None
    after = [call for call in proxy.calls if call.began > ended]
    assert {call.where for call in after} == {"store", "server"}
    assert longest_chain(after) <= IN_A_ROW, [f"{call} {call.began}-{call.ended}" for call in after]


@pytest.mark.seaweedfs
def test_at_most_five_round_trips_in_a_row_after_the_last_turn(s3_world: World, tmp_path: Path) -> None:
    cases = itertools.product(SCENARIOS.keys() & LAST.keys(), ("end", "turn", "call"))

    assert (
        failures_at(
            (f"{name}, every {every}", partial(count_round_trips, s3_world, tmp_path, name, every))
            for name, every in cases
        )
        == {}
    )


def test_calls_at_the_same_time_are_one_round_trip() -> None:
    def call(began: int, ended: int) -> Call:
        return Call(began, "store", "PUT", "/", b"", 0, began, ended)

    assert longest_chain([]) == 0
    assert longest_chain([call(1, 4), call(2, 5), call(3, 6)]) == 1
    assert longest_chain([call(1, 2), call(3, 4), call(5, 6)]) == 3
    assert longest_chain([call(1, 3), call(2, 5), call(4, 6)]) == 2
