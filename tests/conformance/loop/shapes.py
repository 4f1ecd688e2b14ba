"""Messages, results and models as a scenario writes them, and as a recording shows them."""

import json
from typing import Any

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.conversion import STANDARD_ROLES
from runner.agent.types import ModelName

DEFAULT_MODEL = {"id": "scripted-model"}


class ScriptedFailure(Exception):
    """What a scenario throws."""


def copied(value: Any) -> Any:
    """A deep copy, so that a recording does not change with what it recorded."""
    return json.loads(json.dumps(value))


def usage(spec: JsonObject | None) -> JsonObject:
    given: JsonObject = spec or {}
    read, written = given.get("input", 0), given.get("output", 0)
    return {
        "input": read,
        "output": written,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": read + written,
        "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0),
    }


def model(spec: JsonObject) -> ModelName:
    return ModelName(spec["id"], spec.get("provider", "scripted"), spec.get("api", "scripted"))


def message(spec: Any) -> Message:
    if isinstance(spec, str):
        return {"role": "user", "content": [{"type": "text", "text": spec}], "timestamp": 0}
    written: Message = copied(spec)
    if written["role"] == "assistant":
        defaults: JsonObject = {
            "api": "scripted",
            "provider": "scripted",
            "model": "scripted-model",
            "stopReason": "stop",
        }
        written = {**defaults, **written, "usage": usage(written.get("usage"))}
    elif written["role"] == "toolResult":
        written = {"isError": False, "details": {}, **written}
    return {**written, "timestamp": 0}


def messages(specs: list[Any] | None) -> list[Message]:
    return [message(spec) for spec in specs or ()]


def result(spec: Any) -> JsonObject:
    if isinstance(spec, str):
        spec = {"text": spec}
    written: JsonObject = copied(spec)
    if "usage" in written:
        written["usage"] = usage(written["usage"])
    if "text" in written:
        text = written.pop("text")
        written = {"content": [{"type": "text", "text": text}], "details": {}, **written}
    return written


# --- as recorded --------------------------------------------------------------------------------------------


def digest(message: Message) -> str:
    role = message["role"]
    if role == "assistant":
        return f"assistant:{message.get('stopReason')}"
    if role == "toolResult":
        return f"toolResult:{message['toolCallId']}{'!' if message.get('isError') else ''}"
    content = message.get("content")
    if isinstance(content, str):
        return f"{role}:{content}"
    blocks: list[JsonObject] = content or []
    return f"{role}:{'|'.join(block['text'] for block in blocks if block.get('type') == 'text')}"


def digests(messages: list[Message]) -> list[str]:
    return [digest(message) for message in messages]


def recorded(value: JsonObject) -> JsonObject:
    """A message or tool result without its absent values, clock and bookkeeping."""
    shown: JsonObject = {key: copied(member) for key, member in value.items() if member is not None}
    if "timestamp" in shown:
        shown["timestamp"] = 0
    if "usage" in shown:
        shown["usage"] = _recorded_usage(shown["usage"])
    return shown


def _recorded_usage(spent: JsonObject) -> Any:
    counted = {key: spent[key] for key in ("input", "output", "totalTokens")}
    return counted if any(counted.values()) else "zero"


def as_sent(message: Message) -> JsonObject:
    """A message of a model request."""
    keys = {"toolResult": ("toolCallId", "toolName", "isError"), "assistant": ("stopReason",)}
    shown = ("role", "content", *keys.get(message["role"], ()))
    return {key: copied(message[key]) for key in shown}


def is_standard(message: Message) -> bool:
    return message["role"] in STANDARD_ROLES
