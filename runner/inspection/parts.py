"""What there is to show of one entry: a title and parts, the same for every format. Pure.

Refuses to leave anything out: fields and blocks that nobody here knows are shown as JSON.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from checkpoint.jsontypes import JsonObject
from checkpoint.session.javascript import UNDEFINED, to_text
from runner.inspection.session_file import Entry
from runner.inspection.survey import as_object, blocks_of, text_or

Look: TypeAlias = Literal["plain", "thinking", "error", "output"]


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str
    look: Look = "plain"
    label: str | None = None


@dataclass(frozen=True, slots=True)
class JsonPart:
    label: str
    value: Any


@dataclass(frozen=True, slots=True)
class CallPart:
    """A tool call: its name, id and arguments."""

    name: str
    call_id: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class ImagePart:
    """`data` is base64 as the session has it, unchecked."""

    mime_type: str
    data: str


Part: TypeAlias = TextPart | JsonPart | CallPart | ImagePart

_COMMON = frozenset({"type", "id", "parentId", "timestamp"})
_OF_MESSAGE = frozenset({"role", "content", "timestamp", "usage"})
_SHOWN_OF = {
    "assistant": frozenset({"api", "provider", "model", "stopReason", "errorMessage"}),
    "toolResult": frozenset({"toolCallId", "toolName", "isError"}),
    "bashExecution": frozenset({"command", "output", "exitCode", "cancelled", "truncated", "fullOutputPath"}),
    "custom": frozenset({"customType", "display"}),
}


def title_of(entry: Entry) -> str:
    """What kind of entry it is, in a few words."""
    kind = text_or(entry.at.type, "unknown")
    if kind != "message":
        return kind
    message = as_object(entry.value.get("message"))
    role = text_or(message.get("role"), "message")
    match role:
        case "toolResult":
            failed = " failed" if message.get("isError") is True else ""
            return f"tool result: {text_or(message.get('toolName'), '?')}{failed}"
        case "assistant":
            return f"assistant ({text_or(message.get('model'), '?')})"
        case _:
            return role


def parts_of(entry: Entry) -> Iterator[Part]:
    """The content of an entry, in order."""
    value = entry.value
    match entry.at.type:
        case "message":
            yield from _message_parts(value)
        case "compaction" | "branch_summary":
            yield TextPart(text_or(value.get("summary"), ""))
            yield from _rest(value, {"summary"})
        case "custom_message":
            yield TextPart(text_or(value.get("customType"), "?"), label="customType")
            yield from _content_parts(value.get("content"))
            yield from _rest(value, {"customType", "content"})
        case "model_change":
            model = f"{text_or(value.get('provider'), '?')}/{text_or(value.get('modelId'), '?')}"
            yield TextPart(model)
            yield from _rest(value, {"provider", "modelId"})
        case "thinking_level_change":
            yield TextPart(text_or(value.get("thinkingLevel"), "?"))
            yield from _rest(value, {"thinkingLevel"})
        case "session_info":
            yield TextPart(text_or(value.get("name"), ""))
            yield from _rest(value, {"name"})
        case _:
            yield from _rest(value, set())


def _message_parts(value: JsonObject) -> Iterator[Part]:
    message: Any = value.get("message")
    if not isinstance(message, dict):
        yield JsonPart("message", message)
        return
    fields = cast("JsonObject", message)
    role = text_or(fields.get("role"), "?")
    if role == "bashExecution":
        yield from _bash_parts(fields)
    else:
        look: Look = "output" if role == "toolResult" else "plain"
        yield from _content_parts(fields.get("content"), "error" if fields.get("isError") is True else look)
    stop = fields.get("stopReason")
    if role == "assistant" and stop not in ("stop", "toolUse"):
        yield TextPart(to_text(stop if stop is not None else UNDEFINED), "error", "stopReason")
    if isinstance(fields.get("errorMessage"), str):
        yield TextPart(fields["errorMessage"], "error", "errorMessage")
    shown = _OF_MESSAGE | _SHOWN_OF.get(role, frozenset())
    rest = {key: item for key, item in fields.items() if key not in shown}
    if rest:
        yield JsonPart("further fields of the message", rest)
    yield from _rest(value, {"message"})


def _content_parts(content: Any, look: Look = "plain") -> Iterator[Part]:
    if content is not None and not isinstance(content, str | list):
        yield JsonPart("content", content)
    for block in blocks_of(content):
        match block.get("type"):
            case "text":
                yield TextPart(text_or(block.get("text"), ""), look)
            case "thinking":
                hidden = "(redacted)" if block.get("redacted") is True else ""
                yield TextPart(text_or(block.get("thinking"), "") or hidden, "thinking", "thinking")
            case "toolCall":
                name, call_id = text_or(block.get("name"), "?"), text_or(block.get("id"), "?")
                yield CallPart(name, call_id, block.get("arguments"))
            case "image":
                yield ImagePart(text_or(block.get("mimeType"), "?"), text_or(block.get("data"), ""))
            case _:
                yield JsonPart("block", block)
    if isinstance(content, list):
        strange = [item for item in cast("list[Any]", content) if not isinstance(item, dict)]
        if strange:
            yield JsonPart("content that is no block", strange)


def _bash_parts(message: JsonObject) -> Iterator[Part]:
    yield TextPart(text_or(message.get("command"), ""), "plain", "command")
    yield TextPart(text_or(message.get("output"), ""), "output", "output")
    for name in ("exitCode", "cancelled", "truncated", "fullOutputPath"):
        if message.get(name) not in (None, False):
            yield TextPart(to_text(message[name]), "plain", name)


def _rest(value: JsonObject, shown: set[str]) -> Iterator[Part]:
    rest = {key: item for key, item in value.items() if key not in _COMMON and key not in shown}
    if rest:
        yield JsonPart("fields", rest)
