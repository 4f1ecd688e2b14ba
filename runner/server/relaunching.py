"""A process of ours is gone: what now? Pure; the table of exit codes in docs/launch.md, and what the store shows.

The judged record decides first, then a record that waits in the store, and only then the exit code. Refuses to start
anything for a task that is over, and to try for ever.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from runner.exits import Exit

MEND_THE_LAUNCH = (Exit.USAGE, Exit.REFUSED)
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0


class Gone(Struct, frozen=True):
    """How a process ended. `exit_code` None: it was not our child any more, or a signal killed it without a word."""

    exit_code: int | None
    reason: str | None = None
    """`error.reason` of its last line, if it wrote one."""
    message: str | None = None


class HeadSeen(Struct, frozen=True):
    """The pipeline's head record. `body`: the terminal record's exact text, where there is one."""

    state: Literal["none", "claimed", "terminal", "acknowledged", "rejected"]
    body: str | None = None


class Leave(Struct, frozen=True):
    """Nothing is left to do."""


class TakeRecord(Struct, frozen=True):
    """Judge the stored record as if it had been delivered."""

    body: str


class Relaunch(Struct, frozen=True):
    """Start it again with a higher attempt, after a delay."""

    delay_s: float


class GiveUp(Struct, frozen=True):
    """The task fails; `message` says why to people."""

    reason: str
    message: str


class SettleAsLost(Struct, frozen=True):
    """Nothing is started any more, and the claim still stands: settle it in the store as `lost`, which fences whatever
    may be left of the process, then store `ending` and that record.
    """

    message: str
    ending: Leave | GiveUp


AfterExit: TypeAlias = Leave | TakeRecord | Relaunch | GiveUp | SettleAsLost


def after_exit(gone: Gone, head: HeadSeen, *, judged: bool, over: bool, attempt: int, max_attempts: int) -> AfterExit:
    """`judged`: the server has the pipeline's record; `over`: its task has ended; `attempt`: the highest started."""
    if judged:
        return Leave()
    if head.body is not None and head.state != "rejected":
        return TakeRecord(head.body)
    ending = _ending(gone, head, over=over, attempt=attempt, max_attempts=max_attempts)
    if isinstance(ending, Relaunch) or head.state != "claimed":
        return ending
    message = ending.message if isinstance(ending, GiveUp) else f"its task was over, and it ended with {_ended(gone)}"
    return SettleAsLost(message, ending)


def _ending(gone: Gone, head: HeadSeen, *, over: bool, attempt: int, max_attempts: int) -> Leave | Relaunch | GiveUp:
    if over:
        return Leave()
    if head.state == "rejected" or (gone.exit_code == Exit.FENCED and gone.reason == "rejected"):
        return GiveUp("rejected", "the server refused the pipeline's record before")
    if gone.exit_code in MEND_THE_LAUNCH:
        return GiveUp("launch_refused", gone.message or f"the launch was refused (exit {gone.exit_code})")
    if attempt >= max_attempts:
        return GiveUp("lost", f"attempt {attempt} of {max_attempts} was lost, too: it ended with {_ended(gone)}")
    return Relaunch(min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** (attempt - 1)))


def _ended(gone: Gone) -> str:
    if gone.exit_code is None:
        return "no exit code that could be seen"
    return f"exit {gone.exit_code}" + (f" ({gone.reason})" if gone.reason else "")
