"""When commands are ended because the disk runs out."""

import asyncio
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runner.isolation.disk_watch import DiskWatch, reserve, runs_out
from runner.isolation.launching import Launcher
from runner.isolation.level_none import Unconfined
from runner.isolation.spawner import ConfinedSpawner

MIB = 1024 * 1024


class Disk:
    """Free space, one number for each look; the last one stays."""

    def __init__(self, *free: int) -> None:
        self._free = list(free)

    def free(self, _folder: str) -> int:
        return self._free.pop(0) if len(self._free) > 1 else self._free[0]


@given(st.integers(min_value=0, max_value=2**50))
def test_what_is_free_at_the_start_is_never_scarce(free: int) -> None:
    assert not runs_out(free, free + 1, reserve(free))


def test_a_disk_that_shrinks_below_the_reserve_runs_out() -> None:
    watch = DiskWatch(["/w"], Disk(4000 * MIB, 300 * MIB, 200 * MIB).free)
    assert [watch.look(), watch.look()] == [None, "/w"]


def test_who_makes_room_is_left_alone() -> None:
    watch = DiskWatch(["/w"], Disk(4000 * MIB, 100 * MIB, 150 * MIB).free)
    assert watch.look() == "/w"
    assert watch.look() is None


def test_a_command_that_fills_the_disk_is_ended(tmp_path: Path) -> None:
    disk = Disk(4000 * MIB, 3000 * MIB, 200 * MIB, 199 * MIB)

    async def story() -> str | None:
        spawner = ConfinedSpawner(
            Unconfined(),
            lambda extra: {**os.environ, **extra},
            Launcher(str(tmp_path)),
            disk=DiskWatch(["/w"], disk.free),
        )
        process = await spawner.start(["sleep", "50"], cwd=tmp_path, env={})
        status = await asyncio.wait_for(process.wait(), 20)
        await spawner.close()
        return status.signal

    assert asyncio.run(story()) == "SIGKILL"
