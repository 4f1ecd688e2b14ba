"""Settlement -> what becomes of the checkpoint: a pure decision.

`Commit` asks the server to make a checkpoint of this pipeline the session's restore point; `KeepPrevious`
leaves the one that is there. Refuses to commit what cannot be trusted (a broken log, a defect) or what says
nothing new.
"""

from typing import Literal, TypeAlias, assert_never

from msgspec import Struct

from settlement.outcome import Outcome, Undelivered
from settlement.reasons import FailureReason
from settlement.settle import AskUser, Failure, Settlement, Success


class Commit(Struct, frozen=True):
    source: Literal["frozen", "progress"] = "frozen"
    """`frozen`: the log as this process froze it; `progress`: what the head's progress names."""
    kind: Literal["commit"] = "commit"


class KeepPrevious(Struct, frozen=True):
    diagnostic: bool = False
    """Store the log beside the checkpoints, for people to look at; nothing restores from it."""
    kind: Literal["keep_previous"] = "keep_previous"


CheckpointDecision: TypeAlias = Commit | KeepPrevious


class CheckpointFacts(Struct, frozen=True, kw_only=True):
    appended: bool
    """The log has entries that the session did not have when the pipeline began."""
    progress_stored: bool = False
    """The head names progress, which is completely stored."""
    frozen: bool = True
    """There is a frozen log that is stored, or can be. False: it was never restored, or its upload failed."""


def resolve_checkpoint_decision(settlement: Settlement, facts: CheckpointFacts) -> CheckpointDecision:
    """A stopped or failed run commits what it has; if that is nothing, there is nothing to commit."""
    match settlement:
        case AskUser() | Success():
            return Commit()
        case Failure(reason=reason):
            return _of_failure(reason, facts)


def _what_there_is(facts: CheckpointFacts) -> CheckpointDecision:
    """The frozen log, else what of it was stored while it grew."""
    if facts.frozen:
        return Commit() if facts.appended else KeepPrevious()
    return Commit("progress") if facts.progress_stored else KeepPrevious()


def _of_failure(reason: FailureReason, facts: CheckpointFacts) -> CheckpointDecision:
    match reason:
        case "persistence_failed" | "internal":
            return KeepPrevious(diagnostic=True)
        case "restore_failed" | "stale_reply" | "nothing_to_do":
            return KeepPrevious()
        case "lost" | "checkpoint_failed":
            return Commit("progress") if facts.progress_stored else KeepPrevious()
        case (
            "empty_answer"
            | "output_truncated"
            | "cancelled"
            | "paused"
            | "turn_limit"
            | "token_limit"
            | "cost_limit"
            | "deadline_exceeded"
            | "model_auth"
            | "model_rate_limited"
            | "model_overloaded"
            | "model_invalid_request"
            | "context_overflow"
            | "model_refused"
            | "model_unavailable"
            | "setup_failed"
        ):
            # (Before a setup that failed something was appended only by an attempt that was taken over.)
            return _what_there_is(facts)
        case _:
            assert_never(reason)


def undelivered(outcome: Outcome, decision: CheckpointDecision) -> tuple[Undelivered, ...]:
    """The messages that the restore point may not hold with which the server ends up: what the log took counts as
    long as it is the log that is committed.
    """
    match decision:
        case Commit(source="frozen"):
            return outcome.undelivered
        case Commit() | KeepPrevious():
            return (*outcome.steered, *outcome.undelivered)


def input_consumed(outcome: Outcome, decision: CheckpointDecision, *, in_progress: bool = False) -> bool:
    """True if the restore point that the server ends up with holds the input of this pipeline. `in_progress`: what the
    head's progress says of it.
    """
    match decision:
        case Commit("progress"):
            return in_progress
        case Commit():
            return outcome.input_taken
        case KeepPrevious():
            return False
