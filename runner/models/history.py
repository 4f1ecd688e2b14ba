"""The conversation as the next request may carry it. Pure; the transcript itself is never touched.

What every provider refuses is put right here, once for all protocols: broken characters, images for a model
without eyes, another model's thinking and ids, failed answers, calls without a result, results without a
call, results that came late. Source: the history cases in
tests/corpus/providers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from checkpoint.jsontypes import JsonObject, Message
from runner.models.json_text import without_surrogates
from runner.models.settings import ModelSettings
from runner.models.shapes import is_list
from runner.models.tool_ids import UniqueIds

NO_RESULT = "No result provided"
_USER_IMAGE = "(image omitted: model does not support images)"
_TOOL_IMAGE = "(tool image omitted: model does not support images)"

NormaliseId = Callable[[str, Message], str]
"""(id, the assistant message it is in) -> the id for the target."""


@dataclass(slots=True)
class _Turn:
    """One message, and the tool results that belong right behind it."""

    message: Message
    open_calls: dict[str, list[JsonObject]] = field(default_factory=dict[str, list[JsonObject]])
    results: list[Message] = field(default_factory=list[Message])


def is_same_model(message: Message, model: ModelSettings) -> bool:
    return (message.get("provider"), message.get("api"), message.get("model")) == (
        model.provider,
        model.api,
        model.id,
    )


def fold_system(system: str, messages: Sequence[Message], *, keep: bool = False) -> tuple[str, list[Message]]:
    """Later system messages join the first, by blank lines; `keep` leaves them where they are."""
    if keep:
        return without_surrogates(system), list(messages)
    parts = [system] if system else []
    parts += [text_of(message.get("content")) for message in messages if message.get("role") == "system"]
    rest = [message for message in messages if message.get("role") != "system"]
    return without_surrogates("\n\n".join(part for part in parts if part)), rest


def text_of(content: object) -> str:
    """The text of a message's content: a string, or the text blocks joined by line ends."""
    if isinstance(content, str):
        return content
    blocks: list[JsonObject] = content if is_list(content) else []  # pyright: ignore[reportUnknownVariableType]
    return "\n".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")


def prepare(
    messages: Sequence[Message], model: ModelSettings, normalise: NormaliseId, *, longest_id: int = 64
) -> list[Message]:
    """Messages of the roles user, assistant, toolResult (and system, if still there), fit for `model`."""
    ids = UniqueIds(longest_id)
    turns: list[_Turn] = []
    for message in messages:
        role = message.get("role")
        if role == "assistant":
            if message.get("stopReason") not in ("error", "aborted"):
                turns.append(_assistant_turn(message, model, normalise, ids))
        elif role == "toolResult":
            _attach_result(turns, message, model)
        elif role in ("user", "system"):
            turns.append(_Turn({**message, "content": _content(message, model, _USER_IMAGE)}))
    prepared: list[Message] = []
    for turn in turns:
        prepared.append(turn.message)
        prepared += turn.results
        prepared += [_missing_result(call) for calls in turn.open_calls.values() for call in calls]
    return prepared


def _assistant_turn(message: Message, model: ModelSettings, normalise: NormaliseId, ids: UniqueIds) -> _Turn:
    same = is_same_model(message, model)
    turn = _Turn({**message})
    content: list[JsonObject] = []
    for block in _blocks(message.get("content")):
        kind = block.get("type")
        if kind == "toolCall":
            given = str(block.get("id") or "")
            sent = given if same and given else normalise(given, message) if given else ""
            call = {**block, "id": ids.claim(sent, given)}
            if not same:
                call.pop("thoughtSignature", None)
            turn.open_calls.setdefault(given, []).append(call)
            content.append(call)
        elif kind == "thinking":
            if same and (block.get("thinkingSignature") or block.get("redacted") or _shown(block, "thinking")):
                content.append({**block, "thinking": without_surrogates(str(block.get("thinking") or ""))})
        elif kind == "text":
            text = {**block, "text": without_surrogates(str(block.get("text") or ""))}
            if not same:
                text.pop("textSignature", None)
            content.append(text)
        else:
            content.append(block)
    turn.message["content"] = content
    return turn


def _shown(block: JsonObject, key: str) -> bool:
    return bool(str(block.get(key) or "").strip())


def _attach_result(turns: list[_Turn], message: Message, model: ModelSettings) -> None:
    """Put a result behind the latest answer that still waits for it; others are left out."""
    given = str(message.get("toolCallId") or "")
    for turn in reversed(turns):
        calls = turn.open_calls.get(given)
        if calls:
            call = calls.pop(0)
            content = _content(message, model, _TOOL_IMAGE)
            turn.results.append({**message, "toolCallId": call["id"], "content": content})
            return


def _missing_result(call: JsonObject) -> Message:
    return {
        "role": "toolResult",
        "toolCallId": call["id"],
        "toolName": call.get("name"),
        "content": [{"type": "text", "text": NO_RESULT}],
        "isError": True,
    }


def _blocks(content: object) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content) if is_list(content) else []  # pyright: ignore[reportUnknownArgumentType]


def _content(message: Message, model: ModelSettings, placeholder: str) -> str | list[JsonObject]:
    content = message.get("content")
    if isinstance(content, str):
        return without_surrogates(content)
    kept: list[JsonObject] = []
    for block in _blocks(content):
        if block.get("type") == "text":
            kept.append({**block, "text": without_surrogates(str(block.get("text") or ""))})
        elif block.get("type") != "image" or model.takes_images:
            kept.append(block)
        elif not (kept and kept[-1].get("text") == placeholder):
            kept.append({"type": "text", "text": placeholder})
    return kept
