"""What becomes of a process that is gone, row by row."""

import pytest

from runner.server.relaunching import (
    AfterExit,
    GiveUp,
    Gone,
    HeadSeen,
    Leave,
    Relaunch,
    SettleAsLost,
    TakeRecord,
    after_exit,
)

CLAIMED = HeadSeen("claimed")


def after(
    gone: Gone,
    head: HeadSeen = CLAIMED,
    *,
    judged: bool = False,
    over: bool = False,
    attempt: int = 1,
) -> AfterExit:
    return after_exit(gone, head, judged=judged, over=over, attempt=attempt, max_attempts=3)


@pytest.mark.parametrize("exit_code", [0, 64, 70, 75, 76, 77, 78, 143, -9, None])
def test_a_judged_record_leaves_nothing_to_do(exit_code: int | None) -> None:
    assert after(Gone(exit_code), HeadSeen("acknowledged", "{}"), judged=True) == Leave()


@pytest.mark.parametrize("exit_code", [0, 70, 77, 143, -9, None])
@pytest.mark.parametrize("state", ["terminal", "acknowledged"])
@pytest.mark.parametrize("over", [True, False])
def test_a_record_that_waits_in_the_store_is_taken(exit_code: int | None, state: str, over: bool) -> None:
    head = HeadSeen("terminal" if state == "terminal" else "acknowledged", "{}")
    assert after(Gone(exit_code), head, over=over) == TakeRecord("{}")


@pytest.mark.parametrize("exit_code", [0, 70, 75, 76, 77, 143, 137, -9, None])
@pytest.mark.parametrize("head", [HeadSeen("none"), CLAIMED])
def test_without_a_record_it_is_launched_again(exit_code: int | None, head: HeadSeen) -> None:
    assert after(Gone(exit_code), head) == Relaunch(0.5)
    assert after(Gone(exit_code), head, attempt=2) == Relaunch(1.0)


@pytest.mark.parametrize("exit_code", [70, 75, 143, None])
def test_used_up_attempts_make_it_lost(exit_code: int | None) -> None:
    unclaimed = after(Gone(exit_code), HeadSeen("none"), attempt=3)
    assert isinstance(unclaimed, GiveUp)
    assert unclaimed.reason == "lost"
    assert after(Gone(exit_code), attempt=3) == SettleAsLost(unclaimed.message, unclaimed)


@pytest.mark.parametrize("exit_code", [64, 78])
def test_a_launch_that_was_refused_is_not_tried_again(exit_code: int) -> None:
    refused = GiveUp("launch_refused", "mend it")
    assert after(Gone(exit_code, "launch_refused", "mend it"), HeadSeen("none")) == refused
    assert after(Gone(exit_code, "launch_refused", "mend it"), attempt=2) == SettleAsLost("mend it", refused)


def test_what_the_server_refused_is_not_tried_again() -> None:
    for found in (after(Gone(76, "rejected"), HeadSeen("none")), after(Gone(None), HeadSeen("rejected", "{}"))):
        assert isinstance(found, GiveUp)
        assert found.reason == "rejected"


def test_a_fenced_process_is_launched_again_above_the_other() -> None:
    assert after(Gone(76, "fenced")) == Relaunch(0.5)


@pytest.mark.parametrize("exit_code", [0, 64, 70, 75, 76, 78, 143, -9, None])
def test_nothing_is_started_for_a_task_that_is_over(exit_code: int | None) -> None:
    assert after(Gone(exit_code), HeadSeen("none"), over=True) == Leave()


def test_a_claim_that_is_left_of_a_task_that_is_over_is_settled() -> None:
    found = after(Gone(143), over=True)
    assert found == SettleAsLost("its task was over, and it ended with exit 143", Leave())
