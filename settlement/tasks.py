"""What a person sees of the work they asked for: one task, its states, and every way from one to the next.

A task runs over any number of pipelines: each question that is answered starts a new one. Pure: the server reads the
task, decides here, and stores in the same transaction. Refuses every change that is not in the table, so that a task
that is over stays over, whatever arrives late.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from settlement.callback import AskUserSettlement, FailureSettlement, SuccessSettlement, Terminal
from settlement.commit_rule import Commit, Refuse


class TaskState(StrEnum):
    QUEUED = "QUEUED"
    """Stored; its first pipeline has not been started."""
    RUNNING = "RUNNING"
    """A pipeline works on it, or is about to."""
    WAITING_INPUT = "WAITING_INPUT"
    """A committed `ask_user`: nothing runs, no slot is taken, until a person answers."""
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


TaskEvent: TypeAlias = Literal["launched", "asked", "replied", "succeeded", "failed", "timed_out", "cancelled"]

TRANSITIONS: Final[Mapping[tuple[TaskState, TaskEvent], TaskState]] = MappingProxyType(
    {
        (TaskState.QUEUED, "launched"): TaskState.RUNNING,
        (TaskState.QUEUED, "failed"): TaskState.FAILED,
        (TaskState.QUEUED, "cancelled"): TaskState.CANCELLED,
        (TaskState.RUNNING, "asked"): TaskState.WAITING_INPUT,
        (TaskState.RUNNING, "succeeded"): TaskState.SUCCEEDED,
        (TaskState.RUNNING, "failed"): TaskState.FAILED,
        (TaskState.RUNNING, "cancelled"): TaskState.CANCELLED,
        (TaskState.WAITING_INPUT, "replied"): TaskState.RUNNING,
        (TaskState.WAITING_INPUT, "timed_out"): TaskState.FAILED,
        (TaskState.WAITING_INPUT, "cancelled"): TaskState.CANCELLED,
    }
)
"""Every transition there is. A pair that is missing changes nothing."""

OVER: Final = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED})
REPLY_TIMEOUT = "reply_timeout"
REFUSED_CHECKPOINT = "checkpoint_refused"


@dataclass(frozen=True, slots=True)
class Task:
    task_id: str
    session_id: str
    state: TaskState = TaskState.QUEUED
    reason: str | None = None
    """Why it failed: the settlement's reason, `reply_timeout`, or the server's own."""
    deadline_s: float | None = None
    """When waiting ends by itself (Unix seconds); None: never, and always while it does not wait."""

    @property
    def over(self) -> bool:
        return self.state in OVER


def step(task: Task, event: TaskEvent, *, reason: str | None = None, deadline_s: float | None = None) -> Task | None:
    """The task after an event, or None if the table has no such step. `deadline_s` goes with `asked` only."""
    state = TRANSITIONS.get((task.state, event))
    if state is None:
        return None
    return replace(task, state=state, reason=reason, deadline_s=deadline_s if event == "asked" else None)


def cancel(task: Task) -> Task | None:
    """Works while it is queued, runs or waits; None if it is over already."""
    return step(task, "cancelled")


def expire(task: Task, now_s: float) -> Task | None:
    """The task after its deadline for a reply, or None if it does not wait or may go on waiting."""
    if task.deadline_s is None or now_s < task.deadline_s:
        return None
    return step(task, "timed_out", reason=REPLY_TIMEOUT)


def after_terminal(
    task: Task, terminal: Terminal, decision: Commit | Refuse, *, deadline_s: float | None = None
) -> tuple[Task, ...]:
    """The states the task passes through once a terminal record is judged, in order; none if it is over.

    A kept reply makes two steps of an `ask_user`: the session waited, and was answered at once. A failure that the
    server did not take, or that names no way on, ends the task; a person may then ask again in the same session.
    """
    if isinstance(decision, Refuse):
        return _path(step(task, "failed", reason=REFUSED_CHECKPOINT))
    match terminal.settlement:
        case SuccessSettlement():
            return _path(step(task, "succeeded"))
        case FailureSettlement(reason=reason):
            return _path(step(task, "failed", reason=reason))
        case AskUserSettlement():
            waiting = step(task, "asked", deadline_s=deadline_s)
            if waiting is None or decision.owed.launch is None:
                return _path(waiting)
            return _path(waiting, step(waiting, "replied"))


def _path(*tasks: Task | None) -> tuple[Task, ...]:
    return tuple(task for task in tasks if task is not None)
