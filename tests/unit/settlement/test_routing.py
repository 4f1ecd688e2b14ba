"""Whose reply wakes what: the rules of the waiting task, one by one."""

from dataclasses import replace

import pytest

from settlement.commit_rule import Card, Judgement, Pipeline, Reply
from settlement.routing import (
    CardPlace,
    ChatMessage,
    Keep,
    NotTaken,
    Wake,
    decide_reply,
    from_api,
    from_chat,
    route,
)
from settlement.tasks import Task, TaskState
from tests.fakes.card_index import CardIndex, StoredCard
from tests.unit.settlement.samples import asked, digest_of

BARE = "96957f3c-0000-4000-8000-000000000000"
ID_1, ID_2, ID_3 = (reference.question_id for reference in asked("call-1", "call-2", "call-3"))


def card(
    question_id: str = ID_1,
    stream: str = BARE,
    owner: str = "qq:42",
    text: str = "Staging or production?",
    standing: str = "open",
    waiting: bool = True,
) -> StoredCard:
    place = CardPlace(question_id, f"p-{question_id[-4:]}", f"t-{question_id[-4:]}", stream, owner)
    return StoredCard(place, text, standing, waiting)


def routed(message: ChatMessage | None, *cards: StoredCard) -> str:
    """The question it goes to, or why it goes nowhere."""
    found = route(message, CardIndex(cards))
    return found.reason if isinstance(found, NotTaken) else found.question_id


# --- stream and owner ---------------------------------------------------------------------------------------


def test_a_plain_message_of_the_owner_in_the_stream_wakes_the_task():
    assert routed(from_chat(BARE, "qq", "42", "staging"), card()) == ID_1


@pytest.mark.parametrize(
    ("stream", "platform", "user"),
    [(BARE, "qq", "43"), (BARE, "wx", "42"), ("other", "qq", "42"), (BARE, "qq", "4"), (BARE, "QQ", "42")],
    ids=["another user", "another platform", "another stream", "part of a user", "other letters"],
)
def test_anyone_else_or_anywhere_else_wakes_nothing(stream: str, platform: str, user: str):
    assert routed(from_chat(stream, platform, user, "staging"), card()) == "nobody_waits"


def test_an_absent_platform_is_inferred_from_the_streams_prefix():
    assert routed(from_api("qq:group:7", None, "42", "staging"), card(stream="qq:group:7")) == ID_1


def test_an_inferred_platform_is_a_known_one_and_never_falls_back():
    elsewhere = card(stream="qq:group:7", owner="wx:42")
    assert routed(from_api("qq:group:7", None, "42", "staging"), elsewhere) == "nobody_waits"


def test_a_given_platform_goes_before_the_streams_prefix():
    there = card(stream="qq:group:7", owner="wx:42")
    assert routed(from_api("qq:group:7", "wx", "42", "staging"), there) == ID_1


def test_only_a_bare_stream_id_falls_back_to_the_user():
    assert routed(from_api(BARE, None, "42", "staging"), card(owner="wx:42")) == ID_1
    assert routed(from_api(BARE, "qq", "42", "staging"), card(owner="wx:42")) == "nobody_waits"


@pytest.mark.parametrize("owner", ["wx:142", "wx:a:42", "42", ":42", "wx:"])
def test_the_fallback_wants_the_whole_user(owner: str):
    assert routed(from_api(BARE, None, "42", "staging"), card(owner=owner)) == "nobody_waits"


@pytest.mark.parametrize("stream", [":7", "qq:", ":"])
def test_a_prefix_needs_something_on_both_sides(stream: str):
    assert routed(from_api(stream, None, "42", "staging"), card(stream=stream, owner="wx:42")) == ID_1


# --- what is skipped ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", ["", " ", "\n\t"])
@pytest.mark.parametrize("missing", [0, 2, 3])
def test_an_empty_stream_user_or_text_is_skipped(missing: int, empty: str):
    fields: list[str] = [BARE, "qq", "42", "staging"]
    fields[missing] = empty
    assert routed(from_chat(*fields), card()) == "skipped"
    assert routed(from_api(*fields), card()) == "skipped"


def test_only_callers_of_the_api_may_leave_the_platform_out():
    assert routed(from_chat(BARE, "", "42", "staging"), card()) == "skipped"
    assert routed(from_api(BARE, None, "42", "staging"), card()) == ID_1
    assert routed(from_api(BARE, "", "42", "staging"), card()) == ID_1


# --- several tasks ------------------------------------------------------------------------------------------


def test_of_several_waiting_tasks_the_first_asked_is_woken():
    assert routed(from_chat(BARE, "qq", "42", "yes"), card(ID_2), card(ID_1)) == ID_2


def test_a_reply_that_names_the_question_goes_to_that_one():
    message = from_chat(BARE, "qq", "42", "yes", question_id=ID_2)
    assert routed(message, card(ID_1), card(ID_2)) == ID_2


@pytest.mark.parametrize("quote", ["Which  region?", "> Which\n> region?", f"[{ID_2}] Which region do you…"])
def test_a_reply_that_quotes_the_card_goes_to_that_one(quote: str):
    message = from_chat(BARE, "qq", "42", "yes", quote=quote)
    assert routed(message, card(ID_1), card(ID_2, text="Which region?")) == ID_2


