"""The task states: the table is all there is."""

from itertools import product
from typing import get_args

import pytest

from settlement.commit_rule import Commit, Owed, Pipeline, Refuse, Reply
from settlement.receiving import Problem
from settlement.tasks import OVER, TRANSITIONS, Task, TaskEvent, TaskState, after_terminal, cancel, expire, step
from tests.unit.settlement.samples import ASK_USER, FAILURE, SUCCESS, a_terminal, asked

PIPELINE = Pipeline("p1", "s1")
REPLY = Reply("r1", asked("call-1")[0].question_id, "staging")
EVENTS = get_args(TaskEvent)


def task(state: TaskState, deadline_s: float | None = None) -> Task:
    return Task("t1", "s1", state, deadline_s=deadline_s)


@pytest.mark.parametrize(("state", "event"), list(product(TaskState, EVENTS)))
def test_a_step_is_in_the_table_or_is_not_taken(state: TaskState, event: TaskEvent):
    after = step(task(state), event)
    if (state, event) in TRANSITIONS:
        assert after is not None
        assert after.state is TRANSITIONS[state, event]
    else:
        assert after is None


def test_the_table_is_the_diagram():
    ways = {(before.value, after.value) for (before, _), after in TRANSITIONS.items()}
    assert ways == {
        ("QUEUED", "RUNNING"),
        ("QUEUED", "FAILED"),
        ("QUEUED", "CANCELLED"),
        ("RUNNING", "WAITING_INPUT"),
        ("RUNNING", "SUCCEEDED"),
        ("RUNNING", "FAILED"),
        ("RUNNING", "CANCELLED"),
        ("WAITING_INPUT", "RUNNING"),
        ("WAITING_INPUT", "FAILED"),
        ("WAITING_INPUT", "CANCELLED"),
    }


@pytest.mark.parametrize("state", sorted(OVER))
def test_a_task_that_is_over_is_never_revived(state: TaskState):
    assert all(step(task(state), event) is None for event in EVENTS)
    assert cancel(task(state)) is None


@pytest.mark.parametrize("state", [TaskState.QUEUED, TaskState.RUNNING, TaskState.WAITING_INPUT])
def test_cancelling_works_while_queued_running_and_waiting(state: TaskState):
    cancelled = cancel(task(state, 50.0))
    assert cancelled is not None
    assert (cancelled.state, cancelled.deadline_s) == (TaskState.CANCELLED, None)


def test_waiting_ends_at_its_deadline_as_a_reply_timeout():
    waiting = task(TaskState.WAITING_INPUT, 50.0)
    assert expire(waiting, 49.9) is None
    ended = expire(waiting, 50.0)
    assert ended is not None
    assert (ended.state, ended.reason) == (TaskState.FAILED, "reply_timeout")


def test_without_a_deadline_a_task_waits_for_ever():
    assert expire(task(TaskState.WAITING_INPUT), 1e12) is None


def test_success_and_failure_end_the_task():
    running = task(TaskState.RUNNING)
    commit = Commit(PIPELINE, None, Owed())
    (done,) = after_terminal(running, a_terminal(settlement=SUCCESS), commit)
    (failed,) = after_terminal(running, a_terminal(settlement=FAILURE), commit)
    assert (done.state, failed.state, failed.reason) == (TaskState.SUCCEEDED, TaskState.FAILED, "turn_limit")


def test_a_question_makes_it_wait_until_the_deadline():
    terminal = a_terminal(settlement=ASK_USER, questions=asked("call-1"))
    (waiting,) = after_terminal(
        task(TaskState.RUNNING), terminal, Commit(PIPELINE, None, Owed(wait_for=("ask_1",))), deadline_s=9.0
    )
    assert (waiting.state, waiting.deadline_s) == (TaskState.WAITING_INPUT, 9.0)


def test_a_kept_reply_takes_it_through_waiting_to_running():
    terminal = a_terminal(settlement=ASK_USER, questions=asked("call-1"))
    path = after_terminal(task(TaskState.RUNNING), terminal, Commit(PIPELINE, None, Owed(launch=REPLY)), deadline_s=9.0)
    assert [state.state for state in path] == [TaskState.WAITING_INPUT, TaskState.RUNNING]
    assert path[-1].deadline_s is None


def test_a_refused_checkpoint_fails_the_task():
    refused = Refuse(PIPELINE, Problem("not-the-restore-point", "moved on"), Owed())
    (failed,) = after_terminal(task(TaskState.RUNNING), a_terminal(), refused)
    assert (failed.state, failed.reason) == (TaskState.FAILED, "checkpoint_refused")


def test_a_record_that_comes_after_the_cancel_changes_no_task():
    terminal = a_terminal(settlement=ASK_USER, questions=asked("call-1"))
    assert after_terminal(task(TaskState.CANCELLED), terminal, Commit(PIPELINE, None, Owed(launch=REPLY))) == ()
