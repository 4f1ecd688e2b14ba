"""The transcript as input items of the Responses protocol. Pure. Source: the history cases in
tests/corpus/providers."""

import json
from collections.abc import Mapping
from typing import Any

from checkpoint.jsontypes import JsonObject, Message
from runner.models.history import is_same_model, text_of
from runner.models.json_text import clean, js_json
from runner.models.settings import ModelSettings
from runner.models.shapes import an_object, is_list, is_object
from runner.models.tool_ids import short_hash
from runner.models.tools import grammar_argument

NO_OUTPUT = "(no tool output)"
_LONGEST_ITEM_ID = 64


def wire_input(messages: list[Message], model: ModelSettings, grammars: Mapping[str, JsonObject]) -> list[JsonObject]:
    items: list[JsonObject] = []
    custom_calls: set[str] = set()
    for number, message in enumerate(messages):
        role = message["role"]
        if role == "user":
            content = _user_parts(message["content"])
            if content:
                items.append({"role": "user", "content": content})
        elif role == "assistant":
            for item in _assistant_items(message, number, model, grammars):
                if item["type"] == "custom_tool_call":
                    custom_calls.add(item["call_id"])
                items.append(item)
        elif role == "toolResult":
            items.append(_result(message, custom_calls))
    return items


def _user_parts(content: str | list[JsonObject]) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    return _parts(content)


def _parts(content: list[JsonObject]) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for block in content:
        if block.get("type") == "text":
            parts.append({"type": "input_text", "text": block["text"]})
        elif block.get("type") == "image":
            url = f"data:{block.get('mimeType')};base64,{block.get('data')}"
            parts.append({"type": "input_image", "detail": "auto", "image_url": url})
    return parts


def _assistant_items(
    message: Message, number: int, model: ModelSettings, grammars: Mapping[str, JsonObject]
) -> list[JsonObject]:
    same = is_same_model(message, model)
    sibling = (message.get("provider"), message.get("api")) == (model.provider, model.api) and not same
    items: list[JsonObject] = []
    texts = 0
    for block in message["content"]:
        kind = block.get("type")
        if kind == "thinking":
            item = _json_object(block.get("thinkingSignature"))
            if item is not None:
                items.append(item)
        elif kind == "text":
            items.append(_message_item(block, f"msg_pi_{number}{f'_{texts}' if texts else ''}"))
            texts += 1
        elif kind == "toolCall":
            items.append(_call_item(block, grammars, keep_item_id=not sibling))
    return items


def _message_item(block: JsonObject, made_up_id: str) -> JsonObject:
    """A text goes back under the item id and phase it came with, where its signature tells them."""
    signature = block.get("textSignature")
    parsed = _json_object(signature) if signature else None
    given_id = parsed.get("id") if parsed else signature
    item_id = str(given_id) if given_id else made_up_id
    if len(item_id) > _LONGEST_ITEM_ID:
        item_id = f"msg_{short_hash(item_id)}"
    item: JsonObject = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": block["text"], "annotations": []}],
        "status": "completed",
        "id": item_id,
    }
    if parsed and parsed.get("phase"):
        item["phase"] = parsed["phase"]
    return item


def _json_object(text: object) -> JsonObject | None:
    if not isinstance(text, str) or not text.startswith("{"):
        return None
    try:
        parsed: Any = json.loads(text)
    except ValueError:
        return None
    return parsed if is_object(parsed) else None


def _call_item(block: JsonObject, grammars: Mapping[str, JsonObject], *, keep_item_id: bool) -> JsonObject:
    call_id, _, item_id = block["id"].partition("|")
    name, arguments = block.get("name"), an_object(block.get("arguments"))
    grammar = grammars.get(str(name))
    wanted = "fc_" if grammar is None else "ctc_"
    known = {"id": item_id} if keep_item_id and item_id.startswith(wanted) else {}
    namespace = {"namespace": block["namespace"]} if block.get("namespace") else {}
    if grammar is not None:
        text = str(arguments.get(grammar_argument(grammar)) or "")
        return {
            "type": "custom_tool_call",
            **known,
            "call_id": call_id,
            "name": name,
            "input": text,
            **namespace,
        }
    return {
        "type": "function_call",
        **known,
        "call_id": call_id,
        "name": name,
        "arguments": js_json(clean(arguments)),
        **namespace,
    }


def _result(message: Message, custom_calls: set[str]) -> JsonObject:
    call_id = message["toolCallId"].partition("|")[0]
    content = message["content"]
    text = text_of(content)
    output: str | list[JsonObject] = text if text.strip() else NO_OUTPUT
    if is_list(content) and any(block.get("type") == "image" for block in content):
        output = [part for part in _parts(content) if part.get("text", "x").strip()]
    kind = "custom_tool_call_output" if call_id in custom_calls else "function_call_output"
    return {"type": kind, "call_id": call_id, "output": output}
