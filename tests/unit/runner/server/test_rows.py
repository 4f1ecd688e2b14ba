"""The stored cards answer routing as a list searched by brute force does, and two writers do not come between."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkpoint.jsontypes import JsonObject
from runner.server.database import Database
from runner.server.people import Denied, NewTask, cancel_task, expire_tasks, start_task, take_message, take_reply
from runner.server.rows import Rows
from runner.server.taking import Moment, take_question, take_terminal
from settlement.commit_rule import Card, Reply
from settlement.question import to_body
from settlement.routing import Address, CardPlace, from_api, quote_key
from settlement.tasks import Task, TaskState
from tests.fakes.card_index import CardIndex, StoredCard
from tests.unit.settlement.samples import (
    ASK_USER,
    a_question,
    a_terminal,
    asked,
    digest_of,
    received_question,
    received_terminal,
)

STREAMS, OWNERS, TEXTS = ("room", "hall"), ("chat:ann", "chat:bob", "mail:ann", "odd"), ("Sure?", "Which  region?")


class Undone(Exception):
    """Takes back what an example stored."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "server.sqlite")
    yield database
    database.close()


def moment(now_s: float = 100.0, reply_timeout_s: float | None = None) -> Moment:
    numbers = iter(range(1000))
    return Moment(now_s, lambda: f"next-{next(numbers)}", reply_timeout_s)


