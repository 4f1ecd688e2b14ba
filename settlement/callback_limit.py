"""Keeps a terminal callback small: what is cut, in which order, when it would be over the limit.

Order: warnings, undelivered texts, the success text, the result text of the interruption. Then, so that it
always fits, a failure's message (which is short anyway) and the undelivered messages themselves. Each gives
only as much as is needed. Cuts fall between characters, never inside one.

Refuses to cut what decides something: ids, labels, `questions` and `withdrawn_questions` stay whole, because
a card that is missing there would be withdrawn, or stay open for ever. If these alone are over the limit
(some 120 questions in one turn), the body is sent over the limit with everything else emptied; our own
receiving side reads up to 256 KB.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from checkpoint.jsontypes import JsonObject
from settlement.wire import json_bytes

MAX_UNDELIVERED = 50
"""Messages that are still counted one by one when there is too much."""
ELLIPSIS = "…"
_ELLIPSIS_BYTES = len(ELLIPSIS.encode())


def within(body: JsonObject, limit: int) -> JsonObject:
    """The terminal `body`, cut to `limit` bytes of JSON. The argument itself is not changed."""
    steps: tuple[Callable[[JsonObject, int], JsonObject], ...] = (
        _cut_warnings,
        _cut_undelivered,
        _cut_success,
        _cut_result_text,
        _cut_message,
        _drop_undelivered,
    )
    for step in steps:
        if _size(body) <= limit:
            break
        body = step(body, limit)
    return body


def cut_text(text: str, room: int) -> str:
    """The longest beginning of `text` that takes at most `room` bytes inside a JSON string."""
    head = text[: max(room, 0)]
    fits = bisect_right(range(len(head) + 1), room, key=lambda length: _text_size(head[:length])) - 1
    return head[: max(fits, 0)]


def _cut_warnings(body: JsonObject, limit: int) -> JsonObject:
    warnings: list[str] = body["warnings"]

    def first(count: int) -> JsonObject:
        note = f"{len(warnings) - count} more warnings were cut to keep the callback small"
        return {**body, "warnings": [*warnings[:count], note]}

    kept = bisect_right(range(len(warnings)), limit, key=lambda count: _size(first(count))) - 1
    return first(kept) if kept >= 0 else {**body, "warnings": []}


def _cut_undelivered(body: JsonObject, limit: int) -> JsonObject:
    """All texts get the same cap, so the longest lose first; of very many messages the last ones go."""
    messages: list[JsonObject] = body["undelivered"][:MAX_UNDELIVERED]
    room = limit - _size({**body, "undelivered": [{**message, "text": ""} for message in messages]})
    sizes = [_text_size(message["text"]) for message in messages]
    cap = bisect_right(range(limit), room, key=lambda cap: sum(min(size, cap) for size in sizes)) - 1
    return {**body, "undelivered": [{**message, "text": _shortened(message["text"], cap)} for message in messages]}


def _cut_success(body: JsonObject, limit: int) -> JsonObject:
    """The text first; structured output cannot be cut and stay what it is, so it goes whole or not at all."""
    settlement: JsonObject = body["settlement"]
    if settlement["kind"] != "success":
        return body
    cut = {**settlement, "text": "", "truncated": True}
    if _size({**body, "settlement": cut}) > limit:
        cut["structured"] = None
    cut["text"] = cut_text(settlement["text"], limit - _size({**body, "settlement": cut}))
    return {**body, "settlement": cut}


def _cut_result_text(body: JsonObject, limit: int) -> JsonObject:
    settlement: JsonObject = body["settlement"]
    if settlement["kind"] != "ask_user":
        return body
    interruption: JsonObject = settlement["interruption"]

    def holding(text: str) -> JsonObject:
        return {**body, "settlement": {**settlement, "interruption": {**interruption, "result_text": text}}}

    return holding(_shortened(interruption["result_text"], limit - _size(holding(""))))


def _cut_message(body: JsonObject, limit: int) -> JsonObject:
    settlement: JsonObject = body["settlement"]
    if settlement["kind"] != "failure":
        return body

    def holding(text: str) -> JsonObject:
        return {**body, "settlement": {**settlement, "message": text}}

    return holding(_shortened(settlement["message"], limit - _size(holding(""))))


def _drop_undelivered(body: JsonObject, limit: int) -> JsonObject:
    """When all texts are gone and it is still too much."""
    messages: list[JsonObject] = body["undelivered"]

    def first(count: int) -> JsonObject:
        return {**body, "undelivered": messages[:count]}

    kept = bisect_right(range(len(messages)), limit, key=lambda count: _size(first(count))) - 1
    return first(max(kept, 0))


def _shortened(text: str, room: int) -> str:
    """`text` if it fits, else as much of it as fits with an ellipsis behind."""
    if _text_size(text) <= room:
        return text
    if room < _ELLIPSIS_BYTES:
        return ""
    return cut_text(text, room - _ELLIPSIS_BYTES) + ELLIPSIS


def _size(value: Any) -> int:
    return len(json_bytes(value))


def _text_size(text: str) -> int:
    """Bytes of `text` inside a JSON string, without the quotes."""
    return len(json_bytes(text)) - 2
