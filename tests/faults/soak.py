"""Many pipelines of many turns against the local servers, each ill-treated by chance, and everything counted.

`python -m tests.faults.soak [--seed N] [--pipelines 500] [--turns 20]` prints its seed first; the same seed ill-treats
the same pipelines at the same calls. Calls to store and server are answered wrongly, processes are killed or stopped
(SIGKILL, SIGTERM) at some call, and launched again as an orchestrator would. Exit 1 if anything is lost or there twice,
or if memory or descriptors grow: this process's, which holds the server, or those of the runners.
"""

import argparse
import contextlib
import gc
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.scene import Run, Started
from tests.fakes.conversing_model import Turn
from tests.fakes.fault_proxy import Call, Fault, Plan
from tests.fakes.provider_answers import Call as Use
from tests.faults.answers import by_chance
from tests.faults.invariants import (
    check_committed_once,
    check_restorable,
    check_secrets,
    check_session,
    check_settled,
    check_tools,
)
from tests.faults.kills import MAY_REPEAT, scratch
from tests.faults.world import ASK, RELAUNCHED, Scenario, Trial, World
from tests.servers import S3Server, running_seaweed

AT_ONCE = 3
EVERY = ("end", "turn", "call")
WRONG_ANSWERS = 0.04
"""The share of calls to store and server that are answered wrongly, while a pipeline is ill-treated."""
ILL_TREATED = 3
"""The attempts that are; those after them are left alone, so that each pipeline comes to an end."""
MOST_ATTEMPTS = 12
RUNNER_MB = 250.0
RUNNER_FILES = 64
OWN_GROWTH_MB = 48.0
OWN_FILES_GROWTH = 12


