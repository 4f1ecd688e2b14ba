"""The rules for questions, replies and terminals, row by row."""

from dataclasses import replace
from typing import Any

import pytest

from settlement.commit_rule import (
    Card,
    Commit,
    CommitDecision,
    JudgedBefore,
    Owed,
    Pipeline,
    Refuse,
    Reply,
    RestorePoint,
    ShowCard,
    ShownBefore,
    decide_commit,
    decide_question,
    keep_reply,
)
from settlement.receiving import Problem
from tests.unit.settlement.samples import (
    ASK_USER,
    FAILURE,
    a_question,
    a_terminal,
    asked,
    commit_of,
    digest_of,
    keep_previous,
    received_question,
    received_terminal,
)

RUNNING = Pipeline("p1", "s1")
Q1, Q2, Q3 = (reference.question_id for reference in asked("call-1", "call-2", "call-3"))


def problem(found: object) -> str:
    assert isinstance(found, Problem), found
    return found.reason


def committed(found: CommitDecision) -> Commit:
    assert isinstance(found, Commit), found
    return found


def refused(found: CommitDecision) -> Refuse:
    assert isinstance(found, Refuse), found
    return found


def after_asking(pipeline: Pipeline, *call_ids: str) -> Pipeline:
    for call_id in call_ids:
        shown = decide_question(pipeline, received_question(a_question(tool_call_id=call_id)), streams=())
        assert isinstance(shown, ShowCard)
        pipeline = shown.pipeline
    return pipeline


def after_reply(pipeline: Pipeline, question_id: str, reply_id: str = "r1") -> Pipeline:
    kept = keep_reply(pipeline, Reply(reply_id, question_id, "staging"))
    assert kept is not None
    return kept


def judge(pipeline: Pipeline | None, point: RestorePoint | None = None, **terminal: Any) -> CommitDecision:
    return decide_commit(pipeline, point, received_terminal(a_terminal(**terminal)))


def standings(pipeline: Pipeline) -> dict[str, str]:
    return {card.question_id: card.standing for card in pipeline.cards}


# --- questions -----------------------------------------------------------------------------------------------


def ask(pipeline: Pipeline | None, streams: tuple[str, ...] = (), **question: Any) -> Any:
    return decide_question(pipeline, received_question(a_question(**question)), streams=streams)


def test_a_question_of_a_running_pipeline_becomes_a_card():
    shown = ask(RUNNING)
    assert isinstance(shown, ShowCard)
    assert shown.card.question_id == Q1
    assert shown.pipeline.cards == (shown.card,)
    assert shown.pipeline.heard == 1


def test_the_same_question_again_is_answered_the_same_and_shown_once():
    asking = after_asking(RUNNING, "call-1")
    assert ask(asking) == ShownBefore(asking)


def test_a_takeover_that_asks_the_same_again_is_heard():
    again = ask(after_asking(RUNNING, "call-1"), attempt=2)
    assert isinstance(again, ShownBefore)
    assert again.pipeline.heard == 2


def test_the_same_id_with_another_question_is_refused():
    assert problem(ask(after_asking(RUNNING, "call-1"), question="Another?")) == "other-body"


@pytest.mark.parametrize("pipeline", [replace(RUNNING, launched=2), replace(RUNNING, heard=2)])
def test_a_lower_attempt_may_not_ask_any_more(pipeline: Pipeline):
    assert problem(ask(pipeline)) == "superseded"
    assert isinstance(ask(pipeline, attempt=2), ShowCard)


def test_an_attempt_nobody_announced_may_ask():
    assert isinstance(ask(RUNNING, attempt=7), ShowCard)


def test_after_the_terminal_nothing_new_may_be_asked():
    ended = committed(judge(after_asking(RUNNING, "call-1"))).pipeline
    assert problem(ask(ended, tool_call_id="call-2")) == "superseded"
    assert problem(ask(ended, tool_call_id="call-2", attempt=9)) == "superseded"
    assert isinstance(ask(ended), ShownBefore)


def test_a_question_of_an_unknown_pipeline_is_refused():
    assert problem(ask(None)) == "unknown-pipeline"


def test_a_question_of_another_session_is_refused():
    assert problem(ask(RUNNING, session_id="s2")) == "wrong-session"


