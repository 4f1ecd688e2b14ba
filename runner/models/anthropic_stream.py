"""Reads an answer of the Anthropic Messages protocol. Pure. Source: the cases in tests/corpus/providers."""

from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.agent.types import StreamEvent
from runner.models.arguments import loads_event, loads_repaired
from runner.models.draft import Draft
from runner.models.failure import (
    ModelCallFailed,
    broken_stream,
    stopped_failure,
    stream_failure,
    unreadable_stream,
)
from runner.models.json_text import js_json
from runner.models.settings import ModelSettings
from runner.models.shapes import a_string, an_object, is_object
from runner.models.usage import count

_BLOCK_EVENTS = ("content_block_start", "content_block_delta", "content_block_stop")
_KNOWN = frozenset((*_BLOCK_EVENTS, "message_start", "message_delta", "message_stop", "error"))
_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
    "refusal": "error",
    "sensitive": "error",
}
_REDACTED = "[Reasoning redacted]"


class AnthropicReader:
    def __init__(self, model: ModelSettings) -> None:
        self.draft = Draft(model)
        self.ending = False
        self.complete = False
        self._started = False
        self._stop: str | None = None
        self._refusal = ""
        self._indices: dict[Any, int] = {}
        self._given: dict[int, JsonObject] = {}  # arguments that came whole with a block's start
        self._ended: set[int] = set()

    def feed(self, event: str, data: str) -> list[StreamEvent]:
        named = event != "message"
        if named and event not in _KNOWN:
            return []
        if event == "error":
            self._fail_with(data)
        try:
            item = loads_event(data)
        except ValueError as error:
            if not named:
                return []  # a proxy's own line, such as [DONE]
            raise ModelCallFailed(unreadable_stream(f"Could not parse Anthropic SSE event {event}: {error}")) from error
        if not is_object(item):
            return []
        kind = event if named else item.get("type")
        if kind == "content_block_delta":
            return self._block_delta(item)
        if kind == "content_block_start":
            return self._block_start(item)
        if kind == "content_block_stop":
            return self._block_stop(item)
        if kind == "message_start":
            self._message_start(an_object(item.get("message")))
        elif kind == "message_delta":
            self._message_delta(item)
        elif kind == "message_stop":
            self.complete = True
        elif kind == "error":
            self._fail_with(data)
        return []

    def _fail_with(self, data: str) -> None:
        try:
            error = an_object(an_object(loads_repaired(data)).get("error"))
            codes = (error.get("type"), error.get("code"))
        except ValueError:
            codes = ()
        raise ModelCallFailed(stream_failure(data, *codes, provider=self.draft.model.provider))

    # --- the message -------------------------------------------------------------------------------------

    def _message_start(self, message: JsonObject) -> None:
        self._started = True
        draft = self.draft
        if message.get("id"):
            draft.message["responseId"] = message["id"]
        if message.get("model") and message["model"] != draft.model.id:
            draft.message["responseModel"] = message["model"]
        self._usage(an_object(message.get("usage")))

    def _usage(self, given: JsonObject) -> None:
        """Each field that is there replaces the earlier one; 0 does too."""
        usage = self.draft.message["usage"]
        for name, key in (
            ("input", "input_tokens"),
            ("output", "output_tokens"),
            ("cacheRead", "cache_read_input_tokens"),
            ("cacheWrite", "cache_creation_input_tokens"),
        ):
            if given.get(key) is not None:
                usage[name] = count(given[key])
        long_writes = an_object(given.get("cache_creation")).get("ephemeral_1h_input_tokens")
        if long_writes is not None or "cacheWrite1h" not in usage:
            usage["cacheWrite1h"] = count(long_writes)
        thinking = an_object(given.get("output_tokens_details")).get("thinking_tokens")
        if thinking is not None:
            usage["reasoning"] = count(thinking)
        usage["totalTokens"] = usage["input"] + usage["output"] + usage["cacheRead"] + usage["cacheWrite"]
        self.draft.price()

    def _message_delta(self, item: JsonObject) -> None:
        delta = an_object(item.get("delta"))
        raw = delta.get("stop_reason")
        if raw:
            self.draft.message["rawStopReason"] = raw
            if raw not in _STOPS:
                raise ModelCallFailed(unreadable_stream(f"Unhandled stop reason: {raw}"))
            self._stop = _STOPS[raw]
            details = an_object(delta.get("stop_details") or item.get("stop_details"))
            self._refusal = a_string(details.get("explanation"))
        self._usage(an_object(item.get("usage")))

    # --- blocks ------------------------------------------------------------------------------------------

    def _block_start(self, item: JsonObject) -> list[StreamEvent]:
        block = an_object(item.get("content_block"))
        kind = block.get("type")
        if kind == "text":
            index, event = self.draft.open_text(a_string(block.get("text")))
        elif kind == "thinking":
            signature = a_string(block.get("signature"))
            index, event = self.draft.open_thinking(a_string(block.get("thinking")), thinkingSignature=signature)
        elif kind == "redacted_thinking":
            index, event = self.draft.open_thinking(
                _REDACTED, thinkingSignature=a_string(block.get("data")), redacted=True
            )
        elif kind == "tool_use":
            given = block.get("input")
            index, event = self.draft.open_call(a_string(block.get("id")), a_string(block.get("name")))
            self.draft.name_calls()
            if is_object(given) and given:
                self._given[index] = given
                self.draft.content[index]["arguments"] = given
        else:
            return []
        self._indices[item.get("index")] = index
        return [event]

    def _block_delta(self, item: JsonObject) -> list[StreamEvent]:
        index = self._indices.get(item.get("index"))
        delta = an_object(item.get("delta"))
        kind = delta.get("type")
        if index is None:
            return []
        block = self.draft.content[index]["type"]
        if kind == "text_delta" and block == "text":
            return [self.draft.add_text(index, a_string(delta.get("text")))]
        if kind == "thinking_delta" and block == "thinking":
            return [self.draft.add_thinking(index, a_string(delta.get("thinking")))]
        if kind == "input_json_delta" and block == "toolCall":
            return [self.draft.add_arguments(index, a_string(delta.get("partial_json")))]
        if kind == "signature_delta" and block == "thinking":
            self.draft.content[index]["thinkingSignature"] += a_string(delta.get("signature"))
        return []

    def _block_stop(self, item: JsonObject) -> list[StreamEvent]:
        index = self._indices.pop(item.get("index"), None)
        if index is None:
            return []
        self._ended.add(index)
        self._take_given(index)
        return [self.draft.end(index)]

    def _take_given(self, index: int) -> None:
        """Some servers send a call's arguments whole with its start and nothing after."""
        if index in self._given and not self.draft.arguments_text(index).strip():
            self.draft.replace_arguments(index, js_json(self._given[index]))

    # --- the end -----------------------------------------------------------------------------------------

    def finish(self) -> list[StreamEvent]:
        if self._started and not self.complete:
            raise ModelCallFailed(broken_stream("Anthropic stream ended before message_stop"))
        if self._stop is None:
            raise ModelCallFailed(broken_stream("Anthropic stream ended without a stop reason"))
        if self._stop == "error":
            raw = self.draft.message["rawStopReason"]
            text = "An unknown error occurred"
            if raw == "refusal":
                text = self._refusal or "The model refused to complete the request"
            raise ModelCallFailed(stopped_failure(text, "refusal"))
        self._close_unended()
        self.draft.message["stopReason"] = self._stop
        return []

    def _close_unended(self) -> None:
        """Blocks that were never ended count as ended; a call among them is read as strictly as any."""
        for index in sorted(set(self._indices.values()) - self._ended):
            if self.draft.content[index]["type"] == "toolCall":
                self._take_given(index)
                self.draft.finish_arguments(index)
            else:
                self.draft.end_text(index)

    def interrupted(self, *, aborted: bool) -> list[StreamEvent]:
        del aborted  # blocks stay open in both cases
        self.draft.settle_open(self._ended)
        return []
