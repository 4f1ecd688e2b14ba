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
BEFORE_RUN: tuple[BeforeRunReason, ...] = get_args(BeforeRunReason)
ENDS_OF_A_RUN: tuple[FailureReason, ...] = (
    "empty_answer",
    "output_truncated",
    "cancelled",
    "paused",
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
def test_what_failed_before_the_run_or_in_the_upload_keeps_the_previous_checkpoint(reason: FailureReason) -> None:
    assert resolve_checkpoint_decision(failed(reason), APPENDED) == KeepPrevious()


def test_a_lost_pipeline_commits_its_stored_progress_if_there_is_some() -> None:
    stored = CheckpointFacts(appended=True, progress_stored=True)
    assert resolve_checkpoint_decision(failed("lost"), stored) == Commit("progress")
    assert resolve_checkpoint_decision(failed("lost"), APPENDED) == KeepPrevious()


def test_every_failure_reason_has_a_rule_and_a_decision() -> None:
    decided = {*ENDS_OF_A_RUN, *BEFORE_RUN, "persistence_failed", "internal", "checkpoint_failed", "lost"}
    assert decided == set(FAILURE_RULES)


def test_the_input_is_consumed_only_if_it_is_in_a_committed_checkpoint() -> None:
    taken, not_taken = Outcome(input_taken=True), Outcome(input_taken=False)
    assert input_consumed(taken, Commit())
    assert not input_consumed(not_taken, Commit())
    assert not input_consumed(taken, KeepPrevious())


def test_a_message_that_the_log_took_is_undelivered_unless_that_log_is_committed() -> None:
    taken, waiting = Undelivered("steering", "taken"), Undelivered("follow_up", "waiting")
    outcome = Outcome(steered=(taken,), undelivered=(waiting,))
    assert undelivered(outcome, Commit()) == (waiting,)
    assert undelivered(outcome, Commit("progress")) == (taken, waiting)
    assert undelivered(outcome, KeepPrevious()) == (taken, waiting)
