"""Requests of the Anthropic Messages protocol. Pure. Source: the cases in tests/corpus/providers."""

from collections.abc import Mapping

from checkpoint.jsontypes import JsonObject, Message
from runner.models.estimate import estimate_input_tokens, output_limit
from runner.models.history import fold_system, prepare, text_of
from runner.models.json_text import without_surrogates
from runner.models.levels import budget_for, wants_thinking
from runner.models.protocol import Conversation, HttpRequest, merged_headers
from runner.models.settings import CallOptions, ModelSettings
from runner.models.shapes import an_object, is_list
from runner.models.tool_ids import anthropic_id
from runner.models.tools import strict_schema, wants_strict

FLAGS: Mapping[str, bool] = {
    "force_adaptive_thinking": False,
    "supports_cache_control_on_tools": True,
    "supports_eager_tool_input_streaming": True,
    "supports_long_cache_retention": True,
    "supports_mid_convo_system_messages": False,
    "supports_strict_mode": False,
    "allow_empty_signature": False,
}
_INTERLEAVED = "interleaved-thinking-2025-05-14"
_FINE_GRAINED = "fine-grained-tool-streaming-2025-05-14"
_SCHEMA_KEYS = ("additionalProperties", "$defs", "definitions")
_LEAST_BUDGET = 1024
_USUAL_LIMIT = 32_000  # the protocol wants a limit; today's models can write at least this much


def flag(model: ModelSettings, name: str) -> bool:
    return bool(model.compat.get(name, FLAGS[name]))


def build(model: ModelSettings, talk: Conversation, options: CallOptions) -> HttpRequest:
    body = build_body(model, talk, options)
    return HttpRequest(f"{model.base_url.rstrip('/')}/v1/messages", _headers(model, options, body), body)


def build_body(model: ModelSettings, talk: Conversation, options: CallOptions) -> JsonObject:
    system, messages = fold_system(talk.system, talk.messages, keep=flag(model, "supports_mid_convo_system_messages"))
    cache = _cache_control(model, options)
    max_tokens, thinking = _limits(model, talk, options)
    sent = _messages(prepare(messages, model, lambda given, _: anthropic_id(given)), model)
    _mark_last(sent, cache)
    body: JsonObject = {"model": model.id, "messages": sent, "max_tokens": max_tokens, "stream": True}
    if system:
        body["system"] = [{"type": "text", "text": system, **cache}]
    thinks = thinking.get("thinking", {}).get("type") in ("enabled", "adaptive")
    temperature = options.temperature if options.temperature is not None else model.temperature
    if temperature is not None and not thinks:
        body["temperature"] = temperature
    if talk.tools:
        body["tools"] = _tools(model, talk.tools, cache)
    body.update(thinking)
    if "user_id" in options.metadata:
        body["metadata"] = {"user_id": options.metadata["user_id"]}
    if options.tool_choice is not None:
        choice = options.tool_choice
        body["tool_choice"] = {"type": choice} if isinstance(choice, str) else choice
    body.update(options.sampling)
    return body


def _headers(model: ModelSettings, options: CallOptions, body: JsonObject) -> dict[str, str]:
    betas: list[str] = []
    if body.get("thinking", {}).get("type") == "enabled":
        betas.append(_INTERLEAVED)
    if body.get("tools") and not flag(model, "supports_eager_tool_input_streaming"):
        betas.append(_FINE_GRAINED)
    given = merged_headers(model.headers, options.headers)
    key = options.api_key or ""
    own = {
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
        "accept": "application/json",
        "anthropic-beta": ",".join(betas),
    }
    if "authorization" not in given and key:
        name, value = ("authorization", f"Bearer {key}") if key.startswith("sk-ant-oat") else ("x-api-key", key)
        own[name] = value
    if "anthropic-beta" in given:
        given["anthropic-beta"] = ",".join(part.strip() for part in given["anthropic-beta"].split(","))
    return merged_headers(own, given)


def _cache_control(model: ModelSettings, options: CallOptions) -> JsonObject:
    """`{"cache_control": ...}` to be put on a block, or nothing."""
    if options.cache_retention == "none":
        return {}
    long = options.cache_retention == "long" and flag(model, "supports_long_cache_retention")
    return {"cache_control": {"type": "ephemeral", **({"ttl": "1h"} if long else {})}}


# --- limits and thinking --------------------------------------------------------------------------------


def _limits(model: ModelSettings, talk: Conversation, options: CallOptions) -> tuple[int, JsonObject]:
    """`(max_tokens, the body's thinking fields)`. Tokens to think with come out of max_tokens, at least
    1024."""
    most = model.max_tokens or _USUAL_LIMIT
    wanted = options.max_tokens
    thinks = model.reasoning and wants_thinking(options)
    adaptive = flag(model, "force_adaptive_thinking")
    budget = 0
    if thinks and not adaptive:
        budget = budget_for(options.reasoning or "", model.thinking_budgets, options.thinking_budgets)
        if wanted is not None:
            wanted = min(wanted + budget, most)
    limit = most if wanted is None else wanted
    if options.implied:
        tokens = estimate_input_tokens(talk.system, talk.messages, talk.tools)
        limit = output_limit(model, limit, tokens) or limit
    if thinks and adaptive:
        effort = _effort(model, options.reasoning or "")
        shown = {"type": "adaptive", "display": "summarized"}
        return limit, {"thinking": shown, "output_config": {"effort": effort}}
    if thinks and limit > _LEAST_BUDGET:
        budget = max(_LEAST_BUDGET, min(budget, limit - _LEAST_BUDGET))
        return limit, {"thinking": {"type": "enabled", "budget_tokens": budget, "display": "summarized"}}
    off = model.thinking_levels.get("off", "")
    return limit, {"thinking": {"type": "disabled"}} if model.reasoning and options.implied and off is not None else {}


