import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from runner.errors import StoppedBeforeCommit
from runner.signals import StopLatch, StopReason

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """What pytest has for these signals comes back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_first_reason_stays_with_its_time() -> None:
    times = iter([5.0, 6.0])
    latch = StopLatch(lambda: next(times))

    latch.request("deadline_exceeded")
    latch.request("cancelled", signal_name="SIGTERM")

    assert (latch.reason, latch.since, latch.signal, latch.urgent) == ("deadline_exceeded", 5.0, "SIGTERM", False)


def test_a_second_signal_is_urgent_and_a_deadline_is_not() -> None:
    latch = StopLatch()
    latch.request("cancelled", signal_name="SIGTERM")
    latch.request("deadline_exceeded")
    assert not latch.urgent
    latch.request("cancelled", signal_name="SIGINT")
    assert latch.urgent


def test_a_caught_signal_sets_the_latch_and_nothing_else() -> None:
    latch = StopLatch()
    latch.install()
    signal.raise_signal(signal.SIGTERM)
    assert (latch.reason, latch.signal) == ("cancelled", "SIGTERM")


def test_while_the_launch_is_read_a_signal_ends_the_reading() -> None:
    latch = StopLatch()
    latch.install()
    reader, writer = os.pipe()
    try:
        with pytest.raises(StoppedBeforeCommit, match="SIGINT"):
            read_under_signal(latch, reader)
    finally:
        os.close(reader)
        os.close(writer)


def read_under_signal(latch: StopLatch, descriptor: int) -> None:
    with latch.interrupting():
        signal.raise_signal(signal.SIGINT)
        os.read(descriptor, 1)  # of a pipe that nobody writes to


def test_a_signal_that_came_before_the_launch_is_read_is_not_lost() -> None:
    latch = StopLatch()
    latch.install()
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(StoppedBeforeCommit), latch.interrupting():
        pytest.fail("nothing is read any more")


def test_once_the_launch_is_read_a_signal_raises_nothing() -> None:
    latch = StopLatch()
    latch.install()
    with latch.interrupting():
        pass
    signal.raise_signal(signal.SIGTERM)
    assert latch.reason == "cancelled"


def test_a_released_latch_gives_the_signals_back_to_the_system() -> None:
    latch = StopLatch()
    latch.install()
    latch.release()
    assert signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGINT) is signal.SIG_DFL


async def test_a_signal_wakes_everybody_who_waits_in_the_loop() -> None:
    loop, latch = asyncio.get_running_loop(), StopLatch()
    latch.join_loop(loop)
    try:
        waiting = asyncio.gather(latch.wait(), latch.wait_abort())
        urgent = asyncio.ensure_future(latch.wait_urgent())
        await asyncio.sleep(0)

        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(waiting, 10)
        assert not urgent.done()

        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(urgent, 10)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def test_a_pause_stops_without_an_abort() -> None:
    latch = StopLatch()
    latch.request("paused")
    await asyncio.wait_for(latch.wait(), 10)
    abort = asyncio.ensure_future(latch.wait_abort())
    await asyncio.sleep(0)
    assert not abort.done()
    abort.cancel()


def test_whatever_else_is_asked_for_takes_the_place_of_a_pause_whose_grace_never_ran() -> None:
    latch = StopLatch(lambda: 5.0)
    latch.request("paused")
    assert (latch.reason, latch.since) == ("paused", None)

    latch.request("cancelled", signal_name="SIGTERM")
    latch.request("paused")

    assert (latch.reason, latch.since, latch.signal, latch.urgent) == ("cancelled", 5.0, "SIGTERM", False)


async def test_a_request_of_another_thread_wakes_the_loop() -> None:
    loop, latch = asyncio.get_running_loop(), StopLatch()
    latch.join_loop(loop)
    try:
        waiting = asyncio.ensure_future(latch.wait_abort())
        await asyncio.sleep(0)
        asking = threading.Thread(target=latch.request, args=("cancelled",))
        asking.start()
        await asyncio.wait_for(waiting, 10)
        asking.join(10)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def test_of_many_threads_that_ask_at_once_one_is_the_first() -> None:
    asked, latch = threading.Barrier(8), StopLatch(lambda: float(threading.get_ident()))
    seen: list[tuple[str | None, float | None]] = []

    def ask(reason: StopReason) -> None:
        asked.wait(10)
        latch.request(reason)
        seen.append((latch.reason, latch.since))

    reasons: list[StopReason] = ["cancelled", "deadline_exceeded"]
    threads = [threading.Thread(target=ask, args=(reasons[number % 2],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(seen) == 8
    assert len(set(seen)) == 1
