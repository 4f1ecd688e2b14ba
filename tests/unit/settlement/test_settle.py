"""One test per row of the settlement table, and per rule about questions."""

import json

import pytest
from msgspec.structs import replace

from settlement.outcome import (
    BeforeRunFailure,
    BeforeRunReason,
    Interruption,
    LastAssistant,
    LimitReason,
    ModelFailure,
    ModelFailureReason,
    Outcome,
    SentQuestion,
    Stop,
)
from settlement.settle import AskUser, Failure, Settlement, Success, settle

ANSWERED = LastAssistant("stop", "Done.", has_calls=False)
CALLED = LastAssistant("toolUse", "", has_calls=True)
FAILED = LastAssistant("error", "", has_calls=False)
ABORTED = LastAssistant("aborted", "Half a sen", has_calls=False)
QUESTION = SentQuestion("ask_1", "call-1", "ask_user", "e1", result_logged=True)
ASKED = Outcome(
    interruption=Interruption("call-1", "ask_user", '{"ask_user_sent": true}'),
    questions=(QUESTION,),
    stop=Stop("interruption", another_turn=True),
    last_assistant=CALLED,
    appended=True,
    input_taken=True,
)


def failure(settlement: Settlement) -> Failure:
    assert isinstance(settlement, Failure)
    return settlement


# --- ask_user ---


def test_a_sent_and_logged_question_without_a_prompt_error_is_ask_user() -> None:
    settlement = settle(ASKED)
    assert isinstance(settlement, AskUser)
    assert settlement.interruption.tool_call_id == "call-1"
    assert settlement.questions == (QUESTION,)


def test_ask_user_names_every_question_of_its_turn_in_the_order_of_sending() -> None:
    second = SentQuestion("ask_2", "call-2", "collect_form_input", "e1", result_logged=True)
    settlement = settle(replace(ASKED, questions=(second, QUESTION)))
    assert isinstance(settlement, AskUser)
    assert [question.question_id for question in settlement.questions] == ["ask_2", "ask_1"]


def test_a_question_of_an_earlier_turn_is_not_waited_for() -> None:
    earlier = SentQuestion("ask_0", "call-0", "ask_user", "e0", result_logged=True)
    settlement = settle(replace(ASKED, questions=(earlier, QUESTION)))
    assert isinstance(settlement, AskUser)
    assert settlement.questions == (QUESTION,)


def test_a_call_id_used_again_means_the_question_of_the_later_turn() -> None:
    earlier = replace(QUESTION, question_id="ask_0", entry_id="e0")
    settlement = settle(replace(ASKED, questions=(earlier, QUESTION)))
    assert isinstance(settlement, AskUser)
    assert settlement.questions == (QUESTION,)


def test_a_question_whose_sending_had_no_answer_is_not_waited_for_beside_one_that_was_sent() -> None:
    unknown = SentQuestion("ask_2", "call-2", "ask_user", "e1", confirmed=False, result_logged=False)
    settlement = settle(replace(ASKED, questions=(unknown, QUESTION)))
    assert isinstance(settlement, AskUser)
    assert settlement.questions == (QUESTION,)


@pytest.mark.parametrize("doubt", [{"confirmed": False}, {"result_logged": False}])
def test_a_question_that_is_not_proven_is_never_reported(doubt: dict[str, bool]) -> None:
    settlement = failure(settle(replace(ASKED, questions=(replace(QUESTION, **doubt),))))
    assert settlement.reason == "internal"
    assert settlement.withdrawn_questions == ("ask_1",)


def test_a_question_beats_a_cancel_that_came_while_its_turn_completed() -> None:
    assert settle(replace(ASKED, aborted_for="cancelled")).kind == "ask_user"


def test_a_sent_question_does_not_hide_a_broken_log() -> None:
    settlement = failure(settle(replace(ASKED, log_broken="No space left on device")))
    assert settlement.reason == "persistence_failed"
    assert settlement.withdrawn_questions == ("ask_1",)


def test_a_sent_question_does_not_hide_a_run_that_raised() -> None:
    settlement = failure(settle(replace(ASKED, prompt_raised="the run raised ValueError")))
    assert settlement.reason == "internal"
    assert settlement.withdrawn_questions == ("ask_1",)


@pytest.mark.parametrize("last", [FAILED, ABORTED])
def test_a_sent_question_does_not_hide_a_failed_last_message(last: LastAssistant) -> None:
    settlement = failure(settle(replace(ASKED, last_assistant=last, stop=None)))
    assert settlement.withdrawn_questions == ("ask_1",)


