"""The table of answers, walked over every status; waits and budgets."""

from email.utils import formatdate

import pytest

from settlement.verdict import (
    Answer,
    Delivered,
    GaveUp,
    NoAnswer,
    Refused,
    Rejected,
    Retry,
    Verdict,
    may_be_taken,
    parse_retry_after,
    verdict,
)

NOW_S = 1_800_000_000.0
AGAIN = {408, 425, 429, *range(500, 600)}


def after(
    answer: Answer | NoAnswer,
    *,
    tries: int = 1,
    elapsed_s: float = 1.0,
    budget_s: float = 600.0,
    chance: float = 0.5,
) -> Verdict:
    return verdict(answer, tries=tries, elapsed_s=elapsed_s, budget_s=budget_s, chance=chance, now_s=NOW_S)


@pytest.mark.parametrize("status", range(100, 1000))
def test_every_status_has_its_row(status: int):
    found = after(Answer(status))
    if 200 <= status <= 299:
        assert found == Delivered()
    elif status in (409, 410):
        assert found == Rejected(status, None)
    elif status in AGAIN:
        assert isinstance(found, Retry)
    else:
        assert found == Refused(status)


@pytest.mark.parametrize("arrived", [True, False])
def test_no_answer_is_tried_again(arrived: bool):
    assert isinstance(after(NoAnswer("x", may_have_arrived=arrived)), Retry)


@pytest.mark.parametrize("kind", ["in-flight", "https://problems.example/in-flight", "urn:x:in-flight"])
def test_a_conflict_in_flight_is_tried_again(kind: str):
    assert isinstance(after(Answer(409, kind)), Retry)


@pytest.mark.parametrize("kind", [None, "", "superseded", "in-flight-elsewhere", "x/in-flight/", "IN-FLIGHT"])
def test_any_other_conflict_is_final(kind: str | None):
    assert after(Answer(409, kind)) == Rejected(409, kind)


def test_gone_is_final_whatever_its_problem():
    assert after(Answer(410, "in-flight")) == Rejected(410, "in-flight")


# --- waits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tries", "longest_s"), [(1, 0.5), (2, 1), (3, 2), (4, 4), (5, 8), (6, 16), (7, 30), (8, 30), (5000, 30)]
)
def test_the_wait_is_a_share_of_a_bound_that_doubles_up_to_half_a_minute(tries: int, longest_s: float):
    assert after(Answer(503), tries=tries, chance=0.0) == Retry(0.0)
    assert after(Answer(503), tries=tries, chance=0.5) == Retry(longest_s / 2)


def test_a_longer_retry_after_wins():
    assert after(Answer(429, retry_after="7")) == Retry(7.0)


def test_a_shorter_retry_after_does_not_shorten_the_wait():
    assert after(Answer(429, retry_after="1"), tries=7) == Retry(15.0)


def test_a_date_counts_from_now():
    assert after(Answer(503, retry_after=formatdate(NOW_S + 20, usegmt=True))) == Retry(20.0)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("٣", None),
        ("9" * 400, None),
        ("0", 0.0),
        (" 12 ", 12.0),
        ("999999999999999999", 999999999999999999.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Thu, 99 Jan 2026 00:00:00 GMT", None),
        ("Thu, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Thu, 01 Jan 2026 00:00:00 +99999999999999", None),
        ("Thu, 01 Jan 1970 00:00:00 -0000", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None):
    assert parse_retry_after(header, NOW_S) == seconds


# --- the budget -------------------------------------------------------------------------------------------


def test_a_wait_is_cut_so_that_one_more_try_fits():
    assert after(Answer(503), tries=8, chance=0.9, elapsed_s=590.0) == Retry(9.5)


def test_with_no_time_for_another_try_it_is_over():
    answer = Answer(503)
    assert after(answer, elapsed_s=599.5) == GaveUp(answer)
    assert after(answer, elapsed_s=700) == GaveUp(answer)


def test_a_server_that_wants_to_be_left_alone_for_longer_than_the_budget_is():
    answer = Answer(503, retry_after="3600")
    assert after(answer) == GaveUp(answer)


def test_a_last_answer_that_is_final_counts_also_after_the_budget():
    assert after(Answer(200), elapsed_s=9999) == Delivered()
    assert after(Answer(410), elapsed_s=9999) == Rejected(410, None)


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        (NoAnswer("x", may_have_arrived=True), True),
        (NoAnswer("x", may_have_arrived=False), False),
        (Answer(500), True),
        (Answer(503), True),
        (Answer(409, "in-flight"), True),
        (Answer(409, "superseded"), False),
        (Answer(429), False),
        (Answer(401), False),
    ],
)
def test_what_may_have_been_taken_in_spite_of_the_answer(answer: Answer | NoAnswer, taken: bool):
    assert may_be_taken(answer) is taken
