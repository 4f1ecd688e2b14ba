"""Every reason for which a pipeline can fail, and what it means for those who read it.

`retryable`: the same launch may succeed without any change. `resumable`: the session can be continued from
its committed restore point, be it the new one or the previous one. `advice` is the half sentence that says
what to do; it is empty where what was found says so itself.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from settlement.outcome import BeforeRunReason, LimitReason, ModelFailureReason

FailureReason: TypeAlias = (
    Literal[
        "empty_answer",
        "output_truncated",
        "cancelled",
        "paused",
        "persistence_failed",
        "checkpoint_failed",
        "lost",
        "internal",
    ]
    | LimitReason
    | ModelFailureReason
    | BeforeRunReason
)


class FailureRule(Struct, frozen=True):
    retryable: bool
    resumable: bool
    advice: str


def _again(advice: str) -> FailureRule:
    return FailureRule(retryable=True, resumable=True, advice=advice)


def _change(advice: str) -> FailureRule:
    return FailureRule(retryable=False, resumable=True, advice=advice)


FAILURE_RULES: dict[FailureReason, FailureRule] = {
    # the agent's end
    "empty_answer": _again("continue the session with a message that says what is still wanted"),
    "output_truncated": _change("raise the model's `max_tokens` and continue the session with a message"),
    # stopped from outside
    "cancelled": _change("launch the session again when it should go on"),
    "paused": _change("launch the session again without input to go on"),
    "turn_limit": _change("raise `limits.max_turns` and launch the session again to go on"),
    "token_limit": _change("raise `limits.max_total_tokens` and launch the session again to go on"),
    "cost_limit": _change("raise `limits.max_cost_usd` and launch the session again to go on"),
    "deadline_exceeded": _change("raise `limits.deadline_s` and launch the session again to go on"),
    # the model
    "model_auth": _change("check the provider's API key and its permissions"),
    "model_rate_limited": _again("launch the session again later, or raise the provider's rate limit"),
    "model_overloaded": _again("launch the session again later, or name a fallback model"),
    "model_invalid_request": _change("check the model's settings in the launch spec"),
    "context_overflow": _change("continue the session with a model of a larger context window"),
    "model_refused": _change("continue the session with another request"),
    "model_unavailable": _again("launch the session again later, or name a fallback model"),
    # before the run
    "restore_failed": FailureRule(False, False, "launch with a restore point that exists and is intact"),
    "stale_reply": _change(""),
    "nothing_to_do": _change(""),
    "setup_failed": _again("see that every tool and tool server of the launch spec can start, and launch again"),
    # storing, and ourselves
    "persistence_failed": _again("give the runner a disk with room and launch again from the previous restore point"),
    "checkpoint_failed": _again("launch again from the previous restore point once the store takes uploads"),
    "lost": _again("launch again with a new pipeline id"),
    "internal": _change("report the fault with the runner's log; the previous restore point is unchanged"),
}
