"""What a run used, added up from its assistant messages (Pi's `usage` fields)."""

from typing import Any, cast

from msgspec import Struct

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.manifest import Counters


class UsageTotals(Struct):
    """Tokens and US dollars of one pipeline. `requests` counts model requests, `turns` finished turns."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost_usd: float = 0.0
    requests: int = 0
    turns: int = 0

    def add(self, message: Message) -> None:
        """Count one assistant message; also a failed one, which was paid for as well."""
        usage = _object(message.get("usage"))
        self.input += _whole(usage.get("input"))
        self.output += _whole(usage.get("output"))
        self.cache_read += _whole(usage.get("cacheRead"))
        self.cache_write += _whole(usage.get("cacheWrite"))
        self.total_tokens += _whole(usage.get("totalTokens"))
        self.cost_usd += _number(_object(usage.get("cost")).get("total"))


def totals_of(stored: JsonObject) -> UsageTotals:
    """What a head's progress says that the pipeline had used. What is no amount counts nothing."""
    names = ("input", "output", "cache_read", "cache_write", "total_tokens", "requests", "turns")
    return UsageTotals(**{name: _whole(stored.get(name)) for name in names}, cost_usd=_number(stored.get("cost_usd")))


def added(before: Counters, usage: UsageTotals) -> Counters:
    """The whole session's counters: those from before, and a run's."""
    return Counters(
        turns=before.turns + usage.turns,
        total_tokens=before.total_tokens + usage.total_tokens,
        cost_usd=before.cost_usd + usage.cost_usd,
    )


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _number(value: Any) -> float:
    finite = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    return float(value) if finite and value > 0 else 0.0


def _whole(value: Any) -> int:
    return int(_number(value))
