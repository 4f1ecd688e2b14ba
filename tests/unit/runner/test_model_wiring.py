"""From the spec's models to what the agent runs on, and what `check` says of them."""

from pathlib import Path
from typing import Any

import pytest

from runner.model_wiring import build_models, model_problems, model_settings
from runner.models.calls import ModelCalls
from runner.models.settings import ModelSettings
from runner.secrets import Secrets, api_key_name, wanted_names
from runner.spec import ModelSpec, Spec

FOLDER = Path("/run/secrets/runner")
KEY = "sk-very-secret-key"


def model(**fields: Any) -> dict[str, Any]:
    given = {"api": "openai-completions", "provider": "acme", "id": "large", "base_url": "https://models.acme.test/v1"}
    return {name: value for name, value in (given | fields).items() if value is not None}


def problems(secrets: dict[str, str] | None = None, **fields: Any) -> list[str]:
    given = {"acme_api_key": KEY} if secrets is None else secrets
    return model_problems("agent.model", ModelSpec.model_validate(model(**fields)), Secrets(given), FOLDER)


def spec(*models: dict[str, Any]) -> Spec:
    first, *others = models
    return Spec.model_validate(
        {
            "version": 1,
            "pipeline_id": "p1",
            "session": {"id": "s1"},
            "store": {"uri": "store"},
            "agent": {"model": first, "fallback_models": others},
        }
    )


def test_a_good_model_has_no_problem() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("secrets", "fields", "says"),
    [
        ({}, {}, "secret `acme_api_key` is missing: put it in the file /run/secrets/runner/acme_api_key or in the"),
        ({}, {"provider": "Z.AI/eu"}, "secret `z_ai_eu_api_key` is missing"),
        ({"other": "x" * 9}, {"headers": {"x-team": {"secret": "other"}}}, "secret `acme_api_key` is missing"),
        ({}, {"provider": "ollama", "compat": {"needs_api_key": True}}, "secret `ollama_api_key` is missing"),
        (None, {"base_url": None}, "agent.model.base_url: must be given: there is no known address of provider 'acme'"),
        (None, {"base_url": "models.acme.test"}, "agent.model.base_url: must be an http:// or https:// address"),
        (None, {"base_url": "https://u:p@acme.test"}, "agent.model.base_url: must not hold a user name or password"),
        (None, {"compat": {"nope": 1}}, "agent.model.compat.nope: unknown flag: remove it"),
        (None, {"compat": {"thinking_levels": 5}}, "agent.model: model.compat.thinking_levels: must be an object"),
        (None, {"headers": {"x-team": "blå"}}, "agent.model.headers.x-team: a header carries visible ASCII only"),
        (None, {"thinking_budgets": {"low": 5}}, "agent.model.thinking_budgets: this model takes levels only"),
        ({"acme_api_key": "sk\nsecond"}, {}, "secret `acme_api_key`: holds what no HTTP header can carry"),
    ],
)
def test_a_problem_is_named_with_its_place(secrets: dict[str, str] | None, fields: dict[str, Any], says: str) -> None:
    (problem,) = problems(secrets, **fields)
    assert problem.startswith(says)
    assert "second" not in problem, "secrets are named, not shown"


@pytest.mark.parametrize(
    "fields",
    [
        {"provider": "ollama", "base_url": None},
        {"provider": "vllm"},
        {"compat": {"needs_api_key": False}},
        {"headers": {"cf-aig-authorization": {"secret": "gateway"}}},
    ],
)
def test_a_key_is_not_asked_for_where_none_is_needed(fields: dict[str, Any]) -> None:
    assert problems({"gateway": "gateway-key-1"}, **fields) == []


def test_providers_with_a_known_address_need_none_in_the_spec() -> None:
    for provider in ("anthropic", "openai", "openrouter", "deepseek", "mistral", "groq", "together", "xai"):
        assert problems({f"{provider}_api_key": KEY}, provider=provider, base_url=None) == []


def test_the_names_of_keys_can_be_those_of_files_and_variables() -> None:
    assert [api_key_name(name) for name in ("openai", "llama.cpp", "../x", "OpenAI")] == [
        "openai_api_key",
        "llama_cpp_api_key",
        "___x_api_key",
        "openai_api_key",
    ]
    assert "z_ai_api_key" in wanted_names(spec(model(provider="z.ai")))


def test_credentials_of_headers_come_from_the_secrets() -> None:
    given = ModelSpec.model_validate(model(headers={"x-api-key": {"secret": "gateway"}, "x-team": "blue"}))
    settings = model_settings(given, Secrets({"gateway": "gateway-key-1"}))
    assert settings.headers == {"x-api-key": "gateway-key-1", "x-team": "blue"}


def test_every_field_of_the_spec_reaches_the_settings_or_the_choice() -> None:
    """A field that is parsed and ignored is a limit that is not there."""
    full: dict[str, Any] = {
        "max_tokens": 5,
        "temperature": 0.5,
        "thinking_level": "low",
        "thinking_budgets": {"low": 9},
        "context_window": 7,
        "input": ["text", "image"],
        "cost": {"input": 1.0, "output": 2.0, "cache_read": 3.0, "cache_write": 4.0},
        "compat": {"supports_store": False, "reasoning": True, "thinking_levels": {"low": "little"}},
        "timeouts": {"connect_s": 1.0, "first_byte_s": 2.0, "between_events_s": 3.0, "total_s": 4.0},
        "max_retries": 3,
        "max_retry_delay_s": 6.0,
        "headers": {"x-team": "blue"},
    }
    assert set(ModelSpec.model_fields) == {"api", "provider", "id", "base_url", "script", *full}
    models = build_models(spec(model(**full)), Secrets({}), Path, None, print)
    (choice,) = models.choices
    settings = choice.name
    assert isinstance(settings, ModelSettings)
    assert (choice.thinking_level, choice.max_retries, choice.max_retry_delay_s) == ("low", 3, 6.0)
    assert (settings.max_tokens, settings.temperature, settings.context_window) == (5, 0.5, 7)
    assert (settings.reasoning, dict(settings.thinking_levels)) == (True, {"low": "little"})
    assert (dict(settings.thinking_budgets), dict(settings.compat)) == ({"low": 9}, {"supports_store": False})
    assert settings.takes_images
    prices, timeouts = settings.prices, settings.timeouts
    assert prices is not None
    assert (prices.input, prices.output, prices.cache_read, prices.cache_write) == (1, 2, 3, 4)
    assert (timeouts.connect_s, timeouts.first_byte_s, timeouts.between_events_s, timeouts.total_s) == (1, 2, 3, 4)


def test_the_choices_are_the_model_and_its_fallbacks_in_order(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text('{"responses": []}')
    scripted = {"api": "scripted", "script": "script.json"}
    models = build_models(
        spec(model(), model(id="small"), scripted), Secrets({}), lambda name: tmp_path / name, None, print
    )
    first, second, third = models.choices
    assert [choice.name.id for choice in models.choices] == ["large", "small", "scripted-model"]
    assert isinstance(first.stream, ModelCalls)
    assert first.stream is second.stream, "one connection pool, one count of requests for the recorder"
    assert third.stream is not first.stream
