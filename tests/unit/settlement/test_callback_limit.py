"""What is cut from a callback that is too large, and in which order."""

import json
from typing import Any

import pytest

from settlement.callback import (
    MAX_BODY_BYTES,
    FailureSettlement,
    SuccessSettlement,
    Terminal,
    UndeliveredMessage,
    to_body,
)
from settlement.callback_limit import cut_text
from settlement.wire import json_bytes
from tests.unit.settlement.samples import ASK_USER, a_terminal, asked, keep_previous


def cut(**parts: Any) -> dict[str, Any]:
    """The body of a terminal with these parts, which must be within the limit and still be readable."""
    body = to_body(a_terminal(**parts))
    assert len(body) <= MAX_BODY_BYTES
    Terminal.model_validate_json(body)
    return json.loads(body)


def messages(*texts: str) -> tuple[UndeliveredMessage, ...]:
    return tuple(UndeliveredMessage(queue="steering", text=text) for text in texts)


def test_what_fits_is_not_touched():
    text = "x" * 15_000
    body = cut(settlement=SuccessSettlement(text=text), warnings=("w" * 1000,), undelivered=messages("u" * 1000))
    assert body["settlement"] == {"kind": "success", "text": text, "structured": None}
    assert body["warnings"] == ["w" * 1000]
    assert body["undelivered"] == [{"queue": "steering", "text": "u" * 1000}]


def test_a_body_of_exactly_the_limit_is_not_touched():
    room = MAX_BODY_BYTES - len(to_body(a_terminal(settlement=SuccessSettlement(text=""))))
    assert "truncated" not in cut(settlement=SuccessSettlement(text="x" * room))["settlement"]
    assert cut(settlement=SuccessSettlement(text="x" * (room + 1)))["settlement"]["truncated"] is True


def test_warnings_go_first_and_the_last_ones_of_them():
    warnings = tuple(f"warning {number:02d} " + "w" * 500 for number in range(50))
    body = cut(warnings=warnings, undelivered=messages("u" * 2000), settlement=SuccessSettlement(text="x" * 2000))
    kept = body["warnings"][:-1]
    assert tuple(kept) == warnings[: len(kept)]
    assert body["warnings"][-1] == f"{50 - len(kept)} more warnings were cut to keep the callback small"
    assert 25 < len(kept) < 50
    assert body["undelivered"][0]["text"] == "u" * 2000
    assert "truncated" not in body["settlement"]


def test_one_huge_warning_goes_whole():
    assert cut(warnings=("w" * 30_000,))["warnings"] == ["1 more warnings were cut to keep the callback small"]


def test_undelivered_texts_go_next_the_longest_first():
    body = cut(
        warnings=("w" * 1000,),
        undelivered=messages("u" * 30_000, "short", "v" * 30_000),
        settlement=SuccessSettlement(text="x" * 2000),
    )
    first, second, third = (message["text"] for message in body["undelivered"])
    assert second == "short"
    assert first.rstrip("…") == "u" * (len(first) - 1)
    assert len(first) == len(third) > 7000
    assert first[-1] == third[-1] == "…"
    assert body["warnings"] == []
    assert "truncated" not in body["settlement"]


def test_of_too_many_undelivered_messages_the_last_ones_go():
    body = cut(undelivered=messages(*(["text"] * 5000)))
    assert body["undelivered"] == [{"queue": "steering", "text": "text"}] * 50


def test_undelivered_messages_go_altogether_before_the_limit_is_broken():
    failure = a_failure("m" * 100, 470)
    body = cut(settlement=failure, checkpoint=keep_previous(), undelivered=messages(*(["text"] * 50)))
    assert 0 < len(body["undelivered"]) < 50
    assert {message["text"] for message in body["undelivered"]} == {""}
    assert len(body["settlement"]["withdrawn_questions"]) == 470


