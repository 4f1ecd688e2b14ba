from typing import get_args

import pytest

from settlement.decision import (
    CheckpointFacts,
    Commit,
    KeepPrevious,
    input_consumed,
    resolve_checkpoint_decision,
    undelivered,
)
from settlement.outcome import BeforeRunReason, Interruption, LimitReason, ModelFailureReason, Outcome, Undelivered
from settlement.reasons import FAILURE_RULES, FailureReason
from settlement.settle import AskUser, Failure, Success

APPENDED = CheckpointFacts(appended=True)
NOTHING_NEW = CheckpointFacts(appended=False)
BEFORE_RUN = tuple(reason for reason in get_args(BeforeRunReason) if reason != "setup_failed")
NOT_FROZEN = CheckpointFacts(appended=True, progress_stored=True, frozen=False)
ENDS_OF_A_RUN: tuple[FailureReason, ...] = (
    "empty_answer",
    "output_truncated",
    "cancelled",
    "paused",
    "setup_failed",
    *get_args(LimitReason),
    *get_args(ModelFailureReason),
)


def failed(reason: FailureReason) -> Failure:
    return Failure(reason, "what happened: what to do", retryable=False, resumable=True)


def test_a_question_and_a_success_are_committed() -> None:
    asked = AskUser(Interruption("call-1", "ask_user", "{}"), ())
    assert resolve_checkpoint_decision(asked, APPENDED) == Commit()
    assert resolve_checkpoint_decision(Success("Done."), APPENDED) == Commit()


@pytest.mark.parametrize("reason", ENDS_OF_A_RUN)
def test_a_run_that_ended_or_was_stopped_commits_what_it_has(reason: FailureReason) -> None:
    assert resolve_checkpoint_decision(failed(reason), APPENDED) == Commit()


@pytest.mark.parametrize("reason", ENDS_OF_A_RUN)
def test_a_run_that_appended_nothing_keeps_the_previous_checkpoint(reason: FailureReason) -> None:
    assert resolve_checkpoint_decision(failed(reason), NOTHING_NEW) == KeepPrevious()


@pytest.mark.parametrize("reason", ["persistence_failed", "internal"])
@pytest.mark.parametrize("facts", [APPENDED, NOTHING_NEW])
def test_what_cannot_be_trusted_is_kept_as_a_diagnostic_only(reason: FailureReason, facts: CheckpointFacts) -> None:
    assert resolve_checkpoint_decision(failed(reason), facts) == KeepPrevious(diagnostic=True)


@pytest.mark.parametrize("reason", [*BEFORE_RUN, "checkpoint_failed"])
def test_without_a_progress_what_failed_before_the_run_or_in_the_upload_keeps_the_previous_checkpoint(
    reason: FailureReason,
) -> None:
    assert resolve_checkpoint_decision(failed(reason), APPENDED) == KeepPrevious()


@pytest.mark.parametrize("reason", ["lost", "checkpoint_failed"])
def test_what_was_not_stored_at_its_end_commits_its_stored_progress_if_there_is_some(reason: FailureReason) -> None:
    stored = CheckpointFacts(appended=True, progress_stored=True)
    assert resolve_checkpoint_decision(failed(reason), stored) == Commit("progress")
    assert resolve_checkpoint_decision(failed(reason), APPENDED) == KeepPrevious()


@pytest.mark.parametrize("reason", ENDS_OF_A_RUN)
def test_a_log_that_could_not_be_uploaded_is_replaced_by_the_stored_progress(reason: FailureReason) -> None:
    assert resolve_checkpoint_decision(failed(reason), NOT_FROZEN) == Commit("progress")
    unstored = CheckpointFacts(appended=True, frozen=False)
    assert resolve_checkpoint_decision(failed(reason), unstored) == KeepPrevious()


@pytest.mark.parametrize("reason", [*BEFORE_RUN, "persistence_failed", "internal"])
def test_stored_progress_is_not_committed_for_what_casts_doubt_on_it(reason: FailureReason) -> None:
    assert isinstance(resolve_checkpoint_decision(failed(reason), NOT_FROZEN), KeepPrevious)


def test_every_failure_reason_has_a_rule_and_a_decision() -> None:
    decided = {*ENDS_OF_A_RUN, *BEFORE_RUN, "persistence_failed", "internal", "checkpoint_failed", "lost"}
    assert decided == set(FAILURE_RULES)


def test_the_input_is_consumed_only_if_it_is_in_a_committed_checkpoint() -> None:
    taken, not_taken = Outcome(input_taken=True), Outcome(input_taken=False)
    assert input_consumed(taken, Commit())
    assert not input_consumed(not_taken, Commit())
    assert not input_consumed(taken, KeepPrevious())
    assert not input_consumed(taken, Commit("progress"), in_progress=False)
    assert input_consumed(not_taken, Commit("progress"), in_progress=True)


def test_a_message_that_the_log_took_is_undelivered_unless_that_log_is_committed() -> None:
    taken, waiting = Undelivered("steering", "taken"), Undelivered("follow_up", "waiting")
    outcome = Outcome(steered=(taken,), undelivered=(waiting,))
    assert undelivered(outcome, Commit()) == (waiting,)
    assert undelivered(outcome, Commit("progress")) == (taken, waiting)
    assert undelivered(outcome, KeepPrevious()) == (taken, waiting)
