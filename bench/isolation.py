"""What confining costs: starting `bash -c true` confined against unconfined, the start-up attack, and memory.

The first is the time over the unconfined start against the 25 ms that it may take, at each level that this machine can
do. The last is what the process grows by while the tool `bash` reads 100 MB of output, against 50 MB.
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
from runner.isolation.confinement import LEVELS, Level
from runner.isolation.establish import Isolation, build_spawner
from runner.isolation.settings import IsolationSettings
from runner.tools.bash import bash_tool
from runner.tools.folders import ToolFolders

RUNS = 21
MORE_MS = 25.0
"""What a confined start may take over an unconfined one."""
ATTACK_MS = 150.0
OUTPUT_BYTES = 100 * 1024 * 1024
GROWTH_MB = 50.0


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
    growth = asyncio.run(_growth(_build(base, LEVELS), base))
    yield Figure("memory_while_reading_100_mb", growth, GROWTH_MB, "MB", 1.0, 1)


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


async def _growth(isolation: Isolation, base: Path) -> float:
    """Megabytes between the resident size before and its peak during the call."""
    bash = bash_tool(isolation.spawner, ToolFolders(base / "workspace", Path(isolation.grounds.scratch.outputs)))
    command = f"yes 'a line of output, as programs write them' | head -c {OUTPUT_BYTES}"
    await bash.execute("warm", {"command": "true"}, None, lambda _update: None)
    _forget_peak()
    before = _status_kb("VmRSS")
    result = await bash.execute("read", {"command": command}, None, lambda _update: None)
    growth = (_status_kb("VmHWM") - before) / 1024
    await isolation.spawner.close()
    isolation.remove()
    if result["details"]["totalBytes"] != OUTPUT_BYTES:
        raise BenchFailed(f"the output was cut: {result['details']}")
    return growth


def _forget_peak() -> None:
    """From here on the peak of the resident size is counted anew (proc(5), clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5")


def _status_kb(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1])
