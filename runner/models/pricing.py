"""Prices of models whose settings give none, out of the `genai-prices` package.

Its table is large to load, so loading begins only once a request is on its way, on a thread of its own. A
model it does not know, or a runner without the package, costs nothing that could be counted: the prices
stay None.
"""

import asyncio
import importlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from runner.models.settings import ModelSettings, Prices

_MILLION = 1_000_000
_KINDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class PriceBook:
    def __init__(self, load: Callable[[], Any] | None = None) -> None:
        self._load = load or _load_package
        self._loading: asyncio.Task[Any] | None = None
        self._found: dict[tuple[str, str], Prices | None] = {}

    def begin(self) -> "asyncio.Task[Any]":
        """Start loading the table, if that has not been done. Call it when a request has been sent."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(self._load))
        return self._loading

    async def find(self, model: ModelSettings, limit_s: float) -> Prices | None:
        """The model's prices; None if nobody knows them or they cannot be had within `limit_s`."""
        key = (model.provider, model.id)
        if key not in self._found:
            try:
                package = await asyncio.wait_for(asyncio.shield(self.begin()), limit_s)
            except (TimeoutError, ImportError):
                return None
            self._found[key] = _prices(package, model) if package is not None else None
        return self._found[key]


def _load_package() -> Any:
    try:
        return importlib.import_module("genai_prices")
    except ImportError:
        return None


def _prices(package: Any, model: ModelSettings) -> Prices | None:
    """Dollars per million tokens of each kind, asked of the package one kind at a time: its base rates.

    It counts cached tokens as part of the input, so that a request of nothing but cached input has their
    rate.
    """
    rates: list[float] = []
    for kind in _KINDS:
        amounts = {kind: 1000, "input_tokens": 1000} if kind.startswith("cache") else {kind: 1000}
        price = _price(package, package.Usage(**amounts), model)
        if price is None:
            return None
        rates.append(float(price / 1000 * _MILLION))
    return Prices(rates[0], rates[1], rates[2], rates[3])


def _price(package: Any, usage: Any, model: ModelSettings) -> Decimal | None:
    """By the spec's provider name, else by the model's id alone."""
    for provider in (model.provider, None):
        try:
            return Decimal(package.calc_price(usage, model.id, provider_id=provider).total_price)
        except (LookupError, ValueError):
            continue
    return None