def test_a_model_may_name_only_a_stream_of_the_owner():
    assert problem(ask(RUNNING, stream_id="theirs", streams=("ours",))) == "foreign-stream"
    assert isinstance(ask(RUNNING, stream_id="ours", streams=("ours",)), ShowCard)
    assert isinstance(ask(RUNNING, streams=()), ShowCard)


# --- replies while the pipeline runs -------------------------------------------------------------------------


def test_a_reply_is_kept_once():
    replied = after_reply(after_asking(RUNNING, "call-1"), Q1)
    assert keep_reply(replied, replied.replies[0]) == replied
    assert keep_reply(replied, Reply("r2", Q1, "production")) is None


def test_a_reply_to_no_card_or_after_the_end_is_not_kept():
    asking = after_asking(RUNNING, "call-1")
    assert keep_reply(asking, Reply("r1", Q2, "x")) is None
    assert keep_reply(committed(judge(asking)).pipeline, Reply("r1", Q1, "x")) is None


# --- the commit rule -----------------------------------------------------------------------------------------


def test_a_new_session_gets_its_first_restore_point():
    decision = committed(judge(RUNNING))
    assert decision.restore_point == RestorePoint(digest_of("p1"), "sessions/s1/checkpoints/p1.json")
    assert decision.pipeline.judgement is not None
    assert decision.pipeline.heard == 1


def test_a_session_moves_on_from_where_it_is():
    point = RestorePoint(digest_of("before"))
    decision = committed(judge(RUNNING, point, checkpoint=commit_of("p1", parent=digest_of("before"))))
    assert decision.restore_point == RestorePoint(digest_of("p1"), "sessions/s1/checkpoints/p1.json")


@pytest.mark.parametrize(
    ("point", "parent"),
    [
        (RestorePoint(digest_of("other")), digest_of("before")),
        (RestorePoint(digest_of("other")), None),
        (None, digest_of("before")),
        (RestorePoint(None), None),
    ],
)
def test_a_session_that_is_elsewhere_does_not_move(point: RestorePoint | None, parent: str | None):
    decision = refused(judge(RUNNING, point, checkpoint=commit_of("p1", parent=parent)))
    assert decision.problem.reason == "not-the-restore-point"
    assert decision.problem.status == 409


def test_a_plain_file_without_a_known_digest_is_taken_at_the_runners_word():
    decision = committed(judge(RUNNING, RestorePoint(None), checkpoint=commit_of("p1", parent=digest_of("file"))))
    assert decision.restore_point is not None
    assert decision.restore_point.digest == digest_of("p1")


def test_of_two_pipelines_of_one_session_one_commits():
    point = RestorePoint(digest_of("before"))
    parent = digest_of("before")
    first = committed(judge(RUNNING, point, checkpoint=commit_of("p1", parent)))
    second = judge(Pipeline("p2", "s1"), first.restore_point, pipeline_id="p2", checkpoint=commit_of("p2", parent))
    assert refused(second).problem.reason == "not-the-restore-point"


def test_keep_previous_leaves_the_session_where_it_is_wherever_that_is():
    point = RestorePoint(digest_of("other"))
    decision = committed(
        judge(RUNNING, point, settlement=FAILURE, checkpoint=keep_previous(parent=digest_of("before")))
    )
    assert decision.restore_point == point


def test_the_same_again_gets_the_same_answer():
    terminal = received_terminal(a_terminal())
    first = committed(decide_commit(RUNNING, None, terminal))
    assert decide_commit(first.pipeline, first.restore_point, terminal) == JudgedBefore(None)


def test_the_same_again_gets_the_same_refusal():
    terminal = received_terminal(a_terminal())
    first = refused(decide_commit(RUNNING, RestorePoint(digest_of("other")), terminal))
    assert decide_commit(first.pipeline, None, terminal) == JudgedBefore(first.problem)


def test_another_record_of_a_pipeline_that_has_ended_is_refused():
    first = committed(judge(RUNNING))
    assert problem(judge(first.pipeline, first.restore_point, warnings=("other",))) == "other-body"
    assert problem(judge(first.pipeline, first.restore_point, attempt=2)) == "other-body"


