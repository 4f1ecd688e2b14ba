"""Waiting for something unless the run is aborted meanwhile."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from runner.agent.abort import AbortSignal
from runner.tools.errors import ToolFailed

T = TypeVar("T")

END_S = 2.0
"""How long cancelled work may take to clean up before it is left behind."""


async def unless_aborted(work: Coroutine[Any, Any, T], signal: AbortSignal | None, what: str) -> T:
    """The result of `work`. At an abort it is cancelled, and `ToolFailed` is raised once it has ended.

    `what` is the subject of the sentence: "The command", "The tool x".
    """
    if signal is None:
        return await work
    if signal.aborted:
        work.close()
        raise aborted(what)
    task = asyncio.ensure_future(work)
    remove = signal.on_abort(lambda: _cancel(task))
    try:
        # Waited for, not awaited: a cancellation that is not ours must be told from our own.
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task}, timeout=END_S)
        raise
    finally:
        remove()
    if task.cancelled():
        raise aborted(what)
    return task.result()


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


def aborted(what: str) -> ToolFailed:
    return ToolFailed("aborted", f"{what} was aborted")
