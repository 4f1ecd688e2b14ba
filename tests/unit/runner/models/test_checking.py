"""What `check` says of a model's settings, and what every field of the spec's model does to a request."""

from pathlib import Path
from typing import Any

import pytest

from runner.models.calls import APIS, wire_protocol
from runner.models.checking import CHOICES, can_be_sent, settings_problems
from runner.models.completions_compat import FLAGS
from runner.models.history import prepare
from runner.models.protocol import Conversation
from runner.models.settings import BadModelSettings, CallOptions, ModelSettings, settings_from_spec

ANTHROPIC, COMPLETIONS, RESPONSES = APIS
TALK = Conversation("Be brief.", [{"role": "user", "content": "Hi"}], [])


def settings(api: str = COMPLETIONS, **fields: Any) -> ModelSettings:
    return settings_from_spec({"api": api, "provider": "acme", "id": "m", "base_url": "http://127.0.0.1:9", **fields})


def body(model: ModelSettings, level: str = "off") -> dict[str, Any]:
    return wire_protocol(model.api).request(model, TALK, CallOptions(reasoning=level)).body


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"compat": {"nope": 1}}, "compat.nope: unknown flag: remove it"),
        ({"api": ANTHROPIC, "compat": {"supports_store": True}}, "compat.supports_store: unknown flag: remove it"),
        ({"compat": {"supports_store": "no"}}, "compat.supports_store: must be true or false"),
        ({"api": RESPONSES, "compat": {"supports_strict_mode": 1}}, "compat.supports_strict_mode: must be true or"),
        ({"compat": {"needs_api_key": 0}}, "compat.needs_api_key: must be true or false"),
        ({"compat": {"thinking_format": "loud"}}, "compat.thinking_format: must be one of 'openai', 'deepseek'"),
        ({"compat": {"max_tokens_field": []}}, "compat.max_tokens_field: must be one of 'max_tokens'"),
        ({"compat": {"chat_template_kwargs": 5}}, "compat.chat_template_kwargs: must be an object"),
        ({"headers": {"x y": "z"}}, "headers: 'x y' is no header name"),
        ({"thinking_level": "low", "compat": {"reasoning": False}}, "thinking_level: compat.reasoning says"),
        ({"thinking_budgets": {"low": 9}}, "thinking_budgets: this model takes levels only: remove it"),
        ({"api": RESPONSES, "thinking_budgets": {"low": 9}}, "thinking_budgets: this model takes levels only"),
        (
            {"api": ANTHROPIC, "thinking_budgets": {"low": 9}, "compat": {"force_adaptive_thinking": True}},
            "thinking_budgets: this model takes levels only",
        ),
        ({"api": ANTHROPIC, "temperature": 0.5, "thinking_level": "low"}, "temperature: cannot be set while the"),
    ],
)
def test_a_setting_that_would_be_refused_or_ignored_is_named(fields: dict[str, Any], says: str) -> None:
    (problem,) = settings_problems(settings(**fields), fields.get("thinking_level", "off"))
    assert problem.startswith(says)


@pytest.mark.parametrize("api", APIS)
def test_good_settings_have_no_problem(api: str) -> None:
    model = settings(api, compat=dict(wire_protocol(api).flags), max_tokens=10, headers={"x-team": "a b"})
    model.compat.pop("supports_strict_mode", None)  # pyright: ignore
    assert settings_problems(model, "off") == []


def test_every_flag_that_is_a_word_has_its_choices() -> None:
    words = {name for name, default in FLAGS.items() if isinstance(default, str)}
    assert words == set(CHOICES)
    assert all(FLAGS[name] in choices for name, choices in CHOICES.items())


@pytest.mark.parametrize(
    "compat",
    [
        {"reasoning": "yes"},
        {"thinking_levels": 5},
        {"thinking_levels": {"huge": "x"}},
        {"thinking_levels": {"high": 5}},
        {"thinking_levels": {"high": ""}},
        {"cache_retention": "forever"},
        {"cache_retention": []},
    ],
)
def test_flags_of_all_protocols_are_refused_if_their_value_is_wrong(compat: dict[str, Any]) -> None:
    with pytest.raises(BadModelSettings, match=r"model\.compat\."):
        settings(compat=compat)


@pytest.mark.parametrize(
    ("value", "fits"),
    [("sk-1", True), ("Bearer a b", True), ("", False), (" sk", False), ("sk\n2", False), ("schlüssel", False)],
)
def test_what_a_header_can_carry(value: str, *, fits: bool) -> None:
    assert can_be_sent(value) is fits


