"""Outcome -> settlement: the whole table, as one pure function.

`settle` walks the rows in order of precedence; the first row that holds decides. Refuses to look at
anything but the outcome: no clock, no store, no log. Two rules are the reason for the order. A question is
reported only if it was sent and its result is in the session log, so whatever casts doubt on the log comes
first. And what the agent finished counts, so a natural end beats the cancel, pause or limit that arrived
during its last turn.
"""

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from settlement.outcome import Interruption, LimitReason, Outcome, SentQuestion, StopReason, run_failed
from settlement.reasons import FAILURE_RULES, FailureReason


class AskUser(Struct, frozen=True):
    """The session waits for a person. `questions` is never empty and holds the interruption's own."""

    interruption: Interruption
    questions: tuple[SentQuestion, ...]
    """Every question of the stopped turn that was sent and whose result is logged, in the order of sending.

    Every other card of the pipeline is void. A question of an earlier turn of the same run exists only if
    its result was turned into an error (else the run would have stopped there), so the agent went on
    without it; and a card whose sending never got an answer has an error result, too.
    """
    kind: Literal["ask_user"] = "ask_user"


class Success(Struct, frozen=True):
    text: str
    kind: Literal["success"] = "success"


class Failure(Struct, frozen=True):
    reason: FailureReason
    message: str
    """One sentence: what happened, then what to do. Holds no secret."""
    retryable: bool
    """The same launch may succeed without any change."""
    resumable: bool
    """The session can be continued from its committed restore point."""
    withdrawn_questions: tuple[str, ...] = ()
    """Ids of all questions that went out, or may have: none of them is waited for."""
    kind: Literal["failure"] = "failure"


Settlement: TypeAlias = AskUser | Success | Failure


def settle(outcome: Outcome) -> Settlement:
    """The settlement of a pipeline. Total: every combination of facts has exactly one."""
    for row in ROWS:
        settlement = row(outcome)
        if settlement is not None:
            return settlement
    return _failure(outcome, "internal", "the run ended without an answer")


# --- rows, in order of precedence ---------------------------------------------------------------------------


def _lost(outcome: Outcome) -> Settlement | None:
    return None if outcome.lost is None else _failure(outcome, "lost", outcome.lost)


def _log_broken(outcome: Outcome) -> Settlement | None:
    return None if outcome.log_broken is None else _failure(outcome, "persistence_failed", outcome.log_broken)


def _checkpoint_failed(outcome: Outcome) -> Settlement | None:
    """Whatever the agent achieved, it is not stored; so nothing but a failure may be reported. A failure stays what it
    is if a part of the session is stored: that the end is missing changes nothing about why the run stopped.
    """
    if outcome.checkpoint_failed is None:
        return None
    if outcome.progress_kept:
        settlement = settle(replace(outcome, checkpoint_failed=None))
        if isinstance(settlement, Failure):
            return settlement
    return _failure(outcome, "checkpoint_failed", outcome.checkpoint_failed)


def _defect(outcome: Outcome) -> Settlement | None:
    """Before the run's own rows: a program that is wrong about one thing is not believed about the others."""
    return None if outcome.defect is None else _failure(outcome, "internal", outcome.defect)


def _asked(outcome: Outcome) -> Settlement | None:
    if outcome.interruption is None or run_failed(outcome):
        return None
    questions = questions_of_turn(outcome)
    return AskUser(outcome.interruption, questions) if questions else None


def _ended_by_itself(outcome: Outcome) -> Settlement | None:
    last, stop = outcome.last_assistant, outcome.stop
    if last is None or run_failed(outcome) or outcome.before_run is not None:
        return None
    if stop is not None and (stop.another_turn or stop.reason == "interruption"):
        return None
    if last.stop_reason == "length":
        return _failure(outcome, "output_truncated", "the model's answer was cut at its output limit")
    text = last.text if last.text.strip() else "\n".join(outcome.terminating_texts)
    if not text.strip():
        return _failure(outcome, "empty_answer", "the run ended without any text")
    return Success(text)


