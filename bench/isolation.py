"""What confining costs: starting `bash -c true` confined against unconfined, and the start-up attack.

The first is the time over the unconfined start against the 25 ms that it may take. Uses the strongest level that this
machine can do, which the name of the figure says.
"""

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import BenchFailed, Figure
from runner.errors import Refused
from runner.isolation.confinement import Level
from runner.isolation.establish import Isolation, build_spawner
from runner.isolation.settings import IsolationSettings

RUNS = 21
MORE_MS = 25.0
"""What a confined start may take over an unconfined one."""
ATTACK_MS = 150.0


def figures() -> Iterator[Figure]:
    base = Path(tempfile.mkdtemp(prefix="bench-isolation-"))
    try:
        yield from _figures(base)
    except Refused as error:
        raise BenchFailed(error.message) from error
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _figures(base: Path) -> Iterator[Figure]:
    (base / "workspace").mkdir()
    attacks: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        confined = _build(base, ("namespace", "landlock", "process", "none"))
        attacks.append((time.perf_counter() - began) * 1000)
        confined.discard()
    levels: tuple[Level, ...] = ("namespace", "landlock", "process")
    for level in levels:
        confined, unconfined = _build(base, (level, "none")), _build(base, ("none",))
        ours, reference = asyncio.run(_measure(confined, unconfined, base / "workspace"))
        if confined.verdict.claimed == level:  # else this machine cannot do it
            yield Figure(f"confined_start_over_unconfined_{level}", ours - reference, MORE_MS, "ms", 1.0, RUNS)
    yield Figure("isolation_self_test", statistics.median(attacks), ATTACK_MS, "ms", 1.0, len(attacks))


def _build(base: Path, levels: tuple[Level, ...]) -> Isolation:
    return build_spawner(IsolationSettings(base / "workspace", (), {}), os.environ, levels=levels)


async def _measure(confined: Isolation, unconfined: Isolation, workspace: Path) -> tuple[float, float]:
    """Medians in milliseconds, from the call to the end of the leader, by turns."""
    ours: list[float] = []
    reference: list[float] = []
    for _ in range(RUNS + 1):
        ours.append(await _start(confined, workspace))
        reference.append(await _start(unconfined, workspace))
    for isolation in (confined, unconfined):
        await isolation.spawner.close()
        isolation.remove()
    return statistics.median(ours[1:]), statistics.median(reference[1:])


async def _start(isolation: Isolation, workspace: Path) -> float:
    began = time.perf_counter()
    process = await isolation.spawner.start(["bash", "-c", "true"], cwd=workspace, env={})
    await process.wait()
    took = (time.perf_counter() - began) * 1000
    await process.stdout.read()
    await process.end()
    return took