def test_the_end_of_a_turn_that_asked_is_not_a_natural_end_even_if_its_results_terminate() -> None:
    outcome = replace(ASKED, questions=(), stop=Stop("interruption", another_turn=False))
    assert failure(settle(replace(outcome, terminating_texts=("ok",)))).reason == "internal"


# --- ended by itself ---


def test_a_final_answer_is_success_with_its_text() -> None:
    assert settle(Outcome(last_assistant=ANSWERED)) == Success("Done.")


def test_tool_use_without_calls_is_an_ordinary_end() -> None:
    last = LastAssistant("toolUse", "Done.", has_calls=False)
    assert settle(Outcome(last_assistant=last)) == Success("Done.")


def test_a_batch_whose_results_all_terminate_is_success_with_the_assistants_text() -> None:
    last = LastAssistant("toolUse", "Submitting.", has_calls=True)
    assert settle(Outcome(last_assistant=last, terminating_texts=("accepted",))) == Success("Submitting.")


def test_a_terminating_batch_without_an_assistants_text_is_success_with_the_results_texts() -> None:
    assert settle(Outcome(last_assistant=CALLED, terminating_texts=("one", "two"))) == Success("one\ntwo")


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_end_without_any_text_is_an_empty_answer(text: str) -> None:
    last = LastAssistant("stop", text, has_calls=False)
    assert failure(settle(Outcome(last_assistant=last))).reason == "empty_answer"


def test_a_terminating_batch_without_any_text_is_an_empty_answer() -> None:
    assert failure(settle(Outcome(last_assistant=CALLED, terminating_texts=(" ", "")))).reason == "empty_answer"


@pytest.mark.parametrize("text", ["", "The answer is so lo"])
def test_an_answer_cut_at_its_length_is_truncated_whatever_text_there_is(text: str) -> None:
    last = LastAssistant("length", text, has_calls=False)
    settlement = failure(settle(Outcome(last_assistant=last)))
    assert settlement.reason == "output_truncated"
    assert not settlement.retryable


@pytest.mark.parametrize("reason", ["cancelled", "paused", "turn_limit", "token_limit", "cost_limit"])
def test_a_stop_after_a_turn_that_was_the_last_anyway_is_a_natural_end(reason: LimitReason) -> None:
    outcome = Outcome(last_assistant=ANSWERED, stop=Stop(reason, another_turn=False))
    assert settle(outcome) == Success("Done.")


def test_an_abort_that_came_after_the_complete_answer_does_not_take_it_back() -> None:
    assert settle(Outcome(last_assistant=ANSWERED, aborted_for="cancelled")) == Success("Done.")


# --- stopped from outside ---


def test_an_aborted_answer_is_cancelled() -> None:
    settlement = failure(settle(Outcome(last_assistant=ABORTED, aborted_for="cancelled")))
    assert (settlement.reason, settlement.retryable, settlement.resumable) == ("cancelled", False, True)


def test_an_abort_between_tools_is_cancelled_when_another_turn_would_have_followed() -> None:
    outcome = Outcome(last_assistant=CALLED, aborted_for="cancelled", stop=Stop("cancelled", another_turn=True))
    assert failure(settle(outcome)).reason == "cancelled"


def test_an_aborted_answer_that_nobody_here_asked_for_is_cancelled() -> None:
    assert failure(settle(Outcome(last_assistant=ABORTED))).reason == "cancelled"


def test_a_cancel_before_the_first_request_is_cancelled() -> None:
    assert failure(settle(Outcome(stop=Stop("cancelled", another_turn=True)))).reason == "cancelled"


def test_a_cancel_explains_the_model_error_that_came_with_it() -> None:
    outcome = Outcome(
        last_assistant=FAILED,
        aborted_for="cancelled",
        model_failure=ModelFailure("model_unavailable", "connection closed", retryable=True),
    )
    assert failure(settle(outcome)).reason == "cancelled"


def test_a_pause_between_turns_is_paused() -> None:
    outcome = Outcome(last_assistant=CALLED, stop=Stop("paused", another_turn=True))
    assert failure(settle(outcome)).reason == "paused"


@pytest.mark.parametrize("reason", ["turn_limit", "token_limit", "cost_limit", "deadline_exceeded"])
def test_a_limit_that_kept_another_turn_from_following_is_that_limit(reason: LimitReason) -> None:
    settlement = failure(settle(Outcome(last_assistant=CALLED, stop=Stop(reason, another_turn=True))))
    assert (settlement.reason, settlement.resumable) == (reason, True)