def _effort(model: ModelSettings, level: str) -> str:
    named = model.thinking_levels.get(level)
    if named:
        return named
    return {"minimal": "low", "xhigh": "high", "max": "high"}.get(level, level)


# --- tools and messages ---------------------------------------------------------------------------------


def _tools(model: ModelSettings, tools: list[JsonObject], cache: JsonObject) -> list[JsonObject]:
    sent: list[JsonObject] = []
    for tool in tools:
        schema: JsonObject = an_object(tool.get("parameters"))
        strict = flag(model, "supports_strict_mode") and wants_strict(tool)
        if strict:
            schema = strict_schema(schema)
        item: JsonObject = {"name": tool["name"], "description": tool.get("description") or ""}
        if flag(model, "supports_eager_tool_input_streaming"):
            item["eager_input_streaming"] = True
        if strict:
            item["strict"] = True
        item["input_schema"] = {
            "type": "object",
            "properties": an_object(schema.get("properties")),
            "required": schema.get("required") or [],
            **{key: schema[key] for key in _SCHEMA_KEYS if key in schema},
        }
        sent.append(item)
    if flag(model, "supports_cache_control_on_tools"):
        sent[-1].update(cache)
    return sent


def _messages(messages: list[Message], model: ModelSettings) -> list[JsonObject]:
    """Wire messages. A system message of the transcript waits for the next answer; results in a row become
    one."""
    sent: list[JsonObject] = []
    held: list[JsonObject] = []
    results: list[Message] = []
    for message in [*messages, {"role": "end"}]:
        role = message["role"]
        if results and role != "toolResult":
            sent.append({"role": "user", "content": _tool_results(results)})
            results = []
        if role in ("assistant", "end"):
            sent += held
            held = []
        if role == "system":
            text = without_surrogates(text_of(message.get("content")))
            held.append({"role": "system", "content": [{"type": "text", "text": text}]})
        elif role == "toolResult":
            results.append(message)
        elif role != "end":
            content = _user(message) if role == "user" else _assistant(message, model)
            if content:
                sent.append({"role": role, "content": content})
    return sent


def _user(message: Message) -> str | list[JsonObject]:
    content = message["content"]
    if isinstance(content, str):
        return content if content.strip() else ""
    return _shown_blocks(content)


def _shown_blocks(content: list[JsonObject]) -> list[JsonObject]:
    sent: list[JsonObject] = []
    for block in content:
        if block.get("type") == "text" and block["text"].strip():
            sent.append({"type": "text", "text": block["text"]})
        elif block.get("type") == "image":
            sent.append(_image(block))
    return sent


def _image(block: JsonObject) -> JsonObject:
    source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
    return {"type": "image", "source": source}


def _assistant(message: Message, model: ModelSettings) -> list[JsonObject]:
    sent: list[JsonObject] = []
    for block in message["content"]:
        kind = block.get("type")
        if kind == "text" and block["text"].strip():
            sent.append({"type": "text", "text": block["text"]})
        elif kind == "thinking":
            sent += _thinking(block, model)
        elif kind == "toolCall":
            arguments = an_object(block.get("arguments"))
            call: JsonObject = {
                "type": "tool_use",
                "id": block["id"],
                "name": block.get("name"),
                "input": arguments,
            }
            sent.append(call)
    return sent


def _thinking(block: JsonObject, model: ModelSettings) -> list[JsonObject]:
    """Signed thinking goes back as it is; unsigned thinking the service would refuse, so it becomes text."""
    signature = block.get("thinkingSignature")
    if block.get("redacted"):
        return [{"type": "redacted_thinking", "data": signature}]
    if signature or flag(model, "allow_empty_signature"):
        return [{"type": "thinking", "thinking": block["thinking"], "signature": signature or ""}]
    return [{"type": "text", "text": block["thinking"]}] if block["thinking"].strip() else []


def _tool_results(results: list[Message]) -> list[JsonObject]:
    """Images of a failed result go behind all results: the service takes none inside an error result."""
    sent: list[JsonObject] = []
    behind: list[JsonObject] = []
    for result in results:
        content = result["content"]
        images = [b for b in content if b.get("type") == "image"] if is_list(content) else []
        text = text_of(content)
        shown: str | list[JsonObject] = text
        if images and result.get("isError"):
            shown = "\n".join(part for part in (text, "(image attached after the tool results)") if part)
            call = f"{result['toolCallId']} ({result.get('toolName')})"
            caption = f"Images from the error result of tool call {call}:"
            behind += [{"type": "text", "text": caption}, *map(_image, images)]
        elif images:
            shown = _shown_blocks(content)
            if not text.strip():
                shown.insert(0, {"type": "text", "text": "(see attached image)"})
        sent.append(
            {
                "type": "tool_result",
                "tool_use_id": result["toolCallId"],
                "content": shown,
                "is_error": bool(result.get("isError")),
            }
        )
    return sent + behind


def _mark_last(sent: list[JsonObject], cache: JsonObject) -> None:
    """The cache reaches to the end of the conversation: its last block, if that is not the model's own."""
    if not cache or not sent or sent[-1]["role"] == "assistant":
        return
    last = sent[-1]
    if isinstance(last["content"], str):
        last["content"] = [{"type": "text", "text": last["content"]}]
    if last["content"][-1]["type"] in ("text", "image", "tool_result"):
        last["content"][-1].update(cache)
