"""Token counts and what they cost. Cached tokens are never part of `input`; `reasoning` is part of
`output`."""

from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.models.settings import Prices, PriceTier

_MILLION = 1_000_000


def empty_usage() -> JsonObject:
    return {
        "input": 0,
        "output": 0,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": 0,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
    }


def count(value: Any) -> int:
    """A count as a server gives it: missing, null and nonsense are 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0
    return int(min(value, 1 << 53))


def rates_for(prices: Prices, input_tokens: int) -> Prices | PriceTier:
    """The prices of the tier with the highest threshold that the whole input is above."""
    tiers = [tier for tier in prices.tiers if tier.input_tokens_above < input_tokens]
    return max(tiers, key=lambda tier: tier.input_tokens_above) if tiers else prices


def set_cost(usage: JsonObject, prices: Prices | None, factor: float = 1.0) -> None:
    """Fill in `usage.cost` (dollars). Writes into the one-hour cache are billed at twice the input price."""
    if prices is None:
        return
    rates = rates_for(prices, usage["input"] + usage["cacheRead"] + usage["cacheWrite"])
    long_writes = count(usage.get("cacheWrite1h"))
    short_writes = usage["cacheWrite"] - long_writes
    cost = {
        "input": rates.input * usage["input"] / _MILLION * factor,
        "output": rates.output * usage["output"] / _MILLION * factor,
        "cacheRead": rates.cache_read * usage["cacheRead"] / _MILLION * factor,
        "cacheWrite": (rates.cache_write * short_writes + 2 * rates.input * long_writes) / _MILLION * factor,
    }
    usage["cost"] = {**cost, "total": sum(cost.values()), "totalFromProvider": False}
