"""Answers of model providers as `ModelServer` plays them: the same words and calls in each of the wire protocols.

Every event is a chunk of its own, so that an answer can be cut, or left hanging, after any of them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
SSE = {"content-type": "text/event-stream"}
APIS = ("anthropic-messages", "openai-completions", "openai-responses")
PATHS = {
    "anthropic-messages": "/v1/messages",
    "openai-completions": "/chat/completions",
    "openai-responses": "/responses",
}


@dataclass(frozen=True)
class Call:
    name: str
    call_id: str = "call_1"
    arguments: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Tokens:
    """What the answer says was used. `input` is all of it, cached or not."""

    input: int = 100
    output: int = 20
    cached: int = 0


Block = str | Call
USUAL = Tokens()


def answer(api: str, *blocks: Block, tokens: Tokens = USUAL, stop: str = "") -> Json:
    """A whole good answer; `stop` in the protocol's own words, for one that ends otherwise than usual."""
    return {"headers": SSE, "chunks": [{"text": text} for text in _EVENTS[api](blocks, tokens, stop)]}


def begun(api: str, words: str, end: str) -> Json:
    """An answer that stops after its words: `end` is "cut" or "hang"."""
    events = _EVENTS[api]((words,), USUAL, "")
    at = next(index for index, event in enumerate(events) if "delta" in event and words in event)
    return {"headers": SSE, "chunks": [{"text": text} for text in events[: at + 1]], "end": end}


def cut_after(exchange: Json, events: int) -> Json:
    """The same answer, whose connection breaks after so many events."""
    return {**exchange, "chunks": exchange["chunks"][:events], "end": "cut"}


def refusal(status: int, message: str = "no", kind: str = "api_error", **headers: str) -> Json:
    """An error answer; header names with `_` for `-`."""
    body = {"type": "error", "error": {"type": kind, "code": kind, "message": message}}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "status": status,
        "headers": {"content-type": "application/json", **given},
        "chunks": [{"text": json.dumps(body)}],
    }


def garbage(text: str) -> Json:
    return {"headers": SSE, "chunks": [{"text": text}]}


# --- anthropic-messages ------------------------------------------------------------------------------------------


def _named(event: Json) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def _anthropic(blocks: tuple[Block, ...], tokens: Tokens, stop: str) -> list[str]:
    usage = {
        "input_tokens": tokens.input - tokens.cached,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": 1,
    }
    events: list[Json] = [{"type": "message_start", "message": {"id": "msg_1", "usage": usage}}]
    for index, block in enumerate(blocks):
        at = {"index": index}
        if isinstance(block, str):
            start: Json = {"type": "text", "text": ""}
            delta: Json = {"type": "text_delta", "text": block}
        else:
            start = {"type": "tool_use", "id": block.call_id, "name": block.name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block.arguments)}
        events += [
            {"type": "content_block_start", **at, "content_block": start},
            {"type": "content_block_delta", **at, "delta": delta},
            {"type": "content_block_stop", **at},
        ]
    reason = stop or ("tool_use" if _calls(blocks) else "end_turn")
    events += [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": tokens.output}},
        {"type": "message_stop"},
    ]
    return [_named(event) for event in events]


def _calls(blocks: tuple[Block, ...]) -> bool:
    return any(isinstance(block, Call) for block in blocks)


# --- openai-completions ------------------------------------------------------------------------------------------


def _completions(blocks: tuple[Block, ...], tokens: Tokens, stop: str) -> list[str]:
    def chunk(delta: Json, reason: str | None = None, **more: Any) -> str:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        return f"data: {json.dumps({'id': 'c1', 'object': 'chat.completion.chunk', 'choices': choices, **more})}\n\n"

    events: list[str] = []
    number = 0
    for block in blocks:
        if isinstance(block, str):
            events.append(chunk({"role": "assistant", "content": block}))
            continue
        function = {"name": block.name, "arguments": json.dumps(block.arguments)}
        part = {"index": number, "id": block.call_id, "type": "function", "function": function}
        events.append(chunk({"tool_calls": [part]}))
        number += 1
    usage = {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
    }
    return [*events, chunk({}, stop or ("tool_calls" if number else "stop"), usage=usage), "data: [DONE]\n\n"]


# --- openai-responses --------------------------------------------------------------------------------------------


def _responses(blocks: tuple[Block, ...], tokens: Tokens, stop: str) -> list[str]:
    events: list[Json] = [{"type": "response.created", "response": {"id": "resp_1"}}]
    for index, block in enumerate(blocks):
        at = {"output_index": index}
        if isinstance(block, str):
            item: Json = {"type": "message", "id": f"msg_{index}", "role": "assistant"}
            whole = {**item, "content": [{"type": "output_text", "text": block}]}
            delta: Json = {"type": "response.output_text.delta", **at, "content_index": 0, "delta": block}
        else:
            arguments = json.dumps(block.arguments)
            item = {"type": "function_call", "id": f"fc_{index}", "call_id": block.call_id, "name": block.name}
            whole = {**item, "arguments": arguments}
            delta = {"type": "response.function_call_arguments.delta", **at, "delta": arguments}
        events += [
            {"type": "response.output_item.added", **at, "item": item},
            delta,
            {"type": "response.output_item.done", **at, "item": whole},
        ]
    usage = {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "input_tokens_details": {"cached_tokens": tokens.cached},
    }
    response: Json = {"id": "resp_1", "status": "completed", "usage": usage}
    if stop:
        response |= {"status": "incomplete", "incomplete_details": {"reason": stop}}
    events.append({"type": "response.completed" if not stop else "response.incomplete", "response": response})
    return [_named(event) for event in events]


_EVENTS: dict[str, Callable[[tuple[Block, ...], Tokens, str], list[str]]] = dict(
    zip(APIS, (_anthropic, _completions, _responses), strict=True)
)
