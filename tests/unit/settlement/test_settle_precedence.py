"""The cross product of all facts against an independent statement of the precedence.

The statement lists, for every row, when it holds, without regard to the others; the order is the list of
names. The function under test is written the other way round, as a chain of rows that return.
"""

from itertools import product

from settlement.outcome import (
    BeforeRunFailure,
    Interruption,
    LastAssistant,
    ModelFailure,
    Outcome,
    SentQuestion,
    Stop,
    StopReason,
)
from settlement.settle import Failure, settle

ORDER = (
    "lost",
    "persistence_failed",
    "checkpoint_failed",
    "defect",
    "ask_user",
    "output_truncated",
    "empty_answer",
    "success",
    "cancelled",
    "paused",
    "turn_limit",
    "token_limit",
    "cost_limit",
    "deadline_exceeded",
    "restore_failed",
    "raised",
    "model_overloaded",
    "anything",
)
INTERNAL = {"defect", "raised", "anything"}

REASONS: list[StopReason] = [
    "interruption",
    "cancelled",
    "paused",
    "turn_limit",
    "token_limit",
    "cost_limit",
    "deadline_exceeded",
]
STOPS: list[Stop | None] = [None, *(Stop(reason, another) for reason in REASONS for another in (True, False))]

OVERLOADED = ModelFailure("model_overloaded", "busy", True)
LASTS: list[tuple[LastAssistant | None, tuple[str, ...], ModelFailure | None]] = [
    (None, (), None),
    (LastAssistant("stop", "Done.", False), (), None),
    (LastAssistant("stop", "", False), (), None),
    (LastAssistant("toolUse", "", True), (), None),
    (LastAssistant("toolUse", "", True), ("ok",), None),
    (LastAssistant("length", "", False), (), None),
    (LastAssistant("error", "", False), (), None),
    (LastAssistant("error", "", False), (), OVERLOADED),
    (LastAssistant("aborted", "Half", False), (), None),
]
ASKED = Interruption("call-1", "ask_user", '{"ask_user_sent": true}')
PROVEN = SentQuestion("ask_1", "call-1", "ask_user", "e1", confirmed=True, result_logged=True)
UNSENT = SentQuestion("ask_1", "call-1", "ask_user", "e1", confirmed=False, result_logged=True)
UNLOGGED = SentQuestion("ask_1", "call-1", "ask_user", "e1", confirmed=True, result_logged=False)
QUESTIONS: list[tuple[Interruption | None, tuple[SentQuestion, ...]]] = [
    (None, ()),
    (None, (PROVEN,)),
    (ASKED, (PROVEN,)),
    (ASKED, (UNSENT,)),
    (ASKED, (UNLOGGED,)),
]
BROKEN: list[dict[str, str]] = [
    {},
    {"log_broken": "full"},
    {"defect": "KeyError"},
    {"checkpoint_failed": "503"},
    {"lost": "dead"},
    {"log_broken": "full", "defect": "KeyError"},
    {"checkpoint_failed": "503", "defect": "KeyError"},
    {"lost": "dead", "log_broken": "full", "checkpoint_failed": "503", "defect": "KeyError"},
]


def rows_that_hold(o: Outcome) -> set[str]:
    message = o.last_assistant.stop_reason if o.last_assistant else None
    prompt_error = bool(o.log_broken or o.prompt_raised) or message in ("error", "aborted")
    open_end = o.stop is not None and o.stop.another_turn
    asked_end = o.stop is not None and o.stop.reason == "interruption"
    by_itself = not (prompt_error or open_end or asked_end or o.before_run) and message is not None
    any_text = bool(o.last_assistant and o.last_assistant.text) or any(o.terminating_texts)
    stopped_for = o.stop.reason if o.stop is not None and open_end else None
    aborted_by_whom = o.aborted_for or "cancelled" if message == "aborted" else o.aborted_for

    holds: dict[str, bool] = {
        "lost": bool(o.lost),
        "persistence_failed": bool(o.log_broken),
        "checkpoint_failed": bool(o.checkpoint_failed),
        "defect": bool(o.defect),
        "ask_user": o.interruption is not None and o.questions == (PROVEN,) and not prompt_error,
        "output_truncated": by_itself and message == "length",
        "empty_answer": by_itself and message != "length" and not any_text,
        "success": by_itself and message != "length" and any_text,
        "cancelled": "cancelled" in (stopped_for, aborted_by_whom),
        "paused": stopped_for == "paused",
        "turn_limit": stopped_for == "turn_limit",
        "token_limit": stopped_for == "token_limit",
        "cost_limit": stopped_for == "cost_limit",
        "deadline_exceeded": "deadline_exceeded" in (stopped_for, aborted_by_whom),
        "restore_failed": o.before_run is not None,
        "raised": bool(o.prompt_raised),
        "model_overloaded": message == "error" and o.model_failure is not None,
        "anything": True,
    }
    return {name for name, held in holds.items() if held}


def expected(outcome: Outcome) -> str:
    held = rows_that_hold(outcome)
    first = next(name for name in ORDER if name in held)
    return "internal" if first in INTERNAL else first


def test_every_combination_of_facts_settles_as_the_first_row_that_holds() -> None:
    seen: set[str] = set()
    before: list[BeforeRunFailure | None] = [None, BeforeRunFailure("restore_failed", "gone")]
    aborts = (None, "cancelled", "deadline_exceeded")
    for broken, asked, stop, abort, raised, last, not_started in product(
        BROKEN, QUESTIONS, STOPS, aborts, (None, "ValueError"), LASTS, before
    ):
        outcome = Outcome(
            log_broken=broken.get("log_broken"),
            defect=broken.get("defect"),
            checkpoint_failed=broken.get("checkpoint_failed"),
            lost=broken.get("lost"),
            before_run=not_started,
            interruption=asked[0],
            questions=asked[1],
            stop=stop,
            aborted_for=abort,
            prompt_raised=raised,
            last_assistant=last[0],
            terminating_texts=last[1],
            model_failure=last[2],
        )
        settlement = settle(outcome)
        got = settlement.reason if isinstance(settlement, Failure) else settlement.kind
        assert got == expected(outcome), outcome
        seen.add(got)
    assert seen == (set(ORDER) - INTERNAL) | {"internal"}
