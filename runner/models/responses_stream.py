"""Reads an answer of OpenAI's Responses protocol. Pure. Source: OpenAI's reference of
streaming events; the cases in tests/corpus/providers.

Deltas are for showing; `output_item.done` is what counts. A call whose item was never done is not handed
over.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.agent.types import StreamEvent
from runner.models.arguments import given_arguments, loads_event, loads_repaired
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
from runner.models.shapes import a_string, an_object, is_object, objects
from runner.models.tools import grammar_argument
from runner.models.usage import count

_ENDED_EARLY = "OpenAI Responses stream ended before a terminal response event"
_TIER_FACTORS = {"flex": 0.5, "priority": 2.0, "fast": 2.0}


@dataclass(slots=True)
class _Item:
    """An output item under way, and the block it fills."""

    kind: str
    index: int
    custom_text: str = ""


class ResponsesReader:
    def __init__(
        self, model: ModelSettings, grammars: Mapping[str, JsonObject] | None = None, tier: str | None = None
    ) -> None:
        self.draft = Draft(model)
        self.ending = False
        self.complete = False
        self._grammars = grammars or {}
        self._tier = tier
        self._open: dict[Any, _Item] = {}
        self._done: set[int] = set()
        self._status: str | None = None
        self._incomplete = ""
        self._reasoning_items: dict[str, int] = {}

    def feed(self, event: str, data: str) -> Iterable[StreamEvent]:
        if data.strip() == "[DONE]":
            return []
        try:
            item = loads_event(data)
        except ValueError as error:
            text = f"Error reading response: malformed server-sent event JSON ({error})"
            raise ModelCallFailed(unreadable_stream(text)) from error
        if not is_object(item):
            return []
        kind = item.get("type") or event
        if kind == "response.output_text.delta" or kind == "response.refusal.delta":
            return self._text_delta(item)
        if kind == "response.function_call_arguments.delta":
            return self._call_delta(item)
        handle = self._HANDLERS.get(kind)
        return handle(self, item) if handle is not None else []

    # --- blocks ------------------------------------------------------------------------------------------

    def _text_delta(self, item: JsonObject) -> list[StreamEvent]:
        found = self._open.get(item.get("output_index"))
        if found is None or found.kind != "message":
            return []
        return [self.draft.add_text(found.index, a_string(item.get("delta")))]

    def _thinking_delta(self, item: JsonObject) -> list[StreamEvent]:
        return self._think(item, a_string(item.get("delta")))

    def _summary_part_done(self, item: JsonObject) -> list[StreamEvent]:
        return self._think(item, "\n\n")

    def _think(self, item: JsonObject, text: str) -> list[StreamEvent]:
        found = self._open.get(item.get("output_index"))
        if found is None or found.kind != "reasoning":
            return []
        return [self.draft.add_thinking(found.index, text)]

    def _call_delta(self, item: JsonObject) -> list[StreamEvent]:
        found = self._open.get(item.get("output_index"))
        if found is None or found.kind != "function_call":
            return []
        return [self.draft.add_arguments(found.index, a_string(item.get("delta")))]

    def _call_done(self, item: JsonObject) -> list[StreamEvent]:
        """The whole arguments: what the deltas left out follows as one more; what contradicts them replaces
        them."""
        found = self._open.get(item.get("output_index"))
        if found is None or found.kind != "function_call":
            return []
        whole = given_arguments(item.get("arguments") or "")
        so_far = self.draft.arguments_text(found.index)
        if whole.startswith(so_far):
            tail = whole[len(so_far) :]
            return [self.draft.add_arguments(found.index, tail)] if tail else []
        self.draft.replace_arguments(found.index, whole)
        return []

    def _custom_delta(self, item: JsonObject) -> list[StreamEvent]:
        found = self._open.get(item.get("output_index"))
        if found is None or found.kind != "custom_tool_call":
            return []
        piece = a_string(item.get("delta"))
        found.custom_text += piece
        self._set_custom(found)
        return [self.draft.event("toolcall_delta", found.index, delta=piece)]

    def _set_custom(self, found: _Item) -> None:
        """A grammar tool is called with bare text; here it becomes the tool's one argument."""
        tool = self._grammars.get(str(self.draft.content[found.index]["name"]), {})
        self.draft.replace_arguments(found.index, js_json({grammar_argument(tool): found.custom_text}))

    def _item_added(self, event: JsonObject) -> list[StreamEvent]:
        item = an_object(event.get("item"))
        opened = self._begin(event.get("output_index"), item)
        return [] if opened is None else [opened]

    def _begin(self, key: Any, item: JsonObject) -> StreamEvent | None:
        kind = item.get("type")
        if kind == "reasoning":
            index, event = self.draft.open_thinking()
        elif kind == "message":
            index, event = self.draft.open_text()
        elif kind in ("function_call", "custom_tool_call"):
            call_id, item_id = a_string(item.get("call_id")), item.get("id")
            namespace = {"namespace": item["namespace"]} if item.get("namespace") else {}
            index, event = self.draft.open_call(
                f"{call_id}|{item_id}" if item_id else call_id, a_string(item.get("name")), **namespace
            )
            self.draft.name_calls()
            given = item.get("arguments")
            if kind == "function_call" and given:
                self.draft.replace_arguments(index, given_arguments(given))
        else:
            return None
        self._open[key] = _Item(str(kind), index)
        return event

    def _item_done(self, event: JsonObject) -> Iterator[StreamEvent]:
        key, item = event.get("output_index"), an_object(event.get("item"))
        found = self._open.get(key)
        if found is None or found.kind != item.get("type"):
            opened = self._begin(key, item)
            if opened is None:
                return
            yield opened
            found = self._open[key]
        del self._open[key]
        self._done.add(found.index)
        self._settle(found, item)
        yield self.draft.end(found.index)

    def _settle(self, found: _Item, item: JsonObject) -> None:
        """Take the finished item's own content."""
        block = self.draft.content[found.index]
        if found.kind == "message":
            parts = [a_string(part.get("text") or part.get("refusal")) for part in objects(item.get("content"))]
            self.draft.replace_text(found.index, "".join(parts))
            if item.get("id"):
                signature: JsonObject = {"v": 1, "id": item["id"]}
                if item.get("phase"):
                    signature["phase"] = item["phase"]
                block["textSignature"] = js_json(signature)
        elif found.kind == "reasoning":
            summary = [a_string(part.get("text")) for part in objects(item.get("summary"))]
            content = [a_string(part.get("text")) for part in objects(item.get("content"))]
            said = "\n\n".join(summary) or "\n\n".join(content)
            if said:
                self.draft.replace_text(found.index, said)
            block["thinkingSignature"] = js_json(item)
            if item.get("id"):
                self._reasoning_items[item["id"]] = found.index
        elif found.kind == "function_call":
            if item.get("arguments"):
                self.draft.replace_arguments(found.index, given_arguments(item["arguments"]))
        else:
            found.custom_text = item.get("input") or found.custom_text
            self._set_custom(found)

    # --- the response ------------------------------------------------------------------------------------

    def _created(self, event: JsonObject) -> list[StreamEvent]:
        response = an_object(event.get("response"))
        if response.get("id"):
            self.draft.message["responseId"] = response["id"]
        return []

    def _completed(self, event: JsonObject) -> list[StreamEvent]:
        response = an_object(event.get("response"))
        self._created(event)
        self._usage(response.get("usage"), response.get("service_tier"))
        self._backfill(objects(response.get("output")))
        kind = str(event.get("type"))
        status = response.get("status")
        self._status = str(status) if status else kind.removeprefix("response.")
        self._incomplete = str(an_object(response.get("incomplete_details")).get("reason") or "")
        raw = f"incomplete.{self._incomplete}" if status == "incomplete" and self._incomplete else status
        if raw:
            self.draft.message["rawStopReason"] = raw
        self.ending = True
        return []

    def _usage(self, given: Any, tier: Any) -> None:
        usage = self.draft.message["usage"]
        if is_object(given):
            details = an_object(given.get("input_tokens_details"))
            usage["cacheRead"] = count(details.get("cached_tokens"))
            usage["cacheWrite"] = count(details.get("cache_write_tokens"))
            cached = usage["cacheRead"] + usage["cacheWrite"]
            usage["input"] = max(0, count(given.get("input_tokens")) - cached)
            usage["output"] = count(given.get("output_tokens"))
            usage["reasoning"] = count(an_object(given.get("output_tokens_details")).get("reasoning_tokens"))
            total = usage["input"] + usage["output"] + cached
            usage["totalTokens"] = count(given.get("total_tokens")) or total
        billed = tier or self._tier
        factor = _TIER_FACTORS.get(billed, 1.0) if isinstance(billed, str) else 1.0
        if billed in ("priority", "fast") and self.draft.model.id.startswith("gpt-5.5"):
            factor = 2.5
        self.draft.cost_factor = factor
        self.draft.price()

    def _backfill(self, output: list[JsonObject]) -> None:
        """Some services send the encrypted reasoning only with the finished response."""
        for item in output:
            index = self._reasoning_items.get(a_string(item.get("id")))
            if index is None or not item.get("encrypted_content"):
                continue
            block = self.draft.content[index]
            kept = loads_repaired(block["thinkingSignature"])
            if not kept.get("encrypted_content"):
                kept["encrypted_content"] = item["encrypted_content"]
                block["thinkingSignature"] = js_json(kept)

    def _failed(self, event: JsonObject) -> list[StreamEvent]:
        response = an_object(event.get("response"))
        self._created(event)
        self.draft.message["rawStopReason"] = response.get("status") or "failed"
        error = an_object(response.get("error"))
        reason = an_object(response.get("incomplete_details")).get("reason")
        if error:
            code = error.get("code") or "unknown"
            self._fail(f"{code}: {error.get('message') or 'no message'}", code)
        if reason:
            self._fail(f"incomplete: {reason}", reason)
        self._fail("Unknown error (no error details in response)")
        return []

    def _error(self, event: JsonObject) -> list[StreamEvent]:
        """Flat, as documented, or with the error in an object of its own, as seen."""
        nested = event.get("error")
        if is_object(nested):
            self._fail(str(nested.get("message") or js_json(nested)), nested.get("code"), nested.get("type"))
        code, message = event.get("code"), event.get("message")
        self._fail(f"Error Code {'null' if code is None else code}: {message or 'Unknown error'}", code)
        return []

    def _fail(self, text: str, *codes: Any) -> None:
        raise ModelCallFailed(stream_failure(text, *codes, provider=self.draft.model.provider))

    # --- the end -----------------------------------------------------------------------------------------

    def finish(self) -> list[StreamEvent]:
        message = self.draft.message
        if self._status is None:
            raise ModelCallFailed(broken_stream(_ENDED_EARLY))
        if self._status == "incomplete":
            if self._incomplete != "max_output_tokens":
                text = f"Response incomplete: {self._incomplete or 'unknown'}"
                raise ModelCallFailed(stopped_failure(text, self._incomplete))
            message["stopReason"] = "length"
        elif self._status in ("failed", "cancelled"):
            raise ModelCallFailed(unreadable_stream("An unknown error occurred"))
        else:
            message["stopReason"] = "toolUse" if self.draft.has_calls() else "stop"
        self._refuse_unfinished()
        self.draft.settle_open(self._done)
        return []

    def _refuse_unfinished(self) -> None:
        for found in self._open.values():
            if found.kind in ("function_call", "custom_tool_call"):
                block = self.draft.content[found.index]
                if self.draft.message["stopReason"] == "length":
                    self.draft.finish_arguments(found.index)
                    self._done.add(found.index)
                    continue
                text = "OpenAI Responses stream completed with an unfinished tool call: "
                raise ModelCallFailed(unreadable_stream(f"{text}{block['name']} ({block['id']})"))

    def interrupted(self, *, aborted: bool) -> list[StreamEvent]:
        del aborted  # blocks stay open in both cases
        self.draft.settle_open(self._done)
        return []

    _HANDLERS = {  # noqa: RUF012 - a constant table
        "response.created": _created,
        "response.output_item.added": _item_added,
        "response.output_item.done": _item_done,
        "response.reasoning_summary_text.delta": _thinking_delta,
        "response.reasoning_text.delta": _thinking_delta,
        "response.reasoning_summary_part.done": _summary_part_done,
        "response.function_call_arguments.done": _call_done,
        "response.custom_tool_call_input.delta": _custom_delta,
        "response.completed": _completed,
        "response.incomplete": _completed,
        "response.failed": _failed,
        "error": _error,
    }