def test_a_limit_counts_although_the_turn_had_an_answer_if_messages_were_queued() -> None:
    outcome = Outcome(last_assistant=ANSWERED, stop=Stop("turn_limit", another_turn=True))
    assert failure(settle(outcome)).reason == "turn_limit"


def test_an_answer_aborted_at_the_deadline_is_the_deadline() -> None:
    outcome = Outcome(last_assistant=ABORTED, aborted_for="deadline_exceeded")
    assert failure(settle(outcome)).reason == "deadline_exceeded"


def test_a_cancel_beats_a_limit() -> None:
    outcome = Outcome(last_assistant=CALLED, aborted_for="cancelled", stop=Stop("turn_limit", another_turn=True))
    assert failure(settle(outcome)).reason == "cancelled"


# --- errors ---


@pytest.mark.parametrize(
    "reason",
    [
        "model_auth",
        "model_rate_limited",
        "model_overloaded",
        "model_invalid_request",
        "context_overflow",
        "model_refused",
        "model_unavailable",
    ],
)
@pytest.mark.parametrize("retryable", [True, False])
def test_a_model_error_keeps_its_reason_its_words_and_whether_it_may_be_retried(
    reason: ModelFailureReason, retryable: bool
) -> None:
    outcome = Outcome(last_assistant=FAILED, model_failure=ModelFailure(reason, "overloaded", retryable))
    settlement = failure(settle(outcome))
    assert (settlement.reason, settlement.retryable, settlement.resumable) == (reason, retryable, True)
    assert settlement.message.startswith("overloaded: ")


def test_a_failed_message_that_is_not_the_models_is_internal() -> None:
    assert failure(settle(Outcome(last_assistant=FAILED))).reason == "internal"


def test_a_broken_log_beats_a_final_answer() -> None:
    settlement = failure(settle(Outcome(last_assistant=ANSWERED, log_broken="No space left on device")))
    assert (settlement.reason, settlement.retryable, settlement.resumable) == ("persistence_failed", True, True)


@pytest.mark.parametrize(
    ("reason", "resumable"),
    [("restore_failed", False), ("stale_reply", True), ("nothing_to_do", True), ("setup_failed", True)],
)
def test_what_keeps_the_agent_from_starting_is_the_reason(reason: BeforeRunReason, resumable: bool) -> None:
    settlement = failure(settle(Outcome(before_run=BeforeRunFailure(reason, "what was found"))))
    assert (settlement.reason, settlement.resumable) == (reason, resumable)
    assert settlement.message.startswith("what was found")


def test_a_failed_upload_turns_every_settlement_into_a_failure_that_withdraws_its_questions() -> None:
    settlement = failure(settle(replace(ASKED, checkpoint_failed="the store answered 503")))
    assert (settlement.reason, settlement.retryable) == ("checkpoint_failed", True)
    assert settlement.withdrawn_questions == ("ask_1",)


def test_a_claim_found_dead_is_lost() -> None:
    settlement = failure(settle(Outcome(lost="the claim is older than its deadline")))
    assert (settlement.reason, settlement.retryable) == ("lost", True)


def test_a_defect_beats_what_the_run_achieved() -> None:
    settlement = failure(settle(replace(ASKED, defect="KeyError")))
    assert settlement.reason == "internal"
    assert settlement.withdrawn_questions == ("ask_1",)


def test_a_run_that_left_no_fact_at_all_is_internal() -> None:
    assert failure(settle(Outcome())).reason == "internal"


# --- words ---


def test_a_withdrawn_question_is_listed_once_and_also_if_it_only_may_have_gone_out() -> None:
    unknown = SentQuestion("ask_2", "call-2", "ask_user", "e1", confirmed=False)
    settlement = failure(settle(Outcome(questions=(QUESTION, unknown, QUESTION))))
    assert settlement.withdrawn_questions == ("ask_1", "ask_2")


def test_a_message_is_one_bounded_line_that_can_be_sent_whatever_was_found() -> None:
    found = "first\nsecond \ud800\x00 " + "x" * 10_000
    message = failure(settle(Outcome(log_broken=found))).message
    assert "\n" not in message
    assert len(message) < 600
    assert json.loads(json.dumps(message).encode())
    message.encode()
    assert message.endswith("launch again from the previous restore point")
