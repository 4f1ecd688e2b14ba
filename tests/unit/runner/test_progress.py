"""The recorder: one save at a time, of the newest snapshot, and nothing that goes wrong reaches the run."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from checkpoint.errors import StoreError, StoreReason
from checkpoint.head import Fenced, Head, HeadFields, Updated
from checkpoint.head_writer import WriteResult
from checkpoint.progress import Snapshot
from runner.progress import ProgressRecorder, Trouble

pytestmark = pytest.mark.anyio


def snapshot(size: int) -> Snapshot:
    return Snapshot(size=size, entries=size, leaf_id=None, usage={}, input_consumed=True)


UPDATED = Updated(
    Head(
        HeadFields(
            version=1,
            pipeline_id="p1",
            session_id="s1",
            attempt=1,
            claim_id="c1",
            revision=1,
            state="claimed",
            claimed_at="2026-01-01T00:00:00.000Z",
            deadline_s=10.0,
            grace_s=1.0,
            callback_url=None,
            restore=None,
            progress=None,
            terminal=None,
        ),
        {},
    )
)


class Saved:
    """`Saving` that keeps what it is given. `hold` makes it wait in `store`; `faults` are raised or given in turn."""

    def __init__(self, *faults: Exception | WriteResult | None) -> None:
        self.stored: list[int] = []
        self.pointed: list[int] = []
        self.faults = list(faults)
        self.hold = False
        self.release = threading.Event()
        self.in_store = threading.Event()

    def store(self, snapshot: Snapshot, *, merge: bool) -> None:
        del merge
        self.in_store.set()
        if self.hold:
            assert self.release.wait(10)
        self.stored.append(snapshot.size)

    def point(self, snapshot: Snapshot) -> WriteResult:
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        self.pointed.append(snapshot.size)
        return fault or UPDATED


class Heard:
    def __init__(self) -> None:
        self.troubles: list[Trouble] = []
        self.lost: list[WriteResult] = []
        self.came = asyncio.Event()

    def trouble(self, trouble: Trouble) -> None:
        self.troubles.append(trouble)
        self.came.set()

    def loss(self, result: WriteResult) -> None:
        self.lost.append(result)
        self.came.set()


def recorder(saved: Saved, heard: Heard | None = None) -> ProgressRecorder:
    heard = heard or Heard()
    return ProgressRecorder(
        saved, on_trouble=heard.trouble, on_lost=heard.loss, may_merge=lambda: True, sleep=lambda _s: asyncio.sleep(0)
    )


def down(reason: StoreReason = "unreachable") -> StoreError:
    return StoreError(reason, "The store is down.")


async def until(condition: Callable[[], bool]) -> None:
    """It is a thread's doing, so that nothing in this loop tells."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come to that")


async def test_who_waits_for_a_snapshot_gets_on_once_the_head_points_to_it() -> None:
    saved = Saved()
    assert await recorder(saved).recorded(snapshot(3)) is None
    assert saved.pointed == [3]


async def test_behind_a_slow_save_only_the_newest_snapshot_is_kept() -> None:
    saved = Saved()
    saved.hold = True
    under_test = recorder(saved)
    under_test.offer(snapshot(1))
    await asyncio.to_thread(saved.in_store.wait, 10)
    for size in (2, 3, 4):
        under_test.offer(snapshot(size))
    saved.release.set()
    await until(lambda: saved.pointed == [1, 4])


async def test_a_wait_tries_again_where_that_may_help() -> None:
    saved, heard = Saved(down(), down()), Heard()
    assert await recorder(saved, heard).recorded(snapshot(3)) is None
    assert saved.pointed == [3]
    assert [trouble.kind for trouble in heard.troubles] == ["unreachable"], "each kind is reported once"


async def test_a_wait_gives_up_where_a_person_has_to_help() -> None:
    trouble = await recorder(Saved(down("denied"))).recorded(snapshot(3))
    assert trouble is not None
    assert trouble.kind == "denied"


@pytest.mark.parametrize("fault", [down(), OSError("gone"), ZeroDivisionError("a defect")])
async def test_whatever_a_save_raises_is_reported_and_the_next_one_is_made(fault: Exception) -> None:
    saved, heard = Saved(fault), Heard()
    under_test = recorder(saved, heard)
    under_test.offer(snapshot(1))
    await asyncio.wait_for(heard.came.wait(), 10)
    under_test.offer(snapshot(2))
    await until(lambda: saved.pointed == [2])
    assert len(heard.troubles) == 1


async def test_a_lost_head_is_told_once_and_nothing_is_saved_any_more() -> None:
    saved, heard = Saved(Fenced(None)), Heard()
    under_test = recorder(saved, heard)
    under_test.offer(snapshot(1))
    await asyncio.wait_for(heard.came.wait(), 10)
    under_test.offer(snapshot(2))
    trouble = await under_test.recorded(snapshot(3))

    assert heard.lost == [Fenced(None)]
    assert trouble is not None
    assert trouble.kind == "lost"
    assert saved.stored == [1]


async def test_closing_waits_for_the_last_lines_and_not_for_the_head() -> None:
    saved = Saved()
    saved.hold = True
    under_test = recorder(saved)
    under_test.offer(snapshot(5))
    await asyncio.to_thread(saved.in_store.wait, 10)
    closing = asyncio.ensure_future(under_test.close(5, 10.0))
    await asyncio.sleep(0)
    assert not closing.done()
    saved.release.set()
    await asyncio.wait_for(closing, 10)
    assert saved.stored == [5]


async def test_closing_waits_neither_beyond_its_bound_nor_for_what_does_not_reach_to_the_end() -> None:
    saved = Saved()
    saved.hold = True
    under_test = recorder(saved)
    under_test.offer(snapshot(5))
    await asyncio.to_thread(saved.in_store.wait, 10)
    under_test.offer(snapshot(6))
    await asyncio.wait_for(under_test.close(6, 10.0), 5)
    await asyncio.wait_for(under_test.close(5, 0.01), 5)
    under_test.offer(snapshot(7))
    saved.release.set()
    await until(lambda: saved.pointed == [5])


async def test_what_is_offered_right_before_the_end_is_still_saved() -> None:
    saved: Any = Saved()
    under_test = recorder(saved)
    under_test.offer(snapshot(5))
    await under_test.close(5, 10.0)
    await until(lambda: saved.pointed == [5])