@dataclass
class Seen:
    """What was measured and counted. `failed`: what did not hold, by pipeline."""

    seed: int
    ends: Counter[str] = field(default_factory=Counter[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    runner_mb: float = 0.0
    runner_files: int = 0
    own_mb: list[float] = field(default_factory=list[float])
    own_files: list[int] = field(default_factory=list[int])

    def look_at_runner(self, pid: int) -> None:
        """The runner's peak of resident memory and its open files, at one of its calls."""
        with contextlib.suppress(OSError, StopIteration, ValueError):  # it may just have ended
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            peak = next(line for line in lines if line.startswith("VmHWM"))
            self.runner_mb = max(self.runner_mb, int(peak.split()[1]) / 1024)
            self.runner_files = max(self.runner_files, len(os.listdir(f"/proc/{pid}/fd")))  # noqa: PTH208 - counted only

    def look_at_self(self) -> None:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.own_mb.append(pages * os.sysconf("SC_PAGE_SIZE") / 1024**2)
        self.own_files.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208 - counted only

    def problems(self) -> Iterator[str]:
        """All that is wrong, a sentence each."""
        for pipeline, problem in self.failed.items():
            yield f"{pipeline}: {problem}"
        if self.runner_mb > RUNNER_MB:
            yield f"a runner took {self.runner_mb:.0f} MB, more than {RUNNER_MB:.0f}"
        if self.runner_files > RUNNER_FILES:
            yield f"a runner had {self.runner_files} files open, more than {RUNNER_FILES}"
        if self.own_mb[-1] - self.own_mb[0] > OWN_GROWTH_MB:
            yield f"this process grew from {self.own_mb[0]:.0f} to {self.own_mb[-1]:.0f} MB"
        if self.own_files[-1] - self.own_files[0] > OWN_FILES_GROWTH:
            yield f"this process's open files grew from {self.own_files[0]} to {self.own_files[-1]}"

    def summary(self) -> str:
        return (
            f"seed {self.seed}: ends {dict(self.ends)}; wrong answers {dict(self.faults)}; runners up to "
            f"{self.runner_mb:.0f} MB and {self.runner_files} files; this process {self.own_mb[0]:.0f} -> "
            f"{self.own_mb[-1]:.0f} MB, {self.own_files[0]} -> {self.own_files[-1]} files"
        )


def script(turns: int, *, asks: bool) -> "list[Turn]":
    """Each turn but the last calls a tool; the last one asks, or answers."""
    notes: list[Turn] = [(Use("note", f"call_{number}", {"path": "journal"}),) for number in range(turns - 1)]
    return [*notes, (ASK,) if asks else ("Done.",)]


def scenarios(turns: int) -> tuple[Scenario, Scenario]:
    return (
        Scenario("soak-answer", script(turns, asks=False), "success"),
        Scenario("soak-ask", script(turns, asks=True), "ask_user"),
    )


def soak(seed: int, pipelines: int, turns: int, folder: Path, s3: S3Server) -> Seen:
    """Run all of them, a few at once."""
    seen = Seen(seed)
    kinds = scenarios(turns)
    with World(s3, {one.name: one.script for one in kinds}).running() as world:

        def one(number: int) -> None:
            chance = random.Random(f"{seed} {number}")
            kind, every = chance.choice(("file", "s3")), EVERY[number % len(EVERY)]
            trial = world.trial(folder / f"soak-{number}-{every}-{kind}", chance.choice(kinds), kind, every)
            try:
                last = ill_treat(trial, seed, number, turns, seen)
                seen.ends[settled_as(trial, last)] += 1
            except Exception as error:  # noqa: BLE001 - reported with all others
                seen.failed[trial.pipeline_id] = f"{type(error).__name__}: {error} {ends_of(trial)}"
            world.forget(trial)

        def some(first: int, beyond: int) -> None:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(one, range(first, beyond)))
            seen.look_at_self()

        warm = min(pipelines, max(6, pipelines // 5))
        some(0, warm)
        some(warm, pipelines)
    return seen


def ill_treat(trial: Trial, seed: int, number: int, turns: int, seen: Seen) -> Run:
    """Launch it until it has settled."""
    for attempt in range(1, MOST_ATTEMPTS + 1):
        chance = random.Random(f"{seed} {number} {attempt}")
        signalled = chance.choice((None, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        at = chance.randrange(1, 2 * turns + 12)
        wrong = by_chance(chance.randrange(10**9), WRONG_ANSWERS)
        treated = attempt <= ILL_TREATED

        def plan(call: Call, wrong: Plan = wrong, treated: bool = treated) -> Fault | None:
            fault = wrong(call) if treated else None
            if fault is not None:
                seen.faults[fault] += 1
            return fault

        def at_call(
            call: Call, process: Started, at: int = at, signalled: int | None = signalled, treated: bool = treated
        ) -> None:
            seen.look_at_runner(process.process.pid)
            if treated and signalled is not None and call.number == at:
                process.signal(signalled)

        run, _ = trial.run(attempt, plan, at_call=at_call)
        check_restorable(trial)
        if run.exit not in (*RELAUNCHED, 77):
            return run
    raise AssertionError("it does not settle")


def settled_as(trial: Trial, last: Run) -> str:
    """Hold it to the invariants; how it ended."""
    settlement = last.settlement
    if settlement["kind"] == trial.scenario.kind:
        check_settled(trial, last, may_repeat=MAY_REPEAT[trial.every])
        return settlement["kind"]
    # Cut short by SIGTERM, or by wrong bytes where it was restored: as much as was taken is there, and only once.
    assert last.exit == 0, (last.exit, last.stderr)
    assert settlement["reason"] in ("cancelled", "restore_failed", "checkpoint_failed"), settlement
    terminal = check_committed_once(trial)
    if terminal.checkpoint.decision == "commit":
        check_tools(trial, check_session(trial, terminal), may_repeat=MAY_REPEAT[trial.every])
    check_secrets(trial)
    return settlement["reason"]


def ends_of(trial: Trial) -> str:
    return f"(exits {[run.exit for run in trial.runs]})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--pipelines", type=int, default=500)
    parser.add_argument("--turns", type=int, default=20)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    with scratch() as folder, running_seaweed(folder) as s3:
        seen = soak(options.seed, options.pipelines, options.turns, folder / "pipelines", s3)
    print(f"{options.pipelines} pipelines of {options.turns} turns in {time.monotonic() - began:.0f} s", flush=True)
    print(seen.summary(), flush=True)
    problems = list(seen.problems())
    for problem in problems:
        print(problem, flush=True)
    print("nothing lost, nothing twice" if not problems else f"{len(problems)} problems", flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
