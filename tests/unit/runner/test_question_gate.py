import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from runner.agent.abort import AbortController
from runner.interruption import MAX_CALL_ID_CHARS, AskedCall
from runner.question_gate import (
    MAX_QUESTIONS,
    Ask,
    Asked,
    Asker,
    NotAsked,
    QuestionGate,
    Refused,
    SendResult,
    Unreachable,
)
from settlement.outcome import SentQuestion
from settlement.question import question_id
from tests.fakes.questions import FakeQuestionSender

pytestmark = pytest.mark.anyio

ID = question_id("p1", "e1", "call-1")
RECORD = SentQuestion(ID, "call-1", "ask_user", "e1")


def gate_over(sender: FakeQuestionSender | None, entry_id: str | None = "e1") -> QuestionGate:
    return QuestionGate(
        sender=sender,
        asker=Asker("p1", 2, "s1", {"owner": "web:7"}),
        assistant_entry_id=lambda: entry_id,
        now=lambda: datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
    )


def ask(call_id: str = "call-1", **fields: Any) -> Ask:
    return replace(Ask(tool_call_id=call_id, tool_name="ask_user", question="Which one?"), **fields)


async def test_the_question_names_who_asks_and_is_known_by_where_it_stands_in_the_session() -> None:
    sender = FakeQuestionSender()
    answer = await gate_over(sender).ask(ask(context="c", options=("a", "b"), stream_id="st"), None)
    assert answer == Asked(ID)
    assert sender.questions[0].model_dump(mode="json") == {
        "version": 1,
        "type": "question",
        "question_id": ID,
        "pipeline_id": "p1",
        "attempt": 2,
        "session_id": "s1",
        "tool_call_id": "call-1",
        "tool_name": "ask_user",
        "question": "Which one?",
        "context": "c",
        "options": ["a", "b"],
        "form": None,
        "stream_id": "st",
        "labels": {"owner": "web:7"},
        "asked_at": "2026-01-02T03:04:05.678Z",
    }


async def test_a_taken_question_is_recorded_as_confirmed() -> None:
    gate = gate_over(FakeQuestionSender())
    await gate.ask(ask(), None)
    assert gate.sent == (RECORD,)


async def test_questions_are_recorded_in_the_order_of_asking_not_of_answering() -> None:
    sender = FakeQuestionSender(held=True)
    gate = gate_over(sender)
    first = asyncio.ensure_future(gate.ask(ask("call-1"), None))
    await sender.came.wait()
    second = asyncio.ensure_future(gate.ask(ask("call-2"), None))
    sender.release()
    await asyncio.gather(second, first)
    assert [record.tool_call_id for record in gate.sent] == ["call-1", "call-2"]


@pytest.mark.parametrize("result", [Refused("No."), Unreachable("Nobody there.")])
async def test_a_question_that_surely_did_not_arrive_is_not_recorded(result: SendResult) -> None:
    gate = gate_over(FakeQuestionSender(result))
    answer = await gate.ask(ask(), None)
    assert isinstance(answer, NotAsked)
    assert gate.sent == ()


@pytest.mark.parametrize("result", [Refused("No.", possibly_sent=True), Unreachable("?", possibly_sent=True)])
async def test_a_question_that_may_have_arrived_is_recorded_as_unconfirmed(result: SendResult) -> None:
    gate = gate_over(FakeQuestionSender(result))
    assert isinstance(await gate.ask(ask(), None), NotAsked)
    assert [record.confirmed for record in gate.sent] == [False]


async def test_a_defect_of_the_sender_leaves_the_question_possibly_sent() -> None:
    gate = gate_over(FakeQuestionSender(KeyError("x")))
    with pytest.raises(KeyError):
        await gate.ask(ask(), None)
    assert [record.confirmed for record in gate.sent] == [False]


async def test_a_server_that_takes_no_more_questions_of_this_pipeline_closes_the_gate() -> None:
    sender = FakeQuestionSender(Refused("No more.", may_not_ask=True))
    gate = gate_over(sender)
    await gate.ask(ask("call-1"), None)
    assert isinstance(await gate.ask(ask("call-2"), None), NotAsked)
    assert len(sender.questions) == 1


async def test_a_closed_gate_sends_nothing() -> None:
    sender = FakeQuestionSender()
    gate = gate_over(sender)
    gate.close()
    answer = await gate.ask(ask(), None)
    assert isinstance(answer, NotAsked)
    assert "the run is over" in answer.message
    assert sender.questions == []
    assert gate.sent == ()


