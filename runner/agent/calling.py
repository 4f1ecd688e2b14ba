"""How the loop calls code that is not its own (hooks, tools, the stream function) and words its failures."""

import inspect
from collections.abc import Awaitable
from typing import TypeVar, cast

from checkpoint.text import clean_text

T = TypeVar("T")


async def resolved(value: Awaitable[T] | T) -> T:
    """The value itself, or what it gives when awaited: hooks may be plain or async functions."""
    if inspect.isawaitable(value):
        return await value
    return cast("T", value)


def error_text(error: BaseException) -> str:
    """What the model or the session is told of an exception.

    Its own text, cleaned (it may quote a file name or a process's output). An exception raised without any
    (`TimeoutError()`) is named, since an empty text helps nobody; one raised with an empty text keeps it
    (corpus: streamfn-throws-empty-message).
    """
    return clean_text(str(error)) or ("" if error.args else type(error).__name__)
