"""Properties of the settlement table that hold for any facts whatever."""

import json
from typing import Any, get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from settlement.decision import CheckpointFacts, Commit, resolve_checkpoint_decision
from settlement.outcome import (
    AbortReason,
    BeforeRunFailure,
    BeforeRunReason,
    Interruption,
    LastAssistant,
    ModelFailure,
    ModelFailureReason,
    Outcome,
    SentQuestion,
    Stop,
    StopReason,
    Undelivered,
    run_failed,
)
from settlement.reasons import FAILURE_RULES
from settlement.settle import AskUser, Failure, Settlement, Success, settle

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How long an example takes says nothing here, on a machine that does other things as well."""


def reasons(literal: Any) -> st.SearchStrategy[Any]:
    """Of a Literal or a union of Literals."""
    values = [value for part in get_args(literal) for value in (get_args(part) or (part,))]
    return st.sampled_from(values)


texts = st.text(st.characters(), max_size=20)
call_ids = st.sampled_from(["call-1", "call-2", "call-3"])
questions = st.builds(
    SentQuestion,
    question_id=st.sampled_from([f"ask_{number}" for number in range(5)]),
    tool_call_id=call_ids,
    tool_name=st.sampled_from(["ask_user", "collect_form_input"]),
    entry_id=st.sampled_from(["e1", "e2"]),
    confirmed=st.booleans(),
    result_logged=st.booleans(),
)
outcomes = st.builds(
    Outcome,
    log_broken=st.none() | texts,
    defect=st.none() | texts,
    checkpoint_failed=st.none() | texts,
    progress_kept=st.booleans(),
    lost=st.none() | texts,
    before_run=st.none() | st.builds(BeforeRunFailure, reasons(BeforeRunReason), texts),
    interruption=st.none() | st.builds(Interruption, call_ids, st.just("ask_user"), texts),
    questions=st.lists(questions, max_size=5).map(tuple),
    stop=st.none() | st.builds(Stop, reasons(StopReason), st.booleans()),
    aborted_for=st.none() | reasons(AbortReason),
    prompt_raised=st.none() | texts,
    last_assistant=st.none()
    | st.builds(
        LastAssistant,
        st.sampled_from(["stop", "toolUse", "length", "error", "aborted", "end_of_world"]),
        texts,
        st.booleans(),
    ),
    terminating_texts=st.lists(texts, max_size=2).map(tuple),
    model_failure=st.none() | st.builds(ModelFailure, reasons(ModelFailureReason), texts, st.booleans()),
    appended=st.booleans(),
    input_taken=st.booleans(),
    undelivered=st.lists(st.builds(Undelivered, st.just("steering"), texts), max_size=2).map(tuple),
)


def trusted(outcome: Outcome) -> bool:
    return not (run_failed(outcome) or outcome.checkpoint_failed is not None or outcome.lost is not None)


@unhurried
@given(outcomes)
def test_every_outcome_has_a_settlement_and_the_same_one_each_time(outcome: Outcome) -> None:
    settlement: Settlement = settle(outcome)
    assert isinstance(settlement, AskUser | Success | Failure)
    assert settle(outcome) == settlement


@unhurried
@given(outcomes)
def test_a_question_is_never_reported_unless_it_was_sent_and_its_result_logged(outcome: Outcome) -> None:
    settlement = settle(outcome)
    if isinstance(settlement, AskUser):
        assert trusted(outcome)
        assert settlement.questions
        assert all(question in outcome.questions for question in settlement.questions)
        assert all(question.confirmed and question.result_logged for question in settlement.questions)
        assert len({question.entry_id for question in settlement.questions}) == 1
        asked = {question.tool_call_id for question in settlement.questions}
        assert settlement.interruption.tool_call_id in asked


@unhurried
@given(outcomes)
def test_a_failure_withdraws_every_question_that_went_out_or_may_have(outcome: Outcome) -> None:
    settlement = settle(outcome)
    if isinstance(settlement, Failure):
        ids = [question.question_id for question in outcome.questions]
        assert list(settlement.withdrawn_questions) == list(dict.fromkeys(ids))


@unhurried
@given(outcomes)
def test_a_success_has_text_and_nothing_against_it(outcome: Outcome) -> None:
    settlement = settle(outcome)
    if isinstance(settlement, Success):
        assert trusted(outcome)
        assert settlement.text.strip()
        assert outcome.stop is None or not outcome.stop.another_turn


@unhurried
@given(outcomes)
def test_a_failure_says_in_one_line_what_to_do(outcome: Outcome) -> None:
    settlement = settle(outcome)
    if isinstance(settlement, Failure):
        assert settlement.message.endswith(FAILURE_RULES[settlement.reason].advice)
        assert len(settlement.message.splitlines()) <= 1, "none, where nothing was found and nothing is to be said"
        assert json.dumps(settlement.message, ensure_ascii=False).encode()


@unhurried
@given(outcomes, st.booleans())
def test_nothing_is_committed_that_cannot_be_trusted(outcome: Outcome, progress_stored: bool) -> None:
    settlement = settle(outcome)
    frozen = outcome.checkpoint_failed is None
    facts = CheckpointFacts(appended=outcome.appended, progress_stored=progress_stored, frozen=frozen)
    decision = resolve_checkpoint_decision(settlement, facts)
    if decision == Commit("frozen"):
        assert outcome.log_broken is None
        assert outcome.defect is None
        assert outcome.checkpoint_failed is None
    if isinstance(settlement, AskUser | Success):
        assert decision == Commit("frozen")
