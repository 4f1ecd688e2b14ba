"""Requests of OpenAI's Responses protocol. Pure. Source: the cases in tests/corpus/providers."""

from collections.abc import Mapping

from checkpoint.jsontypes import JsonObject
from runner.models.estimate import estimate_input_tokens, output_limit
from runner.models.history import fold_system, prepare
from runner.models.levels import clamp_level, provider_word
from runner.models.protocol import Conversation, HttpRequest, merged_headers
from runner.models.responses_input import wire_input
from runner.models.settings import CallOptions, ModelSettings
from runner.models.tool_ids import responses_id
from runner.models.tools import grammar_of, strict_schema, wants_strict

FLAGS: Mapping[str, bool | None] = {
    "supports_developer_role": True,
    "supports_strict_mode": None,
    "supports_explicit_prompt_cache_mode": False,
    "supports_openai_grammar_tools": False,
    "supports_long_cache_retention": True,
}
_KEY_LENGTH = 64
_LEAST_OUTPUT = 16
_ENCRYPTED = "reasoning.encrypted_content"


def flag(model: ModelSettings, name: str) -> bool:
    return bool(model.compat.get(name, FLAGS[name]))


def build(model: ModelSettings, talk: Conversation, options: CallOptions) -> HttpRequest:
    url = f"{model.base_url.rstrip('/')}/responses"
    return HttpRequest(url, _headers(model, options), build_body(model, talk, options))


def build_body(model: ModelSettings, talk: Conversation, options: CallOptions) -> JsonObject:
    system, messages = fold_system(talk.system, talk.messages)
    prepared = prepare(
        messages,
        model,
        lambda given, source: responses_id(
            given,
            model.provider,
            same_service=(source.get("provider"), source.get("api")) == (model.provider, model.api),
        ),
        longest_id=129,
    )
    grammars = grammar_tools(model, talk)
    items = wire_input(prepared, model, grammars)
    if system:
        developer = model.reasoning and flag(model, "supports_developer_role")
        items.insert(0, {"role": "developer" if developer else "system", "content": system})
    body: JsonObject = {"model": model.id, "input": items, "stream": True, "store": False}
    body.update(_cache_fields(model, options))
    limit = _limit(model, talk, options)
    if limit is not None:
        body["max_output_tokens"] = max(_LEAST_OUTPUT, limit)
    temperature = options.temperature if options.temperature is not None else model.temperature
    if temperature is not None:
        body["temperature"] = temperature
    if options.service_tier is not None:
        body["service_tier"] = options.service_tier
    if talk.tools:
        body["tools"] = [_tool(tool, model, grammars) for tool in talk.tools]
    if options.tool_choice is not None:
        body["tool_choice"] = options.tool_choice
    body.update(_reasoning(model, options))
    body.update(options.sampling)
    return body


def grammar_tools(model: ModelSettings, talk: Conversation) -> dict[str, JsonObject]:
    """Tools that this model calls with free text in a grammar, by name."""
    if not flag(model, "supports_openai_grammar_tools"):
        return {}
    return {tool["name"]: tool for tool in talk.tools if grammar_of(tool) is not None}


def _headers(model: ModelSettings, options: CallOptions) -> dict[str, str]:
    own = {"content-type": "application/json", "accept": "application/json"}
    if options.api_key:
        own["authorization"] = f"Bearer {options.api_key}"
    session = options.session_id if options.cache_retention != "none" else None
    if session and (model.provider == "openrouter" or "openrouter.ai" in model.base_url):
        own["x-session-id"] = session
    elif session:
        own |= {"session-id": session, "x-client-request-id": session}
    return merged_headers(own, model.headers, options.headers)


def _cache_fields(model: ModelSettings, options: CallOptions) -> JsonObject:
    explicit = flag(model, "supports_explicit_prompt_cache_mode")
    if options.cache_retention == "none":
        return {"prompt_cache_options": {"mode": "explicit"}} if explicit else {}
    sent: JsonObject = {}
    if options.session_id:
        sent["prompt_cache_key"] = options.session_id[:_KEY_LENGTH]
    if options.cache_retention == "long" and explicit:
        sent["prompt_cache_options"] = {"ttl": "30m"}
    elif options.cache_retention == "long" and flag(model, "supports_long_cache_retention"):
        sent["prompt_cache_retention"] = "24h"
    return sent


def _limit(model: ModelSettings, talk: Conversation, options: CallOptions) -> int | None:
    if not options.implied:
        return options.max_tokens
    tokens = estimate_input_tokens(talk.system, talk.messages, talk.tools)
    return output_limit(model, options.max_tokens, tokens)


def _reasoning(model: ModelSettings, options: CallOptions) -> JsonObject:
    """Asking for a summary alone means a medium effort. Encrypted reasoning comes back for the next
    request."""
    if not model.reasoning:
        return {}
    level = clamp_level(model, options.reasoning)
    if level is None and options.reasoning_summary is None:
        off = model.thinking_levels.get("off", "none")
        return {"reasoning": {"effort": off}} if off is not None else {}
    effort = provider_word(model, level or "medium")
    summary = options.reasoning_summary or "auto"
    return {"reasoning": {"effort": effort, "summary": summary}, "include": [_ENCRYPTED]}


def _tool(tool: JsonObject, model: ModelSettings, grammars: Mapping[str, JsonObject]) -> JsonObject:
    name, description = tool["name"], tool.get("description") or ""
    if name in grammars:
        form = {"type": "grammar", "syntax": "lark", "definition": grammar_of(tool)}
        return {"type": "custom", "name": name, "description": description, "format": form}
    parameters: JsonObject = tool.get("parameters") or {"type": "object", "properties": {}}
    sent: JsonObject = {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": parameters,
    }
    # OpenAI's own service takes a missing `strict` for true, which most schemas do not fit.
    known = model.compat.get("supports_strict_mode")
    if known or (known is None and "api.openai.com" in model.base_url):
        sent["strict"] = wants_strict(tool)
        if sent["strict"]:
            sent["parameters"] = strict_schema(parameters)
    return sent
