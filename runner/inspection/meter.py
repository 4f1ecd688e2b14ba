"""Shows how far a long download or replay has come, on a terminal and nowhere else.

Needs `rich` (extra `progress`); without it, or where standard error is no terminal, nothing is shown and nothing of it
is imported.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal, Protocol, TextIO

Unit = Literal["bytes", "turns"]


class Meter(Protocol):
    """Never fails the work it reports on."""

    def begin(self, what: str, total: int | None, unit: Unit = "bytes") -> None:
        """A new piece of work, of `total` units where that is known."""
        ...

    def advance(self, amount: int) -> None:
        """So much more of the present piece of work is done."""
        ...


class NoMeter:
    def begin(self, what: str, total: int | None, unit: Unit = "bytes") -> None:
        pass

    def advance(self, amount: int) -> None:
        pass


@contextmanager
def shown_meter(stream: TextIO | None = None) -> Generator[Meter]:
    """A meter on `stream` (default: standard error) that is gone when the block ends."""
    where = stream if stream is not None else sys.stderr
    if not where.isatty() or find_spec("rich") is None:
        yield NoMeter()
        return
    from runner.inspection.rich_meter import rich_meter

    with rich_meter(where) as meter:
        yield meter
