"""A process killed wherever it touches disk or network, and launched again: nothing is lost, nothing is there twice.

`python -m tests.faults.kills` tries every point of every scenario; here each kind of point has its turn.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fakes.fault_proxy import KILLS
from tests.faults.kills import (
    Point,
    calls_of,
    events_of,
    failures_at,
    kill_at_call,
    kill_at_event,
    points_at_calls,
    points_at_events,
)
from tests.faults.world import SCENARIOS, World

pytestmark = pytest.mark.timeout(300)


def part_of(points: Sequence[Point], step: int, start: int = 0) -> Sequence[Point]:
    return points[start % step :: step]


@pytest.mark.parametrize(("every", "step", "start"), [("end", 5, 0), ("turn", 11, 3), ("call", 9, 5)])
def test_a_run_on_a_folder_survives_a_kill_before_any_of_its_writes(
    world: World, tmp_path: Path, every: str, step: int, start: int
) -> None:
    success = SCENARIOS["success"]
    points = list(
        points_at_events(world, tmp_path, success, every, events_of(world, tmp_path / "whole", success, every))
    )

    assert len(points) > 40
    assert failures_at(part_of(points, step, start)) == {}


@pytest.mark.parametrize(
    ("name", "every", "start"),
    [("ask", "end", 0), ("reply", "turn", 1), ("failure", "end", 2), ("ask", "call", 9), ("reply", "call", 6)],
)
def test_questions_replies_and_failures_survive_kills_as_well(
    world: World, tmp_path: Path, name: str, every: str, start: int
) -> None:
    scenario = SCENARIOS[name]
    events = events_of(world, tmp_path / "whole", scenario, every)
    points = list(points_at_events(world, tmp_path, scenario, every, events))

    assert failures_at(part_of(points, 17, start)) == {}


@pytest.mark.seaweedfs
@pytest.mark.parametrize(("every", "step"), [("end", 1), ("call", 2)])
def test_a_run_on_s3_survives_a_kill_before_during_and_after_any_of_its_calls(
    s3_world: World, tmp_path: Path, every: str, step: int
) -> None:
    ask = SCENARIOS["ask"]
    calls = calls_of(s3_world, tmp_path / "whole", ask, "s3", every)
    points = list(points_at_calls(s3_world, tmp_path, ask, "s3", every, calls))

    assert len(points) >= 10 * len(KILLS)
    # Each call at one moment, the next call at the next one.
    chosen = [point for index, point in enumerate(points) if index % len(KILLS) == index // len(KILLS) % len(KILLS)]
    assert failures_at(chosen[::step]) == {}


def test_counting_ends_where_the_process_ends_by_itself(world: World, tmp_path: Path) -> None:
    success = SCENARIOS["success"]
    events = events_of(world, tmp_path / "whole", success, "end")
    calls = calls_of(world, tmp_path / "calls", success, "file", "end")

    assert kill_at_event(world, tmp_path / "last", success, "end", events)
    assert not kill_at_event(world, tmp_path / "beyond", success, "end", events + 1)
    assert kill_at_call(world, tmp_path / "call", success, "file", "end", calls, "kill_unanswered")
    assert not kill_at_call(world, tmp_path / "no-call", success, "file", "end", calls + 1, "kill_unanswered")
