"""What the runner knows of one model: where it is, what it takes, what it costs, how long it may be silent.

Frozen and free of secrets: the API key comes with each call (`CallOptions.api_key`). Compat flags are kept
as the spec wrote them and read by the protocol's own module (`completions_compat`, `anthropic_request`,
`responses_request`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from checkpoint.jsontypes import JsonObject
from runner.models.shapes import is_object

LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
KEYLESS_PROVIDERS = frozenset(("ollama", "vllm", "llama.cpp", "llamacpp", "lmstudio"))
_CREDENTIAL_HEADERS = ("authorization", "api-key", "apikey", "token")
CacheRetention = Literal["none", "short", "long"]
CACHE_RETENTIONS = ("none", "short", "long")


@dataclass(frozen=True, slots=True)
class PriceTier:
    """Prices of a whole request whose input (cached tokens included) is above `input_tokens_above`."""

    input_tokens_above: int
    input: float
    output: float
    cache_read: float
    cache_write: float


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    tiers: tuple[PriceTier, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. The defaults let a model think in silence for ten minutes."""

    connect_s: float = 20.0
    first_byte_s: float = 600.0
    """From the request's end to the first byte of the answer's body."""
    between_events_s: float = 600.0
    """Silence inside the answer. Keep-alive comments count as life."""
    total_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model of the spec (`agent.model`). Satisfies the loop's `Model` protocol."""

    id: str
    provider: str
    api: str
    base_url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    max_tokens: int | None = None
    """The most the model can write in one answer. None: the server's own limit, where a protocol lets it be
    left out."""
    temperature: float | None = None
    reasoning: bool = False
    """Whether the model can think at all; without it no thinking field is sent."""
    thinking_levels: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """Level -> the provider's own word, or None where the model does not have that level."""
    thinking_budgets: Mapping[str, int] = field(default_factory=dict[str, int])
    context_window: int | None = None
    input: tuple[str, ...] = ("text",)
    prices: Prices | None = None
    """None: looked up by `pricing.PriceBook`."""
    compat: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cache_retention: CacheRetention = "short"
    timeouts: Timeouts = Timeouts()

    @property
    def takes_images(self) -> bool:
        return "image" in self.input

    @property
    def needs_key(self) -> bool:
        """Whether an API key must be given: not for servers that people run themselves, commonly without one, nor where
        a header of the settings carries the credential."""
        if any(part in name.lower() for name in self.headers for part in _CREDENTIAL_HEADERS):
            return False
        return bool(self.compat.get("needs_api_key", self.provider not in KEYLESS_PROVIDERS))


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What one request asks beside the conversation."""

    api_key: str | None = None
    reasoning: str | None = None
    """A thinking level; None or "off": do not think."""
    reasoning_summary: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    tool_choice: str | JsonObject | None = None
    cache_retention: CacheRetention = "short"
    session_id: str | None = None
    """Keeps requests of one session on one cache."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sampling: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Extra body fields of the provider, put in last."""
    service_tier: str | None = None
    thinking_budgets: Mapping[str, int] = field(default_factory=dict[str, int])
    implied: bool = True
    """Say what was not asked for: the model's own output limit, and that it need not think."""
    max_retries: int = 0
    """Repeats of the HTTP request before an answer has begun; whole turns are repeated by `retry`."""
    max_retry_delay_s: float = 60.0
    """A server that asks for more is not waited for; 0 waits however long."""


class BadModelSettings(ValueError):
    """The spec's model cannot be used; the text names the field."""

    reason = "bad_model_settings"


_FIELDS = frozenset(
    (
        "api",
        "provider",
        "id",
        "base_url",
        "headers",
        "max_tokens",
        "temperature",
        "thinking_level",
        "thinking_budgets",
        "context_window",
        "input",
        "cost",
        "compat",
        "timeouts",
        "max_retries",
        "max_retry_delay_s",
        "script",
    )
)
_RATES = ("input", "output", "cache_read", "cache_write")


