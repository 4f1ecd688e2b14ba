"""Prices looked up for models whose settings give none."""

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from runner.models.answer import Surroundings
from runner.models.calls import ModelCalls
from runner.models.pricing import PriceBook
from tests.fakes.model_server import ModelServer
from tests.unit.runner.models.conftest import KEY, Harness, anthropic_model, text_answer

pytestmark = pytest.mark.anyio


class FakePackage:
    """`genai_prices` as far as it is used: dollars of a usage, `LookupError` for a model nobody knows."""

    @staticmethod
    def Usage(**amounts: int) -> dict[str, int]:
        return amounts

    @staticmethod
    def calc_price(usage: dict[str, int], model: str, provider_id: str | None) -> Any:
        if model != "claude":
            raise LookupError(model)
        rates = {
            "cache_read_tokens": "0.3",
            "cache_write_tokens": "3.75",
            "output_tokens": "15",
            "input_tokens": "3",
        }
        kind = next(kind for kind in rates if kind in usage)
        return SimpleNamespace(total_price=Decimal(rates[kind]) * usage[kind] / 1_000_000)


async def ask_with(harness: Harness, book: PriceBook, **changes: Any) -> tuple[dict[str, Any], int]:
    exchange = {"headers": {"content-type": "text/event-stream"}, "chunks": [{"text": text_answer("x")}]}
    with ModelServer([exchange]) as server:
        calls = ModelCalls(Surroundings(harness.transport, prices=book), keys={"anthropic": KEY})
        model = anthropic_model(server.base_url, prices=None, **changes)
        message = await harness.ask(calls, model).result()
        return message, len(server.requests)


async def test_an_unpriced_model_is_priced_by_the_table(harness: Harness) -> None:
    message, _ = await ask_with(harness, PriceBook(FakePackage))
    assert message["usage"]["cost"]["total"] == pytest.approx((10 * 3 + 5 * 15) / 1e6)


async def test_a_model_that_nobody_knows_costs_nothing_countable(harness: Harness) -> None:
    message, _ = await ask_with(harness, PriceBook(FakePackage), id="unheard-of")
    assert message["usage"]["cost"]["total"] == 0


async def test_a_runner_without_the_table_still_answers(harness: Harness) -> None:
    message, _ = await ask_with(harness, PriceBook(lambda: None))
    assert message["stopReason"] == "stop"


async def test_the_table_is_loaded_only_after_the_request_was_sent(harness: Harness) -> None:
    loaded: list[str] = []

    def load() -> Any:
        loaded.append("now")
        return FakePackage

    book = PriceBook(load)
    assert loaded == []
    _, requests = await ask_with(harness, book)
    assert (loaded, requests) == (["now"], 1)
