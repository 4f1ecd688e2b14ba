"""Levels, limits, prices, failures, ids, settings: the small pure decisions of the adapters."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.models.checking import settings_problems
from runner.models.estimate import estimate_input_tokens, output_limit, output_room
from runner.models.failure import failure_of_message, stream_failure
from runner.models.levels import budget_for, clamp_level, supported_levels
from runner.models.secrets_out import secret_values, without_secrets
from runner.models.settings import BadModelSettings, ModelSettings, Prices, PriceTier, settings_from_spec
from runner.models.tool_ids import UniqueIds, short_hash
from runner.models.tools import strict_schema
from runner.models.transport import wanted_delay_s
from runner.models.usage import count, empty_usage, set_cost

THINKER = ModelSettings(id="m", provider="p", api="openai-completions", reasoning=True)


def thinker(**levels: str | None) -> ModelSettings:
    return ModelSettings(id="m", provider="p", api="x", reasoning=True, thinking_levels=levels)


@pytest.mark.parametrize(
    ("model", "level", "want"),
    [
        (THINKER, "xhigh", "high"),
        (thinker(xhigh="xhigh"), "xhigh", "xhigh"),
        (thinker(max="max"), "xhigh", "max"),
        (thinker(minimal=None), "minimal", "low"),
        (thinker(high=None), "high", "medium"),
        (THINKER, "off", None),
        (THINKER, None, None),
        (ModelSettings(id="m", provider="p", api="x"), "high", None),
    ],
)
def test_a_level_the_model_lacks_gives_way_to_the_next(
    model: ModelSettings, level: str | None, want: str | None
) -> None:
    assert clamp_level(model, level) == want


def test_the_strongest_levels_exist_only_where_they_are_named() -> None:
    assert supported_levels(THINKER) == ["off", "minimal", "low", "medium", "high"]


def test_budgets_of_the_strongest_levels_are_those_of_high() -> None:
    assert budget_for("max", {"high": 20000}) == 20000
    assert budget_for("low", {"low": 1}, {"low": 5000}) == 5000
    assert budget_for("medium") == 8192


@given(st.integers(1, 10**7), st.integers(0, 10**7), st.integers(1, 10**6))
def test_there_is_always_room_for_one_token_and_never_more_than_asked(window: int, sent: int, wanted: int) -> None:
    model = ModelSettings(id="m", provider="p", api="x", context_window=window)
    limit = output_limit(model, wanted, sent)
    assert limit is not None
    assert 1 <= limit <= wanted
    assert limit == 1 or sent + limit < window


def test_without_a_window_there_is_no_limit_of_ours() -> None:
    assert output_room(THINKER, 10) is None
    assert output_limit(THINKER, None, 10) is None


def test_the_guess_starts_from_the_last_counted_answer() -> None:
    counted: dict[str, Any] = {
        "role": "assistant",
        "content": [],
        "usage": {"totalTokens": 1000},
        "stopReason": "stop",
    }
    later: dict[str, Any] = {"role": "user", "content": "x" * 35}
    assert estimate_input_tokens("system", [counted, later], []) == 1010
    assert estimate_input_tokens("x" * 35, [], []) == 10


def test_cost_takes_the_tier_of_the_whole_request_and_doubles_long_cache_writes() -> None:
    tier = PriceTier(100, input=2, output=4, cache_read=0.2, cache_write=2.5)
    prices = Prices(1, 2, 0.1, 1.25, tiers=(tier,))
    usage: dict[str, Any] = empty_usage() | {
        "input": 50,
        "output": 10,
        "cacheRead": 60,
        "cacheWrite": 30,
        "cacheWrite1h": 10,
    }
    set_cost(usage, prices)
    want = (2 * 50 + 4 * 10 + 0.2 * 60 + 2.5 * 20 + 2 * 2 * 10) / 1e6
    assert usage["cost"]["total"] == pytest.approx(want)


@pytest.mark.parametrize("value", [None, -1, "7", True, [], float("nan")])
def test_nonsense_counts_are_zero(value: Any) -> None:
    assert count(value) == 0


@pytest.mark.parametrize(
    ("message", "codes", "reason", "retryable"),
    [
        ("boom", ("server_error",), "model_unavailable", True),
        ("slow", ("rate_limit_exceeded",), "model_rate_limited", True),
        ("x", ("invalid_request_error", "insufficient_quota"), "model_rate_limited", False),
        ("gone", (502,), "model_unavailable", True),
        ("gone", ("429",), "model_rate_limited", True),
        ("bad", (400,), "model_invalid_request", False),
        ("prompt is too long", ("server_error",), "context_overflow", False),
        ("Overloaded", (), "model_overloaded", True),
        ("something odd", (None,), "model_unavailable", False),
    ],
)
def test_an_error_inside_a_stream_goes_by_its_code_then_by_its_text(
    message: str, codes: tuple[Any, ...], reason: str, retryable: bool
) -> None:
    failure = stream_failure(message, *codes)
    assert (failure.reason, failure.retryable) == (reason, retryable)


def test_a_restored_message_tells_its_failure_by_text() -> None:
    failure = failure_of_message({"stopReason": "error", "errorMessage": "429 slow down"})
    assert failure is not None
    assert failure.retryable
    assert failure_of_message({"stopReason": "stop"}) is None


@given(st.lists(st.text(max_size=90), unique=True, max_size=30))
def test_ids_made_fit_are_unique_and_not_too_long(given_ids: list[str]) -> None:
    ids = UniqueIds(40)
    claimed = [ids.claim(given_id[:40], given_id) for given_id in given_ids]
    assert len(set(claimed)) == len(claimed)
    assert all(0 < len(claim) <= 40 for claim in claimed)


def test_the_hash_is_the_recorded_one() -> None:
    assert short_hash("item+/=") == "xfoazco3biir"


def test_a_strict_schema_requires_all_and_lets_the_optional_be_null() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "number"}},
        "required": ["a"],
    }
    assert strict_schema(schema) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("headers", "want"),
    [
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 60.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "x", "retry-after": "1"}, 1.0),
        ({}, None),
    ],
)
def test_how_long_a_server_wants_us_to_wait(headers: dict[str, str], want: float | None) -> None:
    assert wanted_delay_s(headers, now_s=40.0) == want


def test_secrets_are_taken_out_of_texts() -> None:
    secrets = secret_values({"Authorization": "Bearer sk-12345678", "accept": "application/json", "x-k": "short"})
    assert without_secrets("key sk-12345678, Bearer sk-12345678, application/json", secrets) == (
        "key [secret removed], [secret removed], application/json"
    )


def test_a_spec_becomes_settings() -> None:
    spec = {
        "api": "anthropic-messages",
        "provider": "anthropic",
        "id": "c",
        "thinking_level": "low",
        "cost": {"input": 3, "output": 15, "tiers": [{"input_tokens_above": 9, "input": 6}]},
        "timeouts": {"connect_s": 1},
        "max_retries": 2,
        "compat": {"reasoning": True, "thinking_levels": {"off": None}, "force_adaptive_thinking": True},
    }
    model = settings_from_spec(spec)
    assert (model.base_url, model.reasoning, model.timeouts.connect_s) == (
        "https://api.anthropic.com",
        True,
        1,
    )
    assert (dict(model.thinking_levels), dict(model.compat)) == (
        {"off": None},
        {"force_adaptive_thinking": True},
    )
    assert settings_problems(model, "low") == []
    assert model.prices == Prices(3, 15, 0, 0, tiers=(PriceTier(9, 6, 0, 0, 0),))


@pytest.mark.parametrize(
    "change",
    [
        {"x": 1},
        {"id": ""},
        {"thinking_level": "huge"},
        {"timeouts": {"y": 1}},
        {"cost": {"z": 1}},
        {"thinking_budgets": {"none": 1}},
    ],
)
def test_a_spec_with_a_mistake_is_refused_by_name(change: dict[str, Any]) -> None:
    spec = {"api": "anthropic-messages", "provider": "anthropic", "id": "c"}
    with pytest.raises(BadModelSettings, match="model"):
        settings_from_spec(spec | change)