def settings_from_spec(spec: Mapping[str, Any]) -> ModelSettings:
    """The spec's `agent.model` (CONTRACTS: Model), with the secrets among its headers already filled in.

    A model thinks if its compat says so (`reasoning`), or if a thinking level is asked for; compat
    `thinking_levels` holds the provider's words for levels, null for those the model lacks. Raises
    `BadModelSettings`.
    """
    unknown = sorted(set(spec) - _FIELDS)
    if unknown:
        raise BadModelSettings(f"model: unknown field {unknown[0]!r}; remove it")
    for name in ("api", "provider", "id"):
        if not isinstance(spec.get(name), str) or not spec[name]:
            raise BadModelSettings(f"model.{name}: must be a non-empty string")
    level = spec.get("thinking_level", "off")
    if level not in LEVELS:
        raise BadModelSettings(f"model.thinking_level: must be one of {', '.join(LEVELS)}, not {level!r}")
    compat = _compat(spec)
    given: dict[str, float | None] = spec.get("timeouts") or {}
    timeouts = {name: seconds for name, seconds in given.items() if seconds is not None}
    unknown = sorted(set(timeouts) - {"connect_s", "first_byte_s", "between_events_s", "total_s"})
    if unknown:
        raise BadModelSettings(f"model.timeouts: unknown field {unknown[0]!r}")
    return ModelSettings(
        id=spec["id"],
        provider=spec["provider"],
        api=spec["api"],
        base_url=spec.get("base_url") or _BASE_URLS.get(spec["provider"], ""),
        headers=dict(spec.get("headers") or {}),
        max_tokens=spec.get("max_tokens"),
        temperature=spec.get("temperature"),
        reasoning=bool(compat.pop("reasoning", level != "off")),
        thinking_levels=dict(compat.pop("thinking_levels", None) or {}),
        thinking_budgets=dict(spec.get("thinking_budgets") or {}),
        context_window=spec.get("context_window"),
        input=tuple(spec.get("input") or ("text",)),
        prices=prices_from_spec(spec["cost"]) if spec.get("cost") else None,
        cache_retention=compat.pop("cache_retention", "short"),
        compat=compat,
        timeouts=Timeouts(**timeouts),
    )


def prices_from_spec(cost: Mapping[str, Any]) -> Prices:
    """`{input, output, cache_read?, cache_write?, tiers?: [{input_tokens_above, ...}]}`, dollars per
    million tokens."""
    unknown = sorted(set(cost) - {*_RATES, "tiers"})
    if unknown:
        raise BadModelSettings(f"model.cost: unknown field {unknown[0]!r}")
    tiers = tuple(
        PriceTier(int(tier["input_tokens_above"]), *(float(tier.get(rate) or 0) for rate in _RATES))
        for tier in cost.get("tiers") or ()
    )
    return Prices(*(float(cost.get(rate) or 0) for rate in _RATES), tiers=tiers)


def _compat(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The flags; `reasoning`, `thinking_levels` and `cache_retention` are those of all protocols and judged here."""
    compat: dict[str, Any] = dict(spec.get("compat") or {})
    if not isinstance(compat.get("reasoning", False), bool):
        raise BadModelSettings("model.compat.reasoning: must be true or false")
    if compat.get("cache_retention", "short") not in CACHE_RETENTIONS:
        raise BadModelSettings(f"model.compat.cache_retention: must be one of {', '.join(CACHE_RETENTIONS)}")
    levels = compat.get("thinking_levels")
    if levels is not None and not is_object(levels):
        raise BadModelSettings("model.compat.thinking_levels: must be an object")
    _check_levels("compat.thinking_levels", levels)
    _check_levels("thinking_budgets", spec.get("thinking_budgets"))
    for level, word in (levels or {}).items():
        if not (word is None or (isinstance(word, str) and word)):
            raise BadModelSettings(f"model.compat.thinking_levels.{level}: must be the provider's word, or null")
    return compat


def _check_levels(name: str, levels: Mapping[str, Any] | None) -> None:
    unknown = sorted(set(levels or {}) - set(LEVELS))
    if unknown:
        raise BadModelSettings(f"model.{name}: {unknown[0]!r} is no thinking level")


_BASE_URLS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "deepseek": "https://api.deepseek.com",
    "mistral": "https://api.mistral.ai/v1",
    "groq": "https://api.groq.com/openai/v1",
    "together": "https://api.together.xyz/v1",
    "xai": "https://api.x.ai/v1",
    "cerebras": "https://api.cerebras.ai/v1",
    "moonshotai": "https://api.moonshot.ai/v1",
    "zai": "https://api.z.ai/api/paas/v4",
    "ollama": "http://127.0.0.1:11434/v1",
}