cards = st.lists(
    st.tuples(
        st.sampled_from(STREAMS),
        st.sampled_from(OWNERS),
        st.sampled_from(TEXTS),
        st.sampled_from(["open", "answered", "withdrawn"]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=8,
)
addresses = st.builds(
    Address, st.sampled_from(STREAMS), st.sampled_from(["ann", "bob"]), st.sampled_from([None, "chat:ann", "mail:ann"])
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cards, st.lists(addresses, min_size=1, max_size=4))
def test_the_stored_cards_are_found_as_by_brute_force(
    database: Database, asked_cards: list[tuple[str, str, str, str, bool, bool]], asking: list[Address]
) -> None:
    def compare(rows: Rows) -> None:
        index = CardIndex(tuple(store(rows, number, card) for number, card in enumerate(asked_cards)))
        for address in asking:
            for waiting in (True, False):
                assert rows.first(address, waiting=waiting) == index.first(address, waiting=waiting)
            for text in TEXTS:
                assert rows.quoted(address, quote_key(text)) == index.quoted(address, quote_key(text))
        for card in index.cards:
            assert rows.named(card.place.question_id) == card.place
        raise Undone

    with pytest.raises(Undone):
        database.submit(compare).result(10)


def store(rows: Rows, number: int, card: tuple[str, str, str, str, bool, bool]) -> StoredCard:
    stream_id, owner, text, standing, waiting, replied = card
    waiting = waiting and standing == "open"
    session_id, task_id, pipeline_id, question_id = (f"{kind}{number}" for kind in "stpq")
    rows.add_session(session_id, stream_id, owner, 0.0)
    rows.add_task(Task(task_id, session_id), "Deploy.", 0.0)
    rows.add_pipeline(pipeline_id, session_id, task_id, {}, 0.0)
    place = CardPlace(question_id, pipeline_id, task_id, stream_id, owner)
    rows.add_card(Card(question_id, "call_1", digest_of(text), "open"), place, text, "{}")
    if waiting:
        rows.save_task(Task(task_id, session_id, TaskState.WAITING_INPUT), 0.0)
    if replied:
        rows.add_reply(Reply(f"r{number}", question_id, "x"), "d", pipeline_id, {}, 0.0, kept=True)
    if standing != "open":
        found = rows.pipeline(pipeline_id)
        assert found is not None
        (stored,) = found[1].cards
        closed = replace(stored, standing="answered" if standing == "answered" else "withdrawn")
        rows.save_pipeline(found[1], replace(found[1], cards=(closed,)))
    return StoredCard(place, text, standing, waiting, replied)


# --- whole transactions -------------------------------------------------------------------------------------


def waiting_task(database: Database, reply_timeout_s: float | None = None) -> str:
    """A task of `chat:ann` in `room` that waits for the answer to the question whose id is returned."""
    now = Moment(100.0, lambda: "p1", reply_timeout_s)
    question = a_question()
    record = received_terminal(a_terminal(settlement=ASK_USER, questions=asked("call-1")))

    def wait(rows: Rows) -> None:
        assert isinstance(start_task(rows, "Deploy.", NewTask("s1", "t1"), "room", "chat:ann", now), NewTask)
        rows.mark_launched("p1", 1, 100.0)
        rows.save_task(Task("t1", "s1", TaskState.RUNNING), 100.0)
        assert take_question(rows, received_question(question), to_body(question).decode(), now) is None
        assert take_terminal(rows, record, "{}", now) is None

    database.submit(wait).result(10)
    return question.question_id


def state(database: Database) -> tuple[str, str | None, int]:
    def read(rows: Rows) -> tuple[str, str | None, int]:
        task = rows.task("t1")
        assert task is not None
        return task.state.value, task.reason, len(rows.pipelines_of("s1"))

    return database.read_now(read)


def test_two_servers_on_one_file_wake_a_task_once(tmp_path: Path) -> None:
    first, second = Database(tmp_path / "server.sqlite"), Database(tmp_path / "server.sqlite")
    try:
        question_id = waiting_task(first)
        together, outcomes = Barrier(2), list[JsonObject | Denied]()

        def answer(database: Database, reply_id: str) -> None:
            together.wait(10)
            reply = Reply(reply_id, question_id, "staging")
            outcomes.append(database.submit(lambda rows: take_reply(rows, reply, moment())).result(10))

        workers = [Thread(target=answer, args=(database, f"r{n}")) for n, database in enumerate((first, second))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(20)
        found = sorted(answer["outcome"] for answer in outcomes if isinstance(answer, dict))
        assert found == ["not_taken", "woken"]
        assert state(first) == ("RUNNING", None, 2)
    finally:
        first.close()
        second.close()


def test_the_second_delivery_gets_the_answer_of_the_first_and_wakes_nothing(database: Database) -> None:
    waiting_task(database)
    message = from_api("room", "chat", "ann", "staging")
    once = database.submit(lambda rows: take_message(rows, message, "m1", moment())).result(10)
    twice = database.submit(lambda rows: take_message(rows, message, "m1", moment())).result(10)
    assert isinstance(once, dict)
    assert (once["outcome"], twice) == ("woken", once)
    assert state(database) == ("RUNNING", None, 2)
    other = from_api("room", "chat", "ann", "production")
    refused = database.submit(lambda rows: take_message(rows, other, "m1", moment())).result(10)
    assert isinstance(refused, Denied)
    assert refused.reason == "other-reply"


def test_a_cancelled_task_is_not_revived_by_a_reply_or_a_record(database: Database) -> None:
    question_id = waiting_task(database)
    database.submit(lambda rows: cancel_task(rows, "t1", moment())).result(10)
    found = database.submit(lambda rows: take_reply(rows, Reply("r1", question_id, "x"), moment())).result(10)
    assert isinstance(found, dict)
    assert found["reason"] == "not_waiting"
    assert state(database) == ("CANCELLED", None, 1)


def test_a_deadline_ends_waiting_and_a_reply_after_it_wakes_nothing(database: Database) -> None:
    question_id = waiting_task(database, reply_timeout_s=50.0)
    late = database.submit(lambda rows: take_reply(rows, Reply("r1", question_id, "x"), moment(150.0))).result(10)
    assert isinstance(late, dict)
    assert late["reason"] == "too_late"
    assert database.submit(lambda rows: expire_tasks(rows, moment(149.0))).result(10) == []
    database.submit(lambda rows: expire_tasks(rows, moment(150.0))).result(10)
    assert state(database) == ("FAILED", "reply_timeout", 1)


def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    before = Database(tmp_path / "server.sqlite")
    question_id = waiting_task(before)
    before.close()
    after = Database(tmp_path / "server.sqlite")
    try:
        assert state(after) == ("WAITING_INPUT", None, 1)
        found = after.submit(lambda rows: take_reply(rows, Reply("r1", question_id, "x"), moment())).result(10)
        assert isinstance(found, dict)
        assert found["outcome"] == "woken"
    finally:
        after.close()


def test_a_job_that_fails_takes_back_its_own_work_only(database: Database) -> None:
    def broken(rows: Rows) -> None:
        rows.add_session("broken", "room", "chat:ann", 0.0)
        raise Undone

    jobs = [
        database.submit(lambda rows: rows.add_session("one", "room", "chat:ann", 0.0)),
        database.submit(broken),
        database.submit(lambda rows: rows.add_session("two", "room", "chat:ann", 0.0)),
    ]
    jobs[0].result(10)
    jobs[2].result(10)
    with pytest.raises(Undone):
        jobs[1].result(10)
    found = database.read_now(lambda rows: [rows.session(name) is not None for name in ("one", "broken", "two")])
    assert found == [True, False, True]