def _cancelled_or_paused(outcome: Outcome) -> Settlement | None:
    last, stop = outcome.last_assistant, outcome.stop
    stopped_for = stop.reason if stop is not None and stop.another_turn else None
    unexplained = last is not None and last.stop_reason == "aborted" and outcome.aborted_for is None
    if outcome.aborted_for == "cancelled" or stopped_for == "cancelled" or unexplained:
        return _failure(outcome, "cancelled", "the run was cancelled before its answer was complete")
    if stopped_for == "paused":
        return _failure(outcome, "paused", "the run was paused after a complete turn")
    return None


def _limit(outcome: Outcome) -> Settlement | None:
    reason: LimitReason | None = None
    if outcome.stop is not None and outcome.stop.another_turn:
        reason = _as_limit(outcome.stop.reason)
    if reason is None and outcome.aborted_for == "deadline_exceeded":
        reason = "deadline_exceeded"
    return None if reason is None else _failure(outcome, reason, _LIMIT_WORDS[reason])


def _error(outcome: Outcome) -> Settlement | None:
    if outcome.before_run is not None:
        return _failure(outcome, outcome.before_run.reason, outcome.before_run.message)
    if outcome.prompt_raised is not None:
        return _failure(outcome, "internal", outcome.prompt_raised)
    last, failure = outcome.last_assistant, outcome.model_failure
    if last is None or last.stop_reason != "error":
        return None
    if failure is None:
        return _failure(outcome, "internal", "a part of the run raised an exception")
    return _failure(outcome, failure.reason, failure.message, retryable=failure.retryable)


ROWS: tuple[Callable[[Outcome], Settlement | None], ...] = (
    _lost,
    _log_broken,
    _checkpoint_failed,
    _defect,
    _asked,
    _ended_by_itself,
    _cancelled_or_paused,
    _limit,
    _error,
)


# --- questions ----------------------------------------------------------------------------------------------


def questions_of_turn(outcome: Outcome) -> tuple[SentQuestion, ...]:
    """The questions that the interrupted turn waits for; empty if the interruption's own is not proven.

    A turn is known by the entry of its assistant message, because models reuse call ids in later turns.
    """
    if outcome.interruption is None:
        return ()
    proven = _distinct(question for question in outcome.questions if question.confirmed and question.result_logged)
    own = [question for question in proven if question.tool_call_id == outcome.interruption.tool_call_id]
    return tuple(question for question in proven if own and question.entry_id == own[-1].entry_id)


def _distinct(questions: Iterable[SentQuestion]) -> list[SentQuestion]:
    return list({question.question_id: question for question in questions}.values())


# --- words --------------------------------------------------------------------------------------------------

MAX_DETAIL = 400
"""Characters of what was found that fit into a failure's sentence."""

_LIMIT_WORDS: dict[LimitReason, str] = {
    "turn_limit": "the run reached its limit of turns",
    "token_limit": "the run reached its limit of tokens",
    "cost_limit": "the run reached its limit of cost",
    "deadline_exceeded": "the run reached its deadline",
}


def _as_limit(reason: StopReason) -> LimitReason | None:
    match reason:
        case "turn_limit" | "token_limit" | "cost_limit" | "deadline_exceeded":
            return reason
        case "interruption" | "cancelled" | "paused":
            return None


def _failure(outcome: Outcome, reason: FailureReason, found: str, *, retryable: bool | None = None) -> Failure:
    rule = FAILURE_RULES[reason]
    return Failure(
        reason=reason,
        message=f"{_detail(found)}: {rule.advice}" if rule.advice else _detail(found),
        retryable=rule.retryable if retryable is None else retryable,
        resumable=rule.resumable,
        withdrawn_questions=tuple(question.question_id for question in _distinct(outcome.questions)),
    )


def _detail(found: str) -> str:
    """On one line, bounded, without anything that a terminal or an encoder would choke on."""
    printable = "".join(character if character.isprintable() else " " for character in found)
    line = " ".join(printable.split()).rstrip(".:; ")
    return line if len(line) <= MAX_DETAIL else line[: MAX_DETAIL - 1].rstrip() + "…"
