"""How much the model may still write: the window less a careful guess of what is sent.

The guess need not be good, only never too hopeful: a request with a limit beyond the window is refused
outright.
"""

import math
from collections.abc import Sequence
from typing import Any

from checkpoint.jsontypes import JsonObject, Message
from runner.models.json_text import js_json
from runner.models.settings import ModelSettings
from runner.models.shapes import an_object

_CHARS_PER_TOKEN = 3.5
_IMAGE_CHARS = 4800
_LEAST_MARGIN = 4096
_COMFORT = 32_768


def estimate_input_tokens(system: str, messages: Sequence[Message], tools: Sequence[JsonObject]) -> int:
    """The last good answer's own count and a guess of what follows it; without one, a guess of all."""
    known, rest = 0, messages
    for position in range(len(messages) - 1, -1, -1):
        total = _counted(messages[position])
        if total:
            known, rest = total, messages[position + 1 :]
            break
    chars = sum(_message_chars(message) for message in rest)
    if not known:
        chars += len(system) + (len(js_json(list(tools))) if tools else 0)
    return known + math.ceil(chars / _CHARS_PER_TOKEN)


def _counted(message: Message) -> int:
    if message.get("role") != "assistant" or message.get("stopReason") in ("error", "aborted"):
        return 0
    return int(an_object(message.get("usage")).get("totalTokens") or 0)


def _message_chars(message: Message) -> int:
    content: Any = message.get("content")
    if isinstance(content, str):
        return len(content)
    return sum(_block_chars(block) for block in content or ())


def _block_chars(block: JsonObject) -> int:
    kind = block.get("type")
    if kind == "image":
        return _IMAGE_CHARS
    if kind == "toolCall":
        return len(str(block.get("name") or "")) + len(js_json(block.get("arguments")))
    return len(str(block.get("text") or block.get("thinking") or ""))


def output_room(model: ModelSettings, input_tokens: int) -> int | None:
    """Tokens left for the answer, at least 1; None if the window's size is not known."""
    if not model.context_window:
        return None
    left = model.context_window - input_tokens
    room = left - max(_LEAST_MARGIN, math.ceil(input_tokens * 0.15))
    if room < _COMFORT:
        room = min(_COMFORT, left - _LEAST_MARGIN)
    return max(1, room)


def output_limit(model: ModelSettings, wanted: int | None, input_tokens: int) -> int | None:
    """What to ask for: no more than fits. None if nobody said how much."""
    limit = wanted if wanted is not None else model.max_tokens
    room = output_room(model, input_tokens)
    return limit if room is None or limit is None else min(limit, room)
