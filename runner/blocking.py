"""Blocking calls (the object store) off the event loop, each with a bound.

Not `asyncio.to_thread`: its threads are joined at exit, so one hanging call would keep the process alive. These are
daemon threads; a call that outlives its bound is left behind, which is safe because every store write is either
immutable or conditional.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def call_blocking(function: Callable[[], T], *, timeout_s: float) -> T:
    """Run `function` in a thread of its own. Raises TimeoutError after `timeout_s` seconds."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # pyright: ignore[reportArgumentType]

    def work() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - handed to the waiter
            outcome: tuple[T | None, BaseException | None] = (None, error)
        else:
            outcome = (result, None)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=work, daemon=True, name=getattr(function, "__name__", "blocking")).start()
    async with asyncio.timeout(timeout_s):
        return await done


def run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in a loop of its own. Not `asyncio.run`: it waits without a bound for threads, such as one that looks
    up a name.
    """
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
