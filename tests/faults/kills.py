"""Kill one process at a point found by counting, relaunch as the orchestrator would, and hold the invariants to it.

`python -m tests.faults.kills [--every end,turn,call] [--store file,s3]` does so for every scenario at every point;
the tests take a part of it. Exit 1 and one line per point that does not hold.
"""

import argparse
import itertools
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.fakes.fault_proxy import KILLS, Fault, at_call
from tests.faults.invariants import check_restorable, check_settled
from tests.faults.world import AT_ONCE, SCENARIOS, Scenario, Trial, World
from tests.servers import running_seaweed

NEVER = 1_000_000
MAY_REPEAT = {"end": True, "turn": True, "call": False}
"""By `checkpoint.every`: whether a tool may run again after a kill (docs/guarantees.md)."""


def events_of(world: World, folder: Path, scenario: Scenario, every: str) -> int:
    """How many counted events a run has that nobody kills; the run is held to the invariants too."""
    trial = world.trial(folder, scenario, "file", every)
    run, _ = trial.run(1, kill_at=NEVER)
    check_settled(trial, run, may_repeat=False)
    return len((folder / "events").read_bytes())


def calls_of(world: World, folder: Path, scenario: Scenario, kind: str, every: str) -> int:
    """How many calls a run makes that nobody kills."""
    trial = world.trial(folder, scenario, kind, every)
    run, proxy = trial.run(1)
    check_settled(trial, run, may_repeat=False)
    return len(proxy.calls)


def kill_at_event(world: World, folder: Path, scenario: Scenario, every: str, number: int) -> bool:
    """Whether there was such an event: False once the run ends by itself."""
    trial = world.trial(folder, scenario, "file", every)
    first, _ = trial.run(1, kill_at=number)
    return _go_on_from(trial, killed=first.exit == -9)


def kill_at_call(
    world: World, folder: Path, scenario: Scenario, kind: str, every: str, number: int, moment: Fault
) -> bool:
    trial = world.trial(folder, scenario, kind, every)
    first, _ = trial.run(1, at_call(number, moment))
    return _go_on_from(trial, killed=first.exit == -9)


def _go_on_from(trial: Trial, *, killed: bool) -> bool:
    check_restorable(trial)
    last = trial.relaunch_until_settled()
    check_settled(trial, last, may_repeat=MAY_REPEAT[trial.every])
    return killed


Point = tuple[str, Callable[[], object]]
"""A name, and what is tried there; it raises if something does not hold."""


def points_at_events(world: World, folder: Path, scenario: Scenario, every: str, events: int) -> Iterator[Point]:
    for number in range(1, events + 1):
        name = f"{scenario.name}-{every}-event-{number}"
        yield name, lambda name=name, number=number: kill_at_event(world, folder / name, scenario, every, number)


def points_at_calls(
    world: World, folder: Path, scenario: Scenario, kind: str, every: str, calls: int
) -> Iterator[Point]:
    for number, moment in itertools.product(range(1, calls + 1), KILLS):
        name = f"{scenario.name}-{kind}-{every}-call-{number}-{moment}".replace("_", "-")
        yield (
            name,
            lambda name=name, number=number, moment=moment: kill_at_call(
                world, folder / name, scenario, kind, every, number, moment
            ),
        )


def failures_at(points: Iterable[Point]) -> dict[str, str]:
    """Try the points, a few at once; what did not hold, by the point's name."""

    def attempt(point: Point) -> tuple[str, str] | None:
        try:
            point[1]()
        except Exception as error:  # noqa: BLE001 - every kind of failure is one of the point
            return point[0], f"{type(error).__name__}: {error}"
        return None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(found for found in pool.map(attempt, points) if found is not None)


@contextmanager
def scratch() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="runner-kills-") as folder:
        yield Path(folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.kills", description=__doc__)
    parser.add_argument("--every", default="end,turn,call")
    parser.add_argument("--store", default="file,s3")
    parser.add_argument("--scenario", default=",".join(SCENARIOS))
    options = parser.parse_args()
    failed = 0
    with scratch() as folder, running_seaweed(folder) as s3, World(s3).running() as world:
        wanted = itertools.product(options.every.split(","), options.scenario.split(","), options.store.split(","))
        for every, name, kind in wanted:
            scenario = SCENARIOS[name]
            whole = folder / f"{name}-{kind}-{every}"
            points = list(
                points_at_events(world, folder, scenario, every, events_of(world, whole, scenario, every))
                if kind == "file"
                else points_at_calls(
                    world, folder, scenario, kind, every, calls_of(world, whole, scenario, kind, every)
                )
            )
            failures = failures_at(points)
            failed += len(failures)
            print(f"{name} on {kind}, every {every}: {len(points)} points, {len(failures)} failed", flush=True)
            for point, problem in failures.items():
                print(f"  {point}: {problem}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