# --- every field has an effect ----------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
def test_limits_and_temperature_are_sent(api: str) -> None:
    usual, changed = body(settings(api)), body(settings(api, max_tokens=1234, temperature=0.5))
    limits = {ANTHROPIC: "max_tokens", COMPLETIONS: "max_completion_tokens", RESPONSES: "max_output_tokens"}
    assert (changed["temperature"], changed[limits[api]]) == (0.5, 1234)
    assert "temperature" not in usual
    assert usual.get(limits[api]) == (32_000 if api == ANTHROPIC else None)


@pytest.mark.parametrize("api", APIS)
def test_a_window_bounds_what_the_answer_may_take(api: str) -> None:
    whole, tight = (
        str(body(settings(api, max_tokens=50_000, **window))) for window in ({}, {"context_window": 10_000})
    )
    assert "50000" in whole
    assert "50000" not in tight


@pytest.mark.parametrize(
    ("api", "off", "high"),
    [
        (ANTHROPIC, None, {"type": "enabled", "budget_tokens": 16_384, "display": "summarized"}),
        (COMPLETIONS, None, "high"),
        (RESPONSES, None, {"effort": "high", "summary": "auto"}),
    ],
)
def test_a_thinking_level_is_asked_for(api: str, off: Any, high: Any) -> None:
    name = {ANTHROPIC: "thinking", COMPLETIONS: "reasoning_effort", RESPONSES: "reasoning"}[api]
    assert body(settings(api)).get(name) == off
    assert body(settings(api, thinking_level="high"), "high")[name] == high


def test_budgets_replace_the_usual_ones() -> None:
    given = {"high": 5000}
    anthropic = settings(ANTHROPIC, thinking_level="high", thinking_budgets=given)
    vllm = settings(thinking_level="high", thinking_budgets=given, compat={"thinking_token_budget": True})
    assert body(anthropic, "high")["thinking"]["budget_tokens"] == 5000
    assert body(vllm, "high")["thinking_token_budget"] == 5000
    assert settings_problems(vllm, "high") == settings_problems(anthropic, "high") == []


def test_a_model_without_eyes_gets_words_for_images() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    talk = [{"role": "user", "content": [image]}]
    seen, unseen = (
        prepare(talk, settings(input=takes), lambda given, _: given)[0]["content"]
        for takes in (["text", "image"], ["text"])
    )
    assert seen == [image]
    assert unseen == [{"type": "text", "text": "(image omitted: model does not support images)"}]


def test_address_headers_prices_and_times_are_taken() -> None:
    model = settings(
        headers={"x-team": "a"}, cost={"input": 3, "output": 15, "cache_write": 1}, timeouts={"first_byte_s": 2.0}
    )
    request = wire_protocol(model.api).request(model, TALK, CallOptions(api_key="k"))
    assert request.url == "http://127.0.0.1:9/chat/completions"
    assert request.headers["x-team"] == "a"
    assert model.prices is not None
    assert (model.prices.input, model.prices.output, model.prices.cache_read, model.prices.cache_write) == (3, 15, 0, 1)
    assert (model.timeouts.first_byte_s, model.timeouts.between_events_s, model.timeouts.total_s) == (2, 600, 3600)


def test_the_words_of_a_provider_stand_for_levels() -> None:
    model = settings(thinking_level="max", compat={"thinking_levels": {"max": "ultra", "off": "none"}})
    assert body(model, "max")["reasoning_effort"] == "ultra"
    assert body(model, "off")["reasoning_effort"] == "none"


@pytest.mark.parametrize(
    ("api", "long"),
    [
        (ANTHROPIC, "'ttl': '1h'"),
        (COMPLETIONS, "'prompt_cache_retention': '24h'"),
        (RESPONSES, "'prompt_cache_retention': '24h'"),
    ],
)
def test_how_long_prompts_are_cached_can_be_chosen(api: str, long: str) -> None:
    """Asked through the calls, as the agent does."""

    def sent(**compat: str) -> str:
        model = settings(api, compat=compat)
        options = CallOptions(session_id="s1", cache_retention=model.cache_retention)
        return str(wire_protocol(api).request(model, TALK, options).body)

    assert long in sent(cache_retention="long")
    assert long not in sent()
    assert "cache" not in sent(cache_retention="none")


def test_the_documentation_lists_every_flag_and_every_choice() -> None:
    page = (Path(__file__).parents[4] / "docs" / "models.md").read_text()
    flags = {name for api in APIS for name in wire_protocol(api).flags}
    shared = {"reasoning", "thinking_levels", "needs_api_key", "cache_retention"}
    assert {name for name in flags | shared if f"| `{name}` |" not in page} == set()
    assert {word for words in CHOICES.values() for word in words if word and f"`{word}`" not in page} == set()
