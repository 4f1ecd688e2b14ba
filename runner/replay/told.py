"""What the terminal record of a pipeline tells about the end of its run that the session cannot: why it was stopped,
how its model failed, which of its questions counted. Pure.

A replay takes these facts as given, as it takes the model's answers, and works the settlement out anew from them.
Refuses to take over the settlement itself.
"""

from typing import Any, Final, Literal, TypeAlias, cast, get_args

from msgspec import Struct

from checkpoint.jsontypes import JsonObject
from settlement.outcome import LimitReason, ModelFailureReason, Undelivered

Ended: TypeAlias = Literal["unknown", "interrupted", "by_itself", "limit", "requested", "model", "outside"]
"""`requested`: cancelled, paused, or at its deadline. `outside`: by something that is no part of the agent's run."""

_REQUESTED: Final = ("cancelled", "paused", "deadline_exceeded")


class Told(Struct, frozen=True, kw_only=True):
    ended: Ended = "unknown"
    reason: str | None = None
    """Of a failure."""
    retryable: bool = False
    interruption: str | None = None
    """The call whose question interrupted the run."""
    asking: frozenset[str] = frozenset()
    """Names of the tools that asked."""
    withdrawn: frozenset[str] = frozenset()
    """Ids of questions that went out, or may have, without being waited for."""
    turns: int = 0
    total_tokens: int = 0
    cost_usd: float = 0.0
    undelivered: tuple[Undelivered, ...] = ()


UNKNOWN: Final = Told()


def told_by(body: JsonObject) -> Told:
    """From a terminal callback's body; what is not there, or has another shape, tells nothing."""
    settlement = _object(body.get("settlement"))
    kind, reason = settlement.get("kind"), settlement.get("reason")
    interruption, usage = _object(settlement.get("interruption")), _object(body.get("usage"))
    questions = [_object(question) for question in _list(body.get("questions"))]
    names = [interruption.get("tool_name"), *(question.get("tool_name") for question in questions)]
    call_id = interruption.get("tool_call_id")
    return Told(
        ended=_ended(kind, reason),
        reason=reason if isinstance(reason, str) else None,
        retryable=settlement.get("retryable") is True,
        interruption=call_id if isinstance(call_id, str) else None,
        asking=frozenset(name for name in names if isinstance(name, str)),
        withdrawn=frozenset(text for text in _list(settlement.get("withdrawn_questions")) if isinstance(text, str)),
        turns=int(_number(usage.get("turns"))),
        total_tokens=int(_number(usage.get("total_tokens"))),
        cost_usd=_number(usage.get("cost_usd")),
        undelivered=tuple(
            Undelivered("steering" if item.get("queue") == "steering" else "follow_up", str(item.get("text", "")))
            for item in map(_object, _list(body.get("undelivered")))
        ),
    )


def _ended(kind: Any, reason: Any) -> Ended:
    match kind:
        case "ask_user":
            return "interrupted"
        case "success":
            return "by_itself"
        case "failure" if reason in ("empty_answer", "output_truncated"):
            return "by_itself"
        case "failure" if reason in _REQUESTED:
            return "requested"
        case "failure" if reason in get_args(LimitReason):
            return "limit"
        case "failure" if reason in get_args(ModelFailureReason):
            return "model"
        case "failure":
            return "outside"
        case _:
            return "unknown"


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
