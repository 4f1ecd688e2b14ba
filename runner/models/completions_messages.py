"""The transcript as Chat Completions messages. Pure. Source: the cases in tests/corpus/providers."""

import json

from checkpoint.jsontypes import JsonObject, Message
from runner.models.completions_compat import Compat
from runner.models.history import text_of
from runner.models.json_text import clean, js_json
from runner.models.settings import ModelSettings
from runner.models.shapes import an_object, is_list, is_object

THINKING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
NO_OUTPUT = "(no tool output)"
SEE_IMAGE = "(see attached image)"
_IMAGES = "Attached image(s) from tool result:"
_FILLER = "I have processed the tool results."


def has_tool_history(messages: list[Message]) -> bool:
    return any(
        message["role"] == "toolResult"
        or (message["role"] == "assistant" and any(block.get("type") == "toolCall" for block in message["content"]))
        for message in messages
    )


def wire_messages(messages: list[Message], model: ModelSettings, compat: Compat) -> list[JsonObject]:
    """Results in a row stay together: their images follow them as one user message."""
    sent: list[JsonObject] = []
    images: list[JsonObject] = []
    after_results = False
    for message in [*messages, {"role": "end"}]:
        role = message["role"]
        if role == "toolResult":
            sent.append(_result(message, compat))
            images += _image_parts(message["content"])
            after_results = True
            continue
        if images:
            if compat.requires_assistant_after_tool_result:
                sent.append({"role": "assistant", "content": _FILLER})
            sent.append({"role": "user", "content": [{"type": "text", "text": _IMAGES}, *images]})
            images = []
        elif after_results and role == "user" and compat.requires_assistant_after_tool_result:
            sent.append({"role": "assistant", "content": _FILLER})
        after_results = False
        if role == "user":
            content = _user_content(message["content"])
            if content is not None:
                sent.append({"role": "user", "content": content})
        elif role == "assistant":
            answer = _assistant(message, model, compat)
            if answer is not None:
                sent.append(answer)
    return sent


def _user_content(content: str | list[JsonObject]) -> str | list[JsonObject] | None:
    if isinstance(content, str):
        return content
    parts: list[JsonObject] = []
    for block in content:
        if block.get("type") == "text" and block["text"]:
            parts.append({"type": "text", "text": block["text"]})
        elif block.get("type") == "image":
            parts.append(_image(block))
    return parts or None


def _image(block: JsonObject) -> JsonObject:
    url = f"data:{block.get('mimeType')};base64,{block.get('data')}"
    return {"type": "image_url", "image_url": {"url": url}}


def _image_parts(content: str | list[JsonObject]) -> list[JsonObject]:
    if isinstance(content, str):
        return []
    return [_image(block) for block in content if block.get("type") == "image"]


def _result(message: Message, compat: Compat) -> JsonObject:
    text = text_of(message["content"])
    if not text.strip():
        text = SEE_IMAGE if _image_parts(message["content"]) else NO_OUTPUT
    sent: JsonObject = {"role": "tool", "content": text, "tool_call_id": message["toolCallId"]}
    if compat.requires_tool_result_name and message.get("toolName"):
        sent["name"] = message["toolName"]
    return sent


def _assistant(message: Message, model: ModelSettings, compat: Compat) -> JsonObject | None:
    """An answer with neither words nor calls is left out."""
    blocks: list[JsonObject] = message["content"]
    text = "".join(block["text"] for block in blocks if block.get("type") == "text" and block["text"].strip())
    thoughts = [block for block in blocks if block.get("type") == "thinking"]
    if compat.requires_thinking_as_text:
        aloud = "\n\n".join(block["thinking"] for block in thoughts if block["thinking"].strip())
        text = "\n\n".join(part for part in (aloud, text) if part)
        thoughts = []
    calls = [_call(block) for block in blocks if block.get("type") == "toolCall"]
    if not text and not calls:
        return None
    no_null = compat.requires_non_null_assistant_content or compat.requires_assistant_after_tool_result
    sent: JsonObject = {"role": "assistant", "content": text or ("" if no_null else None)}
    sent.update(_thinking(thoughts))
    if calls:
        sent["tool_calls"] = calls
    if model.reasoning and compat.requires_reasoning_content_on_assistant_messages:
        sent.setdefault("reasoning_content", "")
    return sent


def _thinking(thoughts: list[JsonObject]) -> JsonObject:
    """Thinking goes back under the name it came by: a field's name, or a list of OpenRouter's details."""
    said: dict[str, list[str]] = {}
    details: list[JsonObject] = []
    for block in thoughts:
        signature = str(block.get("thinkingSignature") or "")
        if signature in THINKING_FIELDS and block["thinking"].strip():
            said.setdefault(signature, []).append(block["thinking"])
        elif signature.startswith("["):
            details += _details(signature)
    sent: JsonObject = {name: "\n".join(texts) for name, texts in list(said.items())[:1]}
    if details:
        sent["reasoning_details"] = details
    return sent


def _details(signature: str) -> list[JsonObject]:
    try:
        parsed = json.loads(signature)
    except ValueError:
        return []
    return [item for item in parsed if is_object(item)]


def _call(block: JsonObject) -> JsonObject:
    arguments = js_json(clean(an_object(block.get("arguments"))))
    return {
        "id": block["id"],
        "type": "function",
        "function": {"name": block.get("name"), "arguments": arguments},
    }


def mark_cache(messages: list[JsonObject], tools: list[JsonObject] | None, mark: JsonObject) -> None:
    """Cache marks for Anthropic's models behind OpenRouter: system prompt, last tool, last message with
    text."""
    if messages and messages[0]["role"] in ("system", "developer"):
        _mark(messages[0], mark)
    if tools:
        tools[-1]["cache_control"] = mark
    for message in reversed(messages):
        if message["role"] in ("user", "assistant", "tool") and _mark(message, mark):
            return


def _mark(message: JsonObject, mark: JsonObject) -> bool:
    content = message.get("content")
    if isinstance(content, str) and content:
        message["content"] = [{"type": "text", "text": content, "cache_control": mark}]
        return True
    for part in reversed(content if is_list(content) else []):
        if part.get("type") == "text":
            part["cache_control"] = mark
            return True
    return False