def test_of_two_cards_with_the_same_text_the_first_open_one_is_quoted():
    message = from_chat(BARE, "qq", "42", "yes", quote="Sure?")
    cards = [
        card(ID_1, text="Sure?", standing="answered"),
        card(ID_2, text="Sure?"),
        card(ID_3, text="Sure?"),
    ]
    assert routed(message, *cards) == ID_2


def test_a_quotation_of_something_else_goes_to_the_first_asked():
    assert routed(from_chat(BARE, "qq", "42", "yes", quote="Good morning"), card(ID_1), card(ID_2)) == ID_1


def test_naming_a_question_does_not_let_others_answer_it():
    assert routed(from_chat(BARE, "qq", "43", "yes", question_id=ID_1), card(ID_1)) == "not_waiting"
    assert routed(from_chat(BARE, "qq", "43", "yes", quote=ID_1), card(ID_1)) == "nobody_waits"
    assert routed(from_chat(BARE, "qq", "42", "yes", question_id=ID_2), card(ID_1)) == "not_waiting"


def test_an_answer_to_a_closed_card_does_not_answer_an_open_one():
    closed = card(ID_1, text="Sure?", standing="withdrawn", waiting=False)
    for message in (
        from_chat(BARE, "qq", "42", "yes", question_id=ID_1),
        from_chat(BARE, "qq", "42", "yes", quote="Sure?"),
    ):
        assert routed(message, closed, card(ID_2)) == ID_1


def test_a_task_that_waits_goes_before_one_that_still_runs():
    running = card(ID_1, waiting=False)
    assert routed(from_chat(BARE, "qq", "42", "yes"), running, card(ID_2)) == ID_2
    assert routed(from_chat(BARE, "qq", "42", "yes"), running) == ID_1
    assert routed(from_chat(BARE, "qq", "42", "yes"), replace(running, replied=True)) == "nobody_waits"


# --- what comes of it ---------------------------------------------------------------------------------------

REPLY = Reply("r1", ID_1, "staging")
CARDS = (Card(ID_1, "call-1", digest_of("1")), Card(ID_2, "call-2", digest_of("2")))
ASKED = Pipeline("p1", "s1", cards=CARDS)
JUDGED = replace(ASKED, judgement=Judgement(digest_of("terminal"), None))


def task(state: TaskState, deadline_s: float | None = None) -> Task:
    return Task("t1", "s1", state, deadline_s=deadline_s)


def test_a_reply_wakes_the_task_launches_and_withdraws_the_other_cards():
    found = decide_reply(task(TaskState.WAITING_INPUT), JUDGED, REPLY, 0.0)
    assert isinstance(found, Wake)
    assert found.task.state is TaskState.RUNNING
    assert (found.owed.launch, found.owed.withdraw) == (REPLY, (ID_2,))
    assert [known.standing for known in found.pipeline.cards] == ["answered", "withdrawn"]


def test_a_second_reply_finds_the_card_answered():
    first = decide_reply(task(TaskState.WAITING_INPUT), JUDGED, REPLY, 0.0)
    assert isinstance(first, Wake)
    second = replace(REPLY, reply_id="r2")
    assert decide_reply(first.task, first.pipeline, second, 0.0) == NotTaken("answered_before")
    assert decide_reply(task(TaskState.WAITING_INPUT), first.pipeline, second, 0.0) == NotTaken("answered_before")


def test_a_reply_while_it_runs_is_kept_once():
    kept = decide_reply(task(TaskState.RUNNING), ASKED, REPLY, 0.0)
    assert isinstance(kept, Keep)
    assert kept.pipeline.replies == (REPLY,)
    again = decide_reply(task(TaskState.RUNNING), kept.pipeline, replace(REPLY, reply_id="r2"), 0.0)
    assert again == NotTaken("answered_before")


@pytest.mark.parametrize("state", [TaskState.CANCELLED, TaskState.FAILED, TaskState.SUCCEEDED])
@pytest.mark.parametrize("pipeline", [ASKED, JUDGED], ids=["runs", "has ended"])
def test_a_task_that_is_over_is_not_revived(state: TaskState, pipeline: Pipeline):
    assert decide_reply(task(state), pipeline, REPLY, 0.0) == NotTaken("not_waiting")


def test_a_reply_after_the_deadline_comes_too_late():
    waiting = task(TaskState.WAITING_INPUT, 50.0)
    assert isinstance(decide_reply(waiting, JUDGED, REPLY, 49.9), Wake)
    assert decide_reply(waiting, JUDGED, REPLY, 50.0) == NotTaken("too_late")


def test_an_unknown_card_is_not_answered():
    stranger = replace(REPLY, question_id=ID_3)
    assert decide_reply(task(TaskState.WAITING_INPUT), JUDGED, stranger, 0.0) == NotTaken("not_waiting")
    assert decide_reply(task(TaskState.RUNNING), ASKED, stranger, 0.0) == NotTaken("not_waiting")
