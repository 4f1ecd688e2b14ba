"""What is to be done about one head that somebody finds: pure.

A claim counts as dead when the store's own clock says that it was written longer ago than the pipeline's deadline and
grace together: a process ends itself at its deadline, so by then it has ended, or sleeps and will be fenced. Each
progress is a write, so who is seen at work is never taken for dead. Refuses to know any other clock.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from checkpoint.head import HeadFields


class NothingToDo(Struct, frozen=True):
    """Settled, and nobody waits to be told."""


class StillRunning(Struct, frozen=True):
    """Maybe: it is too young to be taken for dead."""

    for_s: float
    """Seconds after which it would be, if nothing is written."""


class IsDead(Struct, frozen=True):
    silent_s: float


class IsUntold(Struct, frozen=True):
    """The terminal record waits to be delivered to `url`."""

    url: str


Finding: TypeAlias = NothingToDo | StillRunning | IsDead | IsUntold


def what_is_due(head: HeadFields, silent_s: float) -> Finding:
    """`silent_s`: seconds since the head was written, by the store's clock; may be negative."""
    if head.state == "claimed":
        allowed_s = head.deadline_s + head.grace_s
        return IsDead(silent_s) if silent_s > allowed_s else StillRunning(allowed_s - silent_s)
    if head.state == "terminal" and head.callback_url is not None:
        return IsUntold(head.callback_url)
    return NothingToDo()


Result: TypeAlias = Literal[
    "settled", "running", "delivered", "rejected", "unacknowledged", "damaged", "failed", "defect", "due"
]


def exit_code(results: "set[Result]") -> int:
    """What is worst decides: a defect 70, a store that failed 75, a damaged head 78, a record not acknowledged 77."""
    order: tuple[tuple[Result, int], ...] = (("defect", 70), ("failed", 75), ("damaged", 78), ("unacknowledged", 77))
    return next((code for result, code in order if result in results), 0)
