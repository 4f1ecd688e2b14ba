"""Every call to the store and the server, answered wrongly in every way: the pipeline settles once all the same.

`python -m tests.faults.answers` has all combinations and any number of random ones; here is a part of each.
"""

from pathlib import Path

import pytest

from tests.fakes.fault_proxy import Call
from tests.faults.answers import (
    FAULTS,
    answered_wrongly,
    by_chance,
    calls_to_servers,
    chances,
    points_of,
)
from tests.faults.kills import failures_at
from tests.faults.world import SCENARIOS, World

pytestmark = [pytest.mark.seaweedfs, pytest.mark.timeout(300)]
SEED = 20


def test_each_call_of_a_question_is_answered_wrongly_in_turn(s3_world: World, tmp_path: Path) -> None:
    ask = SCENARIOS["ask"]
    calls = calls_to_servers(s3_world, tmp_path / "whole", ask)
    points = list(points_of(s3_world, tmp_path, ask, len(calls)))

    assert {call.where for call in calls} == {"store", "server"}
    assert failures_at(points[::9]) == {}, "nine and eleven have no common factor: each fault meets other calls"


def test_whatever_a_restore_reads_may_come_wrong(s3_world: World, tmp_path: Path) -> None:
    reply = SCENARIOS["reply"]
    calls = calls_to_servers(s3_world, tmp_path / "whole", reply)
    reads = [number for number, call in enumerate(calls, 1) if call.method == "GET"]
    points = list(points_of(s3_world, tmp_path, reply, len(calls)))

    assert len(reads) == 2, "a manifest and a segment"
    chosen = [point for number in reads for point in points[(number - 1) * len(FAULTS) : number * len(FAULTS)]]
    assert failures_at(chosen[::3]) == {}


def test_many_calls_fare_badly_by_chance(s3_world: World, tmp_path: Path) -> None:
    assert failures_at(chances(s3_world, tmp_path, SEED, 4)) == {}


def test_a_seed_gives_each_call_the_same_fault_again() -> None:
    calls = [Call(number, "store", "PUT", "/", b"", 0, number) for number in range(1, 200)]
    first, again, other = ([by_chance(seed, 0.5)(call) for call in calls] for seed in (1, 1, 2))

    assert first == again != other
    assert {*first} == {None, *FAULTS}
    assert not answered_wrongly(Call(1, "model", "POST", "/", b"", 0, 1))
