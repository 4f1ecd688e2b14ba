"""The meter as a bar of `rich`. Imported only where one is shown."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from runner.inspection.meter import Meter, Unit
from runner.inspection.visible_text import visible_line


class _RichMeter:
    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: TaskID | None = None
        self._unit: Unit = "bytes"

    def begin(self, what: str, total: int | None, unit: Unit = "bytes") -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._unit = unit
        self._task = self._bars.add_task(escape(visible_line(what)), total=total, done=_amount(0, total, unit))

    def advance(self, amount: int) -> None:
        if self._task is None:
            return
        self._bars.advance(self._task, amount)
        task = next(task for task in self._bars.tasks if task.id == self._task)
        total = None if task.total is None else int(task.total)
        self._bars.update(self._task, done=_amount(int(task.completed), total, self._unit))


def _amount(done: int, total: int | None, unit: Unit) -> str:
    if unit == "turns":
        return f"turn {done:,}" if total is None else f"turn {done:,} of {total:,}"
    whole = "" if total is None else f" of {total / 1e6:,.1f}"
    return f"{done / 1e6:,.1f}{whole} MB"


@contextmanager
def rich_meter(stream: TextIO) -> Generator[Meter]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bars:
        yield _RichMeter(bars)
