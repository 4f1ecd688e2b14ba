"""Requests of the Chat Completions protocol. Pure. Source: the cases in tests/corpus/providers."""

from checkpoint.jsontypes import JsonObject
from runner.models.completions_compat import Compat, detect, is_service
from runner.models.completions_messages import has_tool_history, mark_cache, wire_messages
from runner.models.estimate import estimate_input_tokens, output_limit
from runner.models.history import fold_system, prepare
from runner.models.levels import budget_for, clamp_level, provider_word
from runner.models.protocol import Conversation, HttpRequest, merged_headers
from runner.models.settings import CallOptions, ModelSettings
from runner.models.tool_ids import completions_id
from runner.models.tools import strict_schema, wants_strict

_KEY_LENGTH = 64


def build(model: ModelSettings, talk: Conversation, options: CallOptions) -> HttpRequest:
    compat = detect(model)
    url = f"{model.base_url.rstrip('/')}/chat/completions"
    return HttpRequest(url, _headers(model, compat, options), build_body(model, talk, options))


def build_body(model: ModelSettings, talk: Conversation, options: CallOptions) -> JsonObject:
    compat = detect(model)
    system, messages = fold_system(talk.system, talk.messages)
    prepared = prepare(messages, model, lambda given, _: completions_id(given, model.provider), longest_id=40)
    sent = wire_messages(prepared, model, compat)
    if system:
        role = "developer" if model.reasoning and compat.supports_developer_role else "system"
        sent.insert(0, {"role": role, "content": system})
    body: JsonObject = {"model": model.id, "messages": sent, "stream": True}
    if compat.supports_usage_in_streaming:
        body["stream_options"] = {"include_usage": True}
    if compat.supports_store:
        body["store"] = False
    limit = _limit(model, talk, options)
    if limit is not None:
        body[compat.max_tokens_field] = limit
    temperature = options.temperature if options.temperature is not None else model.temperature
    if temperature is not None:
        body["temperature"] = temperature
    if talk.tools:
        body["tools"] = [_tool(tool, compat) for tool in talk.tools]
    elif compat.requires_tools_with_tool_history and has_tool_history(prepared):
        body["tools"] = []
    if options.tool_choice is not None:
        body["tool_choice"] = options.tool_choice
    if model.reasoning:
        body.update(_thinking(model, compat, options))
    if compat.open_router_routing:
        body["provider"] = dict(compat.open_router_routing)
    body.update(_cache_fields(model, compat, options))
    if compat.cache_control_format == "anthropic" and options.cache_retention != "none":
        long = options.cache_retention == "long" and compat.supports_long_cache_retention
        mark_cache(sent, body.get("tools"), {"type": "ephemeral", **({"ttl": "1h"} if long else {})})
    body.update(options.sampling)
    return body


def _headers(model: ModelSettings, compat: Compat, options: CallOptions) -> dict[str, str]:
    own = {"content-type": "application/json", "accept": "application/json"}
    if options.api_key:
        own["authorization"] = f"Bearer {options.api_key}"
    session = options.session_id if options.cache_retention != "none" else None
    if session and is_service(model, "openrouter", "openrouter.ai"):
        own["x-session-id"] = session
    elif session and compat.send_session_affinity_headers:
        own |= {"session_id": session, "x-client-request-id": session, "x-session-affinity": session}
    return merged_headers(own, model.headers, options.headers)


def _limit(model: ModelSettings, talk: Conversation, options: CallOptions) -> int | None:
    if not options.implied:
        return options.max_tokens
    tokens = estimate_input_tokens(talk.system, talk.messages, talk.tools)
    return output_limit(model, options.max_tokens, tokens)


def _cache_fields(model: ModelSettings, compat: Compat, options: CallOptions) -> JsonObject:
    if options.cache_retention == "none":
        return {}
    long = options.cache_retention == "long" and compat.supports_long_cache_retention
    sent: JsonObject = {}
    if options.session_id and ("api.openai.com" in model.base_url or long):
        sent["prompt_cache_key"] = options.session_id[:_KEY_LENGTH]
    if long:
        sent["prompt_cache_retention"] = "24h"
    return sent


def _tool(tool: JsonObject, compat: Compat) -> JsonObject:
    function: JsonObject = {
        "name": tool["name"],
        "description": tool.get("description") or "",
        "parameters": tool.get("parameters") or {"type": "object", "properties": {}},
    }
    if compat.supports_strict_mode:
        function["strict"] = wants_strict(tool)
        if function["strict"]:
            function["parameters"] = strict_schema(function["parameters"])
    return {"type": "function", "function": function}


def _thinking(model: ModelSettings, compat: Compat, options: CallOptions) -> JsonObject:
    """The fields that turn thinking on or off; every server family has its own."""
    level = clamp_level(model, options.reasoning)
    word = provider_word(model, level) if level else None
    effort: JsonObject = {"reasoning_effort": word} if word and compat.supports_reasoning_effort else {}
    sent: JsonObject = {}
    match compat.thinking_format:
        case "deepseek":
            sent = {"thinking": {"type": "enabled" if level else "disabled"}, **effort}
        case "zai":
            on = {"type": "enabled", "clear_thinking": False}
            sent = {"thinking": on if level else {"type": "disabled"}, **effort}
        case "qwen":
            sent = {"enable_thinking": level is not None, **effort}
        case "qwen-chat-template":
            sent = {"chat_template_kwargs": {"enable_thinking": level is not None, "preserve_thinking": True}}
        case "chat-template":
            sent = {"chat_template_kwargs": dict(compat.chat_template_kwargs)} if level else {}
        case "together":
            sent = {"reasoning": {"enabled": level is not None}, **effort}
        case "string-thinking":
            sent = {"thinking": word or "none"}
        case "openrouter":
            off = model.thinking_levels.get("off", "none")
            sent = {"reasoning": {"effort": word or off}} if word or off is not None else {}
        case "ant-ling":
            named = model.thinking_levels.get(level) if level else None
            sent = {"reasoning": {"effort": named}} if named else {}
        case _:
            off = model.thinking_levels.get("off")
            sent = effort if level else {"reasoning_effort": off} if off else {}
    if level and compat.thinking_token_budget:
        sent["thinking_token_budget"] = budget_for(level, model.thinking_budgets, options.thinking_budgets)
    return sent
