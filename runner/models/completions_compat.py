"""What a server that speaks like OpenAI's Chat Completions really takes.

Found out by provider name or host; `compat` of the spec overrules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from runner.models.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class Compat:
    supports_store: bool = True
    supports_developer_role: bool = False
    supports_reasoning_effort: bool = True
    supports_usage_in_streaming: bool = True
    supports_strict_mode: bool = False
    supports_finish_reason: bool = True
    supports_long_cache_retention: bool = True
    max_tokens_field: str = "max_completion_tokens"
    requires_tool_result_name: bool = False
    requires_assistant_after_tool_result: bool = False
    requires_non_null_assistant_content: bool = False
    requires_tools_with_tool_history: bool = False
    requires_reasoning_content_on_assistant_messages: bool = False
    requires_thinking_as_text: bool = False
    send_session_affinity_headers: bool = False
    thinking_format: str = "openai"
    """openai, deepseek, openrouter, zai, qwen, qwen-chat-template, chat-template, together,
    string-thinking, ant-ling."""
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Sent with thinking format chat-template."""
    thinking_token_budget: bool = False
    """Whether `thinking_token_budget` (vLLM) is sent with the level's budget."""
    cache_control_format: str = ""
    """"anthropic": cache marks inside the messages; "": the server caches by itself."""
    open_router_routing: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """OpenRouter's `provider` field."""


_USUAL = Compat()
FLAGS: Mapping[str, Any] = {item.name: getattr(_USUAL, item.name) for item in fields(Compat)}


def is_service(model: ModelSettings, provider: str, *hosts: str) -> bool:
    return model.provider == provider or any(host in model.base_url for host in hosts)


def detect(model: ModelSettings) -> Compat:
    """What is known of the server, with the spec's word on top."""
    deepseek = is_service(model, "deepseek", "deepseek.com")
    zai = is_service(model, "zai", "api.z.ai", "bigmodel.cn")
    moonshot = model.provider.startswith("moonshotai") or "api.moonshot." in model.base_url
    together = is_service(model, "together", "api.together.ai", "api.together.xyz")
    nvidia = is_service(model, "nvidia", "integrate.api.nvidia.com")
    chutes = is_service(model, "chutes", "chutes.ai")
    gateway = is_service(model, "cloudflare-ai-gateway", "gateway.ai.cloudflare.com")
    grok = is_service(model, "xai", "api.x.ai")
    openrouter = is_service(model, "openrouter", "openrouter.ai")
    others = (
        is_service(model, "cerebras", "cerebras.ai"),
        is_service(model, "opencode", "opencode.ai"),
        is_service(model, "mistral", "mistral.ai"),
        is_service(model, "cloudflare-workers-ai", "api.cloudflare.com"),
    )
    own_ways = any((deepseek, zai, moonshot, together, nvidia, chutes, gateway, grok, *others))
    short_limit = any((deepseek, zai, moonshot, together, nvidia, chutes, gateway))
    thinking = "openai"
    for found, name in (
        (deepseek, "deepseek"),
        (zai, "zai"),
        (together, "together"),
        (is_service(model, "ant-ling", "ant-ling.com"), "ant-ling"),
        (openrouter, "openrouter"),
    ):
        if found:
            thinking = name
            break
    detected = Compat(
        supports_store=not own_ways,
        supports_developer_role=is_service(model, "openai", "api.openai.com"),
        supports_reasoning_effort=not any((grok, zai, moonshot, together, gateway, nvidia)),
        max_tokens_field="max_tokens" if short_limit else "max_completion_tokens",
        requires_reasoning_content_on_assistant_messages=deepseek,
        thinking_format=thinking,
        cache_control_format="anthropic" if openrouter and model.id.startswith("anthropic/") else "",
    )
    given = {name: value for name, value in model.compat.items() if name in FLAGS}
    return replace(detected, **given)