async def test_an_aborted_run_asks_nothing_new() -> None:
    sender, controller = FakeQuestionSender(), AbortController()
    controller.abort()
    assert isinstance(await gate_over(sender).ask(ask(), controller.signal), NotAsked)
    assert sender.questions == []


async def test_without_a_server_the_answer_comes_at_once_and_says_what_to_do() -> None:
    answer = await gate_over(None).ask(ask(), None)
    assert isinstance(answer, NotAsked)
    assert "Go on with what you know" in answer.message


async def test_without_an_assistant_entry_nothing_is_asked() -> None:
    sender = FakeQuestionSender()
    assert isinstance(await gate_over(sender, entry_id=None).ask(ask(), None), NotAsked)
    assert sender.questions == []


async def test_a_call_id_is_asked_once_per_message() -> None:
    sender = FakeQuestionSender()
    gate = gate_over(sender)
    assert isinstance(await gate.ask(ask(), None), Asked)
    assert isinstance(await gate.ask(ask(question="Another?"), None), NotAsked)
    assert len(sender.questions) == 1


async def test_a_call_id_that_no_callback_could_carry_is_not_asked_for() -> None:
    sender = FakeQuestionSender()
    answer = await gate_over(sender).ask(ask("x" * (MAX_CALL_ID_CHARS + 1)), None)
    assert answer == NotAsked("The question was not sent: the id of this call is too long to be answered.")
    assert sender.questions == []


async def test_the_number_of_questions_is_bounded() -> None:
    sender = FakeQuestionSender()
    gate = gate_over(sender)
    answers = [await gate.ask(ask(f"call-{number}"), None) for number in range(MAX_QUESTIONS + 1)]
    assert [type(answer) for answer in answers] == [Asked] * MAX_QUESTIONS + [NotAsked]
    assert len(sender.questions) == MAX_QUESTIONS


async def test_an_abort_while_the_question_is_under_way_does_not_lose_that_it_was_taken() -> None:
    sender, controller = FakeQuestionSender(held=True), AbortController()
    gate = gate_over(sender)
    asking = asyncio.ensure_future(gate.ask(ask(), controller.signal))
    await sender.came.wait()
    controller.abort()
    sender.release()
    assert await asking == Asked(ID)


async def test_a_cancelled_tool_call_does_not_cancel_the_sending() -> None:
    sender = FakeQuestionSender(held=True)
    gate = gate_over(sender)
    asking = asyncio.ensure_future(gate.ask(ask(), None))
    await sender.came.wait()
    asking.cancel()
    await asyncio.wait({asking})
    sender.release()
    await gate.drain(timeout_s=5)
    assert gate.sent == (RECORD,)


async def test_while_a_question_is_under_way_it_counts_as_possibly_sent() -> None:
    sender = FakeQuestionSender(held=True)
    gate = gate_over(sender)
    asking = asyncio.ensure_future(gate.ask(ask(), None))
    await sender.came.wait()
    assert [record.confirmed for record in gate.sent] == [False]
    sender.release()
    await asking
    assert [record.confirmed for record in gate.sent] == [True]


async def test_draining_cuts_off_what_has_no_answer_in_time_and_keeps_it_as_possibly_sent() -> None:
    sender = FakeQuestionSender(held=True)
    gate = gate_over(sender)
    asking = asyncio.ensure_future(gate.ask(ask(), None))
    await sender.came.wait()
    await gate.drain(timeout_s=0)
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert [record.confirmed for record in gate.sent] == [False]


async def test_the_question_of_a_further_asking_tool_gets_the_id_of_its_call() -> None:
    gate = gate_over(FakeQuestionSender())
    gate.note(AskedCall("call-9", "jira__ask"))
    assert gate.sent == (SentQuestion(question_id("p1", "e1", "call-9"), "call-9", "jira__ask", "e1"),)


async def test_noting_a_question_that_went_through_the_gate_changes_nothing() -> None:
    gate = gate_over(FakeQuestionSender())
    await gate.ask(ask(), None)
    gate.note(AskedCall("call-1", "ask_user"))
    assert gate.sent == (RECORD,)


async def test_a_question_noted_with_no_entry_to_stand_in_is_not_recorded() -> None:
    gate = gate_over(None, entry_id=None)
    gate.note(AskedCall("call-9", "jira__ask"))
    assert gate.sent == ()