def test_an_attempt_that_a_later_one_spoke_after_is_superseded_and_changes_nothing():
    assert problem(judge(replace(RUNNING, heard=2))) == "superseded"


def test_a_lower_attempt_after_the_end_is_superseded():
    ended = committed(judge(RUNNING, attempt=2)).pipeline
    assert problem(judge(ended, attempt=1)) == "superseded"


def test_a_stored_record_delivered_by_a_later_attempt_counts():
    """The later attempt found it in the store, ran nothing, and delivers it with the writer's attempt in it."""
    assert isinstance(judge(replace(RUNNING, launched=2), attempt=1), Commit)


def test_a_terminal_of_an_unknown_pipeline_is_refused():
    assert problem(judge(None)) == "unknown-pipeline"


def test_a_terminal_of_another_session_is_refused():
    assert problem(judge(RUNNING, session_id="s2")) == "wrong-session"


# --- what is owed --------------------------------------------------------------------------------------------


def test_cards_that_ask_user_lists_stay_and_every_other_is_withdrawn():
    asking = after_asking(RUNNING, "call-1", "call-2", "call-3")
    decision = committed(judge(asking, settlement=ASK_USER, questions=asked("call-1", "call-3")))
    assert decision.owed == Owed(wait_for=(Q1, Q3), withdraw=(Q2,))
    assert standings(decision.pipeline) == {Q1: "open", Q2: "withdrawn", Q3: "open"}


def test_a_listed_question_that_was_asked_elsewhere_is_waited_for_too():
    assert committed(judge(RUNNING, settlement=ASK_USER, questions=asked("call-1"))).owed == Owed(wait_for=(Q1,))


def test_a_kept_reply_starts_the_next_pipeline_and_closes_the_other_cards():
    asking = after_reply(after_asking(RUNNING, "call-1", "call-2"), Q2)
    decision = committed(judge(asking, settlement=ASK_USER, questions=asked("call-1", "call-2")))
    assert decision.owed == Owed(withdraw=(Q1,), launch=Reply("r1", Q2, "staging"))
    assert standings(decision.pipeline) == {Q1: "withdrawn", Q2: "answered"}


def test_of_several_kept_replies_the_first_starts_it_and_the_others_are_told():
    asking = after_reply(after_reply(after_asking(RUNNING, "call-1", "call-2"), Q2, "first"), Q1, "second")
    decision = committed(judge(asking, settlement=ASK_USER, questions=asked("call-1", "call-2")))
    assert decision.owed.launch == Reply("first", Q2, "staging")
    assert decision.owed.tell == (Reply("second", Q1, "staging"),)


def test_a_kept_reply_to_a_card_that_is_withdrawn_is_told():
    asking = after_reply(after_asking(RUNNING, "call-1", "call-2"), Q2)
    decision = committed(judge(asking, settlement=ASK_USER, questions=asked("call-1")))
    assert decision.owed == Owed(wait_for=(Q1,), withdraw=(Q2,), tell=(Reply("r1", Q2, "staging"),))


@pytest.mark.parametrize("checkpoint", [commit_of("p1"), keep_previous()])
def test_a_failure_withdraws_every_card_and_tells_who_replied(checkpoint: Any):
    asking = after_reply(after_asking(RUNNING, "call-1", "call-2"), Q1)
    decision = committed(judge(asking, settlement=FAILURE, checkpoint=checkpoint))
    assert decision.owed == Owed(withdraw=(Q1, Q2), tell=(Reply("r1", Q1, "staging"),))


def test_a_refused_commit_withdraws_every_card_too():
    asking = after_reply(after_asking(RUNNING, "call-1", "call-2"), Q1)
    decision = refused(judge(asking, RestorePoint(digest_of("other")), settlement=ASK_USER, questions=asked("call-1")))
    assert decision.owed == Owed(withdraw=(Q1, Q2), tell=(Reply("r1", Q1, "staging"),))
    assert standings(decision.pipeline) == {Q1: "withdrawn", Q2: "withdrawn"}


def test_a_card_that_is_no_longer_open_is_not_withdrawn_again():
    withdrawn = replace(RUNNING, cards=(Card(Q1, "call-1", "d", "withdrawn"),))
    assert committed(judge(withdrawn)).owed == Owed()
