"""Give one call of a pipeline, or by a seed many of them, a wrong answer, and hold the invariants to what comes of it.

`python -m tests.faults.answers [--seed N] [--rounds R]` does every fault at every call to the store and to the server,
then R rounds in which each call fares by chance, from a printed seed; the tests take a part of it. What is late beyond
the product's timeouts is left out (tests/faults/test_late.py has it, with short ones). Exit 1 and one line per case
that does not hold.
"""

import argparse
import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.scene import Run
from tests.fakes.fault_proxy import ANSWER_FAULTS, AnswerFault, Call, Fault, FaultProxy, Plan
from tests.faults.invariants import check_kept, check_restorable, check_settled
from tests.faults.kills import Point, failures_at, scratch
from tests.faults.world import SCENARIOS, Scenario, Trial, World
from tests.servers import running_seaweed

FAULTS: tuple[AnswerFault, ...] = tuple(fault for fault in ANSWER_FAULTS if fault != "late")


def answered_wrongly(call: Call) -> bool:
    """Models have their own tests; here it is about the store and the server."""
    return call.where != "model"


def at_nth(number: int, fault: Fault) -> Plan:
    """The fault at the n-th call to store or server."""
    seen = itertools.count(1)
    return lambda call: fault if answered_wrongly(call) and next(seen) == number else None


def by_chance(seed: int, share: float) -> Plan:
    """Each call fares by chance; the same seed gives the n-th call the same fault."""

    def plan(call: Call) -> Fault | None:
        chance = random.Random(f"{seed} {call.number}")
        return chance.choice(FAULTS) if answered_wrongly(call) and chance.random() < share else None

    return plan


def run_with(trial: Trial, plan: Plan) -> tuple[Run, FaultProxy]:
    """One attempt under the plan, then relaunches with right answers until it is settled."""
    first, proxy = trial.run(1, plan)
    check_restorable(trial)
    if first.exit == 77:  # the record waits in the store: whoever comes next delivers it
        trial.finish(trial.start(2))
    last = trial.relaunch_until_settled()
    if _restored_wrong_bytes(proxy) and last.settlement.get("reason") == "restore_failed":
        check_kept(trial, last, "restore_failed")
    else:
        check_settled(trial, last)
    return last, proxy


def _restored_wrong_bytes(proxy: FaultProxy) -> bool:
    return any(call.fault == "wrong" and call.method == "GET" for call in proxy.calls)


def calls_to_servers(world: World, folder: Path, scenario: Scenario) -> list[Call]:
    trial = world.trial(folder, scenario, "s3")
    run, proxy = trial.run(1)
    check_settled(trial, run, may_repeat=False)
    return [call for call in proxy.calls if answered_wrongly(call)]


def points_of(world: World, folder: Path, scenario: Scenario, calls: int) -> Iterator[Point]:
    for number, fault in itertools.product(range(1, calls + 1), FAULTS):
        name = f"{scenario.name}-{number}-{fault}".replace("_", "-")
        yield (
            name,
            lambda name=name, number=number, fault=fault: run_with(
                world.trial(folder / name, scenario, "s3"), at_nth(number, fault)
            ),
        )


def chances(world: World, folder: Path, seed: int, rounds: int, share: float = 0.25) -> Iterator[Point]:
    for number in range(rounds):
        scenario = list(SCENARIOS.values())[number % len(SCENARIOS)]
        name = f"{scenario.name}-seed-{seed}-{number}"
        yield (
            name,
            lambda name=name, scenario=scenario, number=number: run_with(
                world.trial(folder / name, scenario, "s3"), by_chance(seed + number, share)
            ),
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.answers", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--scenario", default=",".join(SCENARIOS), help="of the exhaustive part; empty for none")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    failed = 0
    with scratch() as folder, running_seaweed(folder) as s3, World(s3).running() as world:
        for name in filter(None, options.scenario.split(",")):
            calls = calls_to_servers(world, folder / name, SCENARIOS[name])
            failures = failures_at(points_of(world, folder, SCENARIOS[name], len(calls)))
            failed += len(failures)
            print(f"{name}: {len(calls)} calls x {len(FAULTS)} faults, {len(failures)} failed", flush=True)
            for point, problem in failures.items():
                print(f"  {point}: {problem}", flush=True)
        failures = failures_at(chances(world, folder, options.seed, options.rounds))
        print(f"by chance: {options.rounds} rounds, {len(failures)} failed", flush=True)
        for point, problem in failures.items():
            print(f"  {point}: {problem}", flush=True)
    return 1 if failed or failures else 0


if __name__ == "__main__":
    sys.exit(main())
