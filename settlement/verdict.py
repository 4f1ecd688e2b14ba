"""What follows from one try to deliver: the table of answers, pure.

Refuses to know a clock or a network; `delivery.py` brings both. A server's answer is final unless the table
says that the same bytes may fare better later.

Sources: docs/callbacks.md; RFC 9110 10.2.3 (Retry-After); RFC 9457 (problem types).
"""

import re
from datetime import UTC
from typing import TypeAlias

from msgspec import Struct

FIRST_BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0
LAST_TRY_S = 0.5
"""What is kept of the budget so that a wait ends in one more try; with less left, none is worth it."""


class Answer(Struct, frozen=True):
    """What the server said."""

    status: int
    problem_type: str | None = None
    """`type` of a problem document; read for 409 only."""
    retry_after: str | None = None
    """The header as it came."""


class NoAnswer(Struct, frozen=True):
    """The try ended without a status that can be relied on."""

    what: str
    """A few words without addresses or secrets: `no answer within 15 s`, `could not connect`."""
    may_have_arrived: bool


class Delivered(Struct, frozen=True):
    """2xx: the server has it."""


class Retry(Struct, frozen=True):
    delay_s: float


class Rejected(Struct, frozen=True):
    """The server will never take it: 410, or 409 for any reason but `in-flight`. Exit code 76."""

    status: int
    problem_type: str | None


class Refused(Struct, frozen=True):
    """The server did not understand or not allow it; the same again would fail the same way. Exit code 77."""

    status: int


class GaveUp(Struct, frozen=True):
    """No final answer within the budget. Exit code 77."""

    last: Answer | NoAnswer | None
    """None: there was no time for a single try."""


Verdict: TypeAlias = Delivered | Retry | Rejected | Refused | GaveUp
FinalVerdict: TypeAlias = Delivered | Rejected | Refused | GaveUp


def verdict(
    answer: Answer | NoAnswer,
    *,
    tries: int,
    elapsed_s: float,
    budget_s: float,
    chance: float,
    now_s: float,
) -> Verdict:
    """What follows from one try.

    `tries` counts from 1 and includes this one; `elapsed_s` is since the first began; `chance` is in [0, 1);
    `now_s` is Unix time, for a Retry-After that names a date.
    """
    retry_after_s = 0.0
    if isinstance(answer, Answer):
        final = _final(answer)
        if final is not None:
            return final
        retry_after_s = parse_retry_after(answer.retry_after, now_s) or 0.0
    longest_wait_s = budget_s - elapsed_s - LAST_TRY_S
    if longest_wait_s <= 0 or retry_after_s > longest_wait_s:
        return GaveUp(answer)
    backoff_s = chance * min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(tries - 1, 10))
    return Retry(min(max(backoff_s, retry_after_s), longest_wait_s))


def _final(answer: Answer) -> Delivered | Rejected | Refused | None:
    match answer.status:
        case status if 200 <= status <= 299:
            return Delivered()
        case 409:
            return None if _is_in_flight(answer) else Rejected(409, answer.problem_type)
        case 410:
            return Rejected(410, answer.problem_type)
        case 408 | 425 | 429:
            return None
        case status if 500 <= status <= 599:
            return None
        case status:
            return Refused(status)


def _is_in_flight(answer: Answer) -> bool:
    return answer.problem_type is not None and answer.problem_type.endswith("in-flight")


def may_be_taken(answer: Answer | NoAnswer) -> bool:
    """Whether the server may hold what was sent although this answer does not say so."""
    if isinstance(answer, NoAnswer):
        return answer.may_have_arrived
    return answer.status >= 500 or (answer.status == 409 and _is_in_flight(answer))


def parse_retry_after(value: str | None, now_s: float) -> float | None:
    """Seconds to wait, at least 0; None for a header that is missing or malformed."""
    if value is None:
        return None
    value = value.strip()
    if re.fullmatch(r"[0-9]{1,18}", value):
        return float(value)
    from email.utils import parsedate_to_datetime  # 10 ms of every start, for a header that hardly ever comes

    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # "-0000", which HTTP does not have
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now_s)