def test_the_success_text_goes_next_and_says_so():
    body = cut(warnings=("w" * 500,), undelivered=messages("u" * 500), settlement=SuccessSettlement(text="é" * 30_000))
    settlement = body["settlement"]
    assert settlement["truncated"] is True
    assert set(settlement["text"]) == {"é"}
    assert len(settlement["text"]) > 9000
    assert body["warnings"] == []
    assert body["undelivered"] == [{"queue": "steering", "text": ""}]


def test_the_text_is_cut_as_late_as_possible():
    body = to_body(a_terminal(settlement=SuccessSettlement(text="x" * 30_000)))
    assert len(body) == MAX_BODY_BYTES


def test_structured_output_that_does_not_fit_goes_whole():
    huge = SuccessSettlement(text="summary", structured={"rows": ["r" * 100] * 300})
    settlement = cut(settlement=huge)["settlement"]
    assert settlement == {"kind": "success", "text": "summary", "structured": None, "truncated": True}


def test_structured_output_that_fits_outlives_the_text():
    both = SuccessSettlement(text="t" * 30_000, structured={"rows": ["r" * 100] * 50})
    settlement = cut(settlement=both)["settlement"]
    assert settlement["structured"] == {"rows": ["r" * 100] * 50}
    assert 0 < len(settlement["text"]) < 15_000


def test_the_result_text_goes_last_and_the_questions_stay():
    interruption = ASK_USER.interruption.model_copy(update={"result_text": "r" * 30_000})
    questions = asked("call-1", "call-2")
    body = cut(
        settlement=ASK_USER.model_copy(update={"interruption": interruption}),
        questions=questions,
        warnings=("w",),
        undelivered=messages("u"),
    )
    assert body["settlement"]["interruption"]["result_text"].startswith("rrr")
    assert body["settlement"]["interruption"]["result_text"].endswith("…")
    assert body["questions"] == [question.model_dump() for question in questions]
    assert body["warnings"] == []


def a_failure(message: str, withdrawn: int) -> FailureSettlement:
    return FailureSettlement(
        reason="internal",
        message=message,
        retryable=False,
        resumable=True,
        withdrawn_questions=tuple(
            question.question_id for question in asked(*(f"call-{number}" for number in range(withdrawn)))
        ),
    )


def test_a_failure_keeps_its_withdrawn_questions_and_loses_its_message():
    body = cut(settlement=a_failure("m" * 30_000, 200), checkpoint=keep_previous())
    assert len(body["settlement"]["withdrawn_questions"]) == 200
    assert body["settlement"]["message"].endswith("m…")


@pytest.mark.parametrize("withdrawn", [1000])
def test_questions_alone_over_the_limit_are_sent_over_the_limit(withdrawn: int):
    terminal = a_terminal(
        settlement=a_failure("m" * 100, withdrawn),
        checkpoint=keep_previous(),
        warnings=("w",),
        undelivered=messages("u"),
    )
    encoded = to_body(terminal)
    body = json.loads(encoded)
    assert len(encoded) > MAX_BODY_BYTES
    assert len(body["settlement"]["withdrawn_questions"]) == withdrawn
    assert body["warnings"] == body["undelivered"] == []
    assert body["settlement"]["message"] == ""


@pytest.mark.parametrize(
    ("text", "room", "kept"),
    [
        ("", 5, ""),
        ("abc", 2, "ab"),
        ("abc", 3, "abc"),
        ("abc", 0, ""),
        ("abc", -9, ""),
        ("aé", 2, "a"),
        ("aé", 3, "aé"),
        ("👍👍", 7, "👍"),
        ('""', 3, '"'),
        ("\n\n", 3, "\n"),
        ("\x01\x01", 11, "\x01"),
    ],
)
def test_a_cut_falls_between_characters(text: str, room: int, kept: str):
    assert cut_text(text, room) == kept
    assert len(json_bytes(kept)) - 2 <= max(room, 0)
