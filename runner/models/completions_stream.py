"""Reads an answer of the Chat Completions protocol. Pure. Source: the cases in tests/corpus/providers.

Servers differ in how they tell tool calls apart, so a fragment is matched by index, id and name (see
`_find_call`).
"""

from collections.abc import Iterable, Iterator
from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.agent.types import StreamEvent
from runner.models.arguments import given_arguments, loads_event
from runner.models.completions_compat import Compat, detect, is_service
from runner.models.completions_messages import THINKING_FIELDS
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
from runner.models.shapes import a_string, an_object, is_list, is_object, objects
from runner.models.usage import count

_STOPS = {
    "stop": "stop",
    "end": "stop",
    "length": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
}


class CompletionsReader:
    def __init__(self, model: ModelSettings, compat: Compat | None = None) -> None:
        self.draft = Draft(model)
        self.ending = False
        self.complete = False
        self._compat = compat or detect(model)
        self._raw_stop: str | None = None
        self._text: int | None = None
        self._thinking: int | None = None
        self._details: list[JsonObject] = []
        self._calls: dict[int, str] = {}  # content index -> id as it came first
        self._by_index: dict[int, int] = {}
        self._closed = False

    def feed(self, event: str, data: str) -> Iterable[StreamEvent]:
        if data.strip() == "[DONE]":
            self.complete = True
            return []
        try:
            chunk = loads_event(data)
        except ValueError as error:
            text = f"Could not parse message into JSON: {error}"
            raise ModelCallFailed(unreadable_stream(text)) from error
        if event == "error":
            self._fail(chunk.get("error", chunk) if is_object(chunk) else chunk)
        if not is_object(chunk):
            return []
        if chunk.get("error"):
            self._fail(chunk["error"])
        message = self.draft.message
        if chunk.get("id") and "responseId" not in message:
            message["responseId"] = chunk["id"]
        named = chunk.get("model")
        if named and named != self.draft.model.id and "responseModel" not in message:
            message["responseModel"] = named
        if chunk.get("usage"):
            self._usage(chunk["usage"])
        choices = chunk.get("choices")
        choice = choices[0] if choices else None
        if not choice:
            return []
        if choice.get("usage") and not chunk.get("usage"):
            self._usage(choice["usage"])
        if choice.get("finish_reason"):
            self._raw_stop = message["rawStopReason"] = choice["finish_reason"]
        return self._delta(an_object(choice.get("delta")))

    def _fail(self, error: Any) -> None:
        """An error told inside the stream, as an object or a bare text."""
        details = error if is_object(error) else {}
        text = details.get("message") if isinstance(details.get("message"), str) else None
        text = text or (error if isinstance(error, str) else js_json(error))
        text = with_raw(text, details)
        codes = (details.get("type"), details.get("code"))
        raise ModelCallFailed(stream_failure(text, *codes, provider=self.draft.model.provider))

    # --- a delta -----------------------------------------------------------------------------------------

    def _delta(self, delta: JsonObject) -> Iterable[StreamEvent]:
        content = delta.get("content")
        if type(content) is str and content and len(delta) == 1 and self._text is not None:
            return (self.draft.add_text(self._text, content),)  # nearly all deltas
        return self._mixed_delta(delta)

    def _mixed_delta(self, delta: JsonObject) -> Iterator[StreamEvent]:
        """Each event is out before the next changes the message: a block that begins is seen empty."""
        for name in THINKING_FIELDS:
            text = a_string(delta.get(name))
            if text:
                yield from self._think(name, text)
                break
        for detail in objects(delta.get("reasoning_details")):
            yield from self._detail(detail)
        for text in (_text_of(delta.get("content")), _text_of(delta.get("refusal"))):
            if text:
                yield from self._say(text)
        for fragment in objects(delta.get("tool_calls")):
            yield from self._call(fragment)

    def _say(self, text: str) -> Iterator[StreamEvent]:
        if self._text is None:
            self._text, event = self.draft.open_text()
            yield event
        yield self.draft.add_text(self._text, text)

    def _think(self, signature: str, text: str) -> Iterator[StreamEvent]:
        if self._thinking is None:
            self._thinking, event = self.draft.open_thinking(thinkingSignature=signature)
            yield event
        if text:
            yield self.draft.add_thinking(self._thinking, text)

    def _detail(self, detail: JsonObject) -> Iterator[StreamEvent]:
        """OpenRouter's reasoning details are replayed as they came: pieces of one detail are put together."""
        last = self._details[-1] if self._details else {}
        if last and all(last.get(key) == detail.get(key) for key in ("type", "index")) and "data" not in detail:
            for name, value in detail.items():
                if name in ("text", "summary") and isinstance(value, str):
                    last[name] = a_string(last.get(name)) + value
                elif value is not None:
                    last[name] = value
        else:
            self._details.append(dict(detail))
        yield from self._think("", "")

    # --- tool calls --------------------------------------------------------------------------------------

    def _call(self, fragment: JsonObject) -> Iterator[StreamEvent]:
        function = an_object(fragment.get("function"))
        given_id, name = a_string(fragment.get("id")), a_string(function.get("name"))
        given = function.get("arguments")
        arguments = "" if given is None else given_arguments(given)
        index = self._find_call(fragment.get("index"), given_id, name)
        if index is None:
            index, event = self.draft.open_call(given_id, name)
            self._calls[index] = given_id
            yield event
        if isinstance(fragment.get("index"), int):
            self._by_index[fragment["index"]] = index
        block = self.draft.content[index]
        if given_id and not block["id"]:
            block["id"] = self._calls[index] = given_id
        if name and not block["name"]:
            block["name"] = name
        yield self.draft.add_arguments(index, arguments)

    def _find_call(self, number: Any, given_id: str, name: str) -> int | None:
        """The call that a fragment goes on with; None: it begins one.

        A new id together with a name begins a call even at a known index (Ollama gives every call index 0);
        a new id alone does not (some proxies make one up for every fragment). A fragment with nothing goes
        to the last call.
        """
        if isinstance(number, int):
            index = self._by_index.get(number)
            if index is None or (given_id and name and self._calls[index] not in ("", given_id)):
                return None
            return index
        if given_id:
            return next((index for index, known in self._calls.items() if known == given_id), None)
        return max(self._calls) if self._calls and not name else None

    # --- usage -------------------------------------------------------------------------------------------

    def _usage(self, given: JsonObject) -> None:
        prompt = an_object(given.get("prompt_tokens_details"))
        completion = an_object(given.get("completion_tokens_details"))
        cached = prompt.get("cached_tokens")
        for name in ("prompt_cache_hit_tokens", "cached_tokens"):
            cached = given.get(name) if cached is None else cached
        usage = self.draft.message["usage"]
        usage["cacheRead"] = count(cached)
        usage["cacheWrite"] = count(prompt.get("cache_write_tokens"))
        usage["input"] = max(0, count(given.get("prompt_tokens")) - usage["cacheRead"] - usage["cacheWrite"])
        usage["output"] = count(given.get("completion_tokens"))
        usage["reasoning"] = count(completion.get("reasoning_tokens")) or count(given.get("reasoning_tokens"))
        usage["totalTokens"] = usage["input"] + usage["output"] + usage["cacheRead"] + usage["cacheWrite"]
        self.draft.reported_cost = self._reported(given)
        self.draft.price()

    def _reported(self, given: JsonObject) -> float | None:
        """OpenRouter says what a request cost; with the user's own key the provider's bill comes on top."""
        cost = given.get("cost")
        if not isinstance(cost, int | float) or not is_service(self.draft.model, "openrouter", "openrouter.ai"):
            return None
        if given.get("is_byok") is False:
            return float(cost)
        upstream = an_object(given.get("cost_details")).get("upstream_inference_cost")
        if given.get("is_byok") is True and isinstance(upstream, int | float):
            return float(cost) + float(upstream)
        return None

    # --- the end -----------------------------------------------------------------------------------------

    def finish(self) -> list[StreamEvent]:
        events = self._close()
        self._ending = events
        if self._raw_stop is None:
            if self._compat.supports_finish_reason:
                raise ModelCallFailed(broken_stream("Stream ended without finish_reason"))
            self.draft.message["stopReason"] = "toolUse" if self.draft.has_calls() else "stop"
            return events
        if self._raw_stop not in _STOPS:
            text = f"Provider finish_reason: {self._raw_stop}"
            raise ModelCallFailed(stopped_failure(text, self._raw_stop))
        self.draft.message["stopReason"] = _STOPS[self._raw_stop]
        self._ending = []
        return events

    def _close(self) -> list[StreamEvent]:
        """Blocks end with the stream, in order. Calls get the ids they were not given."""
        if self._closed:
            return []
        self._closed = True
        if self._thinking is not None and self._details:
            self.draft.content[self._thinking]["thinkingSignature"] = js_json(self._details)
        self.draft.name_calls()
        return [self.draft.end(index) for index in range(len(self.draft.content))]

    _ending: list[StreamEvent] = []  # noqa: RUF012 - replaced, never changed

    def interrupted(self, *, aborted: bool) -> list[StreamEvent]:
        if self._closed:
            return self._ending
        if aborted:
            return self._close()
        self.draft.settle_open(set())
        return []


def _text_of(content: Any) -> str:
    if is_list(content):  # Mistral's parts
        return "".join(a_string(part.get("text")) for part in content if is_object(part))
    return content if isinstance(content, str) else ""


def with_raw(text: str, error: JsonObject) -> str:
    """OpenRouter keeps the upstream's own words in `metadata.raw`."""
    raw = an_object(error.get("metadata")).get("raw")
    if isinstance(raw, str) and raw and raw not in text:
        return f"{text}\n{raw}"
    return text
