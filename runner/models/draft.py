"""The assistant message while it is being received, and the events about it.

Building text piece by piece would copy it at every piece. A block's text is therefore kept as pieces: short
texts are current in `partial` at every event, a long one trails by at most an eighth until its block ends.
"""

import time
from typing import Any

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.types import StreamEvent
from runner.models.arguments import ArgumentBuffer, final_arguments, preview_arguments
from runner.models.failure import Failure
from runner.models.json_text import join_surrogates
from runner.models.settings import ModelSettings
from runner.models.usage import empty_usage, set_cost

_CURRENT = 2048


class TextBuffer:
    """One growing string of a block: text, thinking."""

    __slots__ = ("_behind", "_block", "_key", "_pieces", "_shown")

    def __init__(self, block: JsonObject, key: str) -> None:
        self._block = block
        self._key = key
        self._pieces: list[str] = [block[key]]
        self._shown = len(block[key])
        self._behind = 0

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._behind += len(piece)
        if self._shown < _CURRENT or self._behind * 8 > self._shown:
            self._show()

    def _show(self) -> None:
        text = "".join(self._pieces)
        self._pieces = [text]
        self._shown, self._behind = len(text), 0
        self._block[self._key] = text

    def replace(self, text: str) -> None:
        self._pieces = [text]
        self._show()

    def settle(self) -> str:
        """The whole text, also in the block; characters that came in halves are joined."""
        text = join_surrogates("".join(self._pieces))
        self.replace(text)
        return text


class Draft:
    """A message in Pi's shape that grows. Block events are made here, so that all protocols make them
    alike."""

    def __init__(self, model: ModelSettings) -> None:
        self.model = model
        self.message: Message = {
            "role": "assistant",
            "content": [],
            "api": model.api,
            "provider": model.provider,
            "model": model.id,
            "usage": empty_usage(),
            "stopReason": "stop",
            "timestamp": int(time.time() * 1000),
        }
        self.content: list[JsonObject] = self.message["content"]
        self.prices = model.prices
        self.cost_factor = 1.0
        self.reported_cost: float | None = None
        """What the provider itself says the request cost, in dollars."""
        self._texts: dict[int, TextBuffer] = {}
        self._arguments: dict[int, ArgumentBuffer] = {}

    def event(self, kind: str, index: int | None = None, **more: Any) -> StreamEvent:
        return StreamEvent(kind, self.message, index, **more)

    # --- blocks ------------------------------------------------------------------------------------------

    def open_text(self, text: str = "") -> tuple[int, StreamEvent]:
        return self._open({"type": "text", "text": text}, "text")

    def open_thinking(self, thinking: str = "", **more: Any) -> tuple[int, StreamEvent]:
        return self._open({"type": "thinking", "thinking": thinking, **more}, "thinking")

    def _open(self, block: JsonObject, key: str) -> tuple[int, StreamEvent]:
        index = len(self.content)
        self.content.append(block)
        self._texts[index] = TextBuffer(block, key)
        return index, StreamEvent(f"{key}_start", self.message, index)

    def add_text(self, index: int, piece: str) -> StreamEvent:
        self._texts[index].add(piece)
        return StreamEvent("text_delta", self.message, index, piece)

    def add_thinking(self, index: int, piece: str) -> StreamEvent:
        self._texts[index].add(piece)
        return StreamEvent("thinking_delta", self.message, index, piece)

    def replace_text(self, index: int, text: str) -> None:
        self._texts[index].replace(text)

    def end_text(self, index: int) -> StreamEvent:
        text = self._texts[index].settle()
        kind = "text_end" if self.content[index]["type"] == "text" else "thinking_end"
        return StreamEvent(kind, self.message, index, content=text)

    def open_call(self, call_id: str, name: str, **more: Any) -> tuple[int, StreamEvent]:
        """A call without an id gets one with `name_calls`, at the latest when the answer ends."""
        index = len(self.content)
        self.content.append({"type": "toolCall", "id": call_id, "name": name, "arguments": {}, **more})
        self._arguments[index] = ArgumentBuffer()
        return index, StreamEvent("toolcall_start", self.message, index)

    def add_arguments(self, index: int, piece: str) -> StreamEvent:
        buffer = self._arguments[index]
        if buffer.add(piece) and piece:
            self.content[index]["arguments"] = preview_arguments(buffer.text)
        return StreamEvent("toolcall_delta", self.message, index, piece)

    def arguments_text(self, index: int) -> str:
        return self._arguments[index].text

    def replace_arguments(self, index: int, text: str) -> None:
        self._arguments[index].replace(text)
        self.content[index]["arguments"] = preview_arguments(text)

    def finish_arguments(self, index: int) -> None:
        """Read the arguments strictly; what cannot be read leaves none, and an error in the tool call."""
        arguments, problem = final_arguments(self._arguments[index].text)
        self.content[index]["arguments"] = arguments
        if problem is not None:
            self.content[index]["argumentsError"] = problem

    def end_call(self, index: int) -> StreamEvent:
        self.finish_arguments(index)
        return StreamEvent("toolcall_end", self.message, index, tool_call=self.content[index])

    def end(self, index: int) -> StreamEvent:
        return self.end_call(index) if index in self._arguments else self.end_text(index)

    def name_calls(self) -> None:
        """Every call needs an id of its own, or its result cannot be told from another's."""
        taken: set[str] = set()
        for index in self._arguments:
            block = self.content[index]
            if not block["id"] or block["id"] in taken:
                block["id"] = f"call_{self.message.get('responseId', 'x')}_{index}"
            taken.add(block["id"])

    def has_calls(self) -> bool:
        return bool(self._arguments)

    def price(self) -> None:
        """Cost the usage as it is now."""
        usage = self.message["usage"]
        set_cost(usage, self.prices, self.cost_factor)
        if self.reported_cost is not None:
            usage["cost"].update(total=self.reported_cost, totalFromProvider=True)

    # --- the end -----------------------------------------------------------------------------------------

    def settle_open(self, finished: set[int]) -> None:
        """Bring blocks that were never ended up to date, so that the message keeps all that came."""
        for index, buffer in self._texts.items():
            if index not in finished:
                buffer.settle()
        for index, arguments in self._arguments.items():
            if index not in finished:
                self.content[index]["arguments"] = preview_arguments(arguments.text)

    def done(self) -> StreamEvent:
        return StreamEvent("done", None, reason=self.message["stopReason"], message=self.message)

    def failed(self, failure: Failure | None, text: str, *, aborted: bool = False) -> StreamEvent:
        reason = "aborted" if aborted else "error"
        self.message["stopReason"] = reason
        self.message["errorMessage"] = failure.message if failure else text
        return StreamEvent("error", None, reason=reason, message=self.message)
