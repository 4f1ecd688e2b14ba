import asyncio
import threading

import pytest

from runner.blocking import call_blocking
from runner.signals import StopLatch
from runner.timebox import Timebox

pytestmark = pytest.mark.anyio


class Clock:
    """Monotonic time that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stop(clock: Clock) -> StopLatch:
    return StopLatch(clock)


async def never() -> None:
    await asyncio.Event().wait()


async def test_without_a_stop_a_step_has_its_own_bound(stop: StopLatch, clock: Clock) -> None:
    assert Timebox(stop, 25.0, clock).remaining("upload", 1800.0) == 1800.0


async def test_after_a_stop_a_step_has_the_smaller_of_its_bound_and_its_share(stop: StopLatch, clock: Clock) -> None:
    timebox = Timebox(stop, 10.0, clock)
    stop.request("cancelled")
    clock.now += 1.0

    assert timebox.remaining("agent", 60.0) == pytest.approx(1.0)
    assert timebox.remaining("agent", 0.5) == 0.5
    assert timebox.remaining("callback", 60.0) == pytest.approx(9.0)
    clock.now += 100.0
    assert timebox.remaining("callback", 60.0) == 0.0


async def test_a_result_and_an_exception_come_through(stop: StopLatch) -> None:
    timebox = Timebox(stop, 10.0)

    def fail() -> None:
        raise LookupError("found nothing")

    assert await timebox.blocking("upload", 10.0, lambda: 7) == 7
    with pytest.raises(LookupError, match="found nothing"):
        await timebox.blocking("upload", 10.0, fail)


async def test_work_over_its_bound_is_cancelled(stop: StopLatch) -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await never()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError, match="upload"):
        await Timebox(stop, 10.0).within("upload", 0.01, work())
    assert cancelled.is_set()


async def test_a_stop_shortens_the_phase_that_is_under_way(stop: StopLatch, clock: Clock) -> None:
    timebox = Timebox(stop, 10.0, clock)
    waiting = asyncio.ensure_future(timebox.within("agent", 1e6, never()))
    await asyncio.sleep(0)

    stop.request("cancelled")
    clock.now += 2.0  # the agent's share, used up

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting, 10)


async def test_a_pause_shortens_nothing_and_a_stop_that_comes_after_it_does(stop: StopLatch, clock: Clock) -> None:
    timebox = Timebox(stop, 10.0, clock)
    stop.request("paused")
    waiting = asyncio.ensure_future(timebox.within("agent", 1e6, never()))
    await asyncio.sleep(0)
    clock.now += 1000.0
    assert timebox.remaining("agent", 60.0) == 60.0

    stop.request("cancelled")
    clock.now += 2.0

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting, 10)


async def test_work_that_has_ended_counts_although_the_time_is_up(stop: StopLatch, clock: Clock) -> None:
    async def last_moment() -> int:
        clock.now += 100.0
        return 1

    stop.request("cancelled")
    assert await Timebox(stop, 10.0, clock).within("agent", 60.0, last_moment()) == 1


async def test_a_blocking_call_that_hangs_is_left_behind() -> None:
    release = threading.Event()
    try:
        with pytest.raises(TimeoutError):
            await call_blocking(lambda: release.wait(10), timeout_s=0.01)
    finally:
        release.set()


async def test_a_blocking_call_runs_on_a_thread_that_does_not_keep_the_process_alive() -> None:
    assert await call_blocking(lambda: threading.current_thread().daemon, timeout_s=10.0)
