"""One pass over a session's entries: what it used and how long it took, turn by turn. Pure.

Whatever a line holds, this does not fail: a field of another shape counts as absent. It keeps a few words of an entry
at most, so its size does not grow with the texts.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from checkpoint.jsontypes import JsonObject
from checkpoint.session.javascript import date_ms, is_number, trim
from runner.inspection.session_file import Entry

SNIPPET_CHARS = 80


@dataclass(slots=True)
class Usage:
    """Tokens, and US dollars as the recording has them."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost_usd: float = 0.0

    def add(self, other: "Usage") -> None:
        self.input += other.input
        self.output += other.output
        self.cache_read += other.cache_read
        self.cache_write += other.cache_write
        self.total_tokens += other.total_tokens
        self.cost_usd += other.cost_usd


@dataclass(slots=True)
class ToolUse:
    """One call of a turn. `ms`: from the assistant's message to the result, or as the result itself says."""

    call_id: str
    name: str
    result_entry_id: str | None = None
    failed: bool | None = None
    """None while there is no result."""
    ended_ms: int | None = None
    ms: int | None = None


@dataclass(slots=True)
class Turn:
    """One answer of a model and the tools it called. `began_ms` is the time of the entry it answers."""

    number: int
    position: int
    entry_id: str
    active: bool
    model: str
    stop_reason: str
    error: str | None
    usage: Usage
    began_ms: int | None
    ended_ms: int | None
    tools: list[ToolUse] = field(default_factory=list[ToolUse])


@dataclass(slots=True)
class OtherUse:
    """What was paid beside the turns: a compaction, a summary, a tool, or an entry of type `usage`."""

    entry_id: str
    what: str
    usage: Usage


@dataclass(slots=True)
class Survey:
    name: str | None = None
    turns: list[Turn] = field(default_factory=list[Turn])
    other: list[OtherUse] = field(default_factory=list[OtherUse])
    types: dict[str, int] = field(default_factory=dict[str, int])
    """How many entries of each type; messages by role, as `message: user`."""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    snippets: dict[int, str] = field(default_factory=dict[int, str])
    """By position: the first words of what a user or a summary says."""
    model: str | None = None
    thinking_level: str = "off"
    first_ms: int | None = None
    last_ms: int | None = None
    faults: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """(line, what is wrong) of messages that no request can hold."""

    @property
    def usage(self) -> Usage:
        """Of all branches: everything was paid."""
        total = Usage()
        for part in (*self.turns, *self.other):
            total.add(part.usage)
        return total


def survey(entries: Iterable[Entry], active: Mapping[int, int]) -> Survey:
    """Look at all entries once. `active`: from the positions of the active branch to their places on it."""
    taken = _Taking(active)
    for position, entry in enumerate(entries):
        taken.take(position, entry)
    return taken.found


class _Taking:
    def __init__(self, active: Mapping[int, int]) -> None:
        self.found = Survey()
        self._active = active
        self._times: dict[str, int | None] = {}
        self._calls: dict[str, tuple[Turn, ToolUse]] = {}
        self._model_at = self._level_at = -1

    def take(self, position: int, entry: Entry) -> None:
        found, value, kind = self.found, entry.value, text_or(entry.at.type, "?")
        time = date_ms(value.get("timestamp"))
        self._times[text_or(entry.at.id, "")] = time
        if time is not None:
            found.first_ms = time if found.first_ms is None else min(found.first_ms, time)
            found.last_ms = time if found.last_ms is None else max(found.last_ms, time)
        message = as_object(value.get("message"))
        role = text_or(message.get("role"), "?")
        counted = f"message: {role}" if kind == "message" else kind
        found.types[counted] = found.types.get(counted, 0) + 1
        match kind:
            case "message":
                self._message(position, entry, message, role, time)
            case "model_change":
                self._set_model(position, f"{text_or(value.get('provider'), '?')}/{text_or(value.get('modelId'), '?')}")
            case "thinking_level_change" if self._active.get(position, -1) > self._level_at:
                self._level_at = self._active[position]
                found.thinking_level = text_or(value.get("thinkingLevel"), "?")
            case "compaction" | "branch_summary":
                found.snippets[position] = snippet(text_or(value.get("summary"), ""))
                self._other(entry, kind, value.get("usage"))
            case "usage":
                self._other(entry, text_or(value.get("kind"), "usage"), value.get("usage"))
            case "session_info":
                name = value.get("name")
                found.name = trim(name) or None if isinstance(name, str) else None
            case "label":
                target, label = text_or(value.get("targetId"), ""), text_or(value.get("label"), "")
                found.labels.pop(target, None)
                if label:
                    found.labels[target] = label
            case _:
                pass

    def _message(self, position: int, entry: Entry, message: JsonObject, role: str, time: int | None) -> None:
        if not message:
            self.found.faults.append((entry.at.line, "this message entry holds no message"))
        match role:
            case "user" | "system":
                self.found.snippets[position] = snippet(content_text(message.get("content")))
            case "assistant":
                self._turn(position, entry, message, time)
            case "toolResult":
                self._result(entry, message, time)
            case _:
                pass

    def _turn(self, position: int, entry: Entry, message: JsonObject, time: int | None) -> None:
        model = f"{text_or(message.get('provider'), '?')}/{text_or(message.get('model'), '?')}"
        self._set_model(position, model)
        turn = Turn(
            number=len(self.found.turns) + 1,
            position=position,
            entry_id=text_or(entry.at.id, ""),
            active=position in self._active,
            model=model,
            stop_reason=text_or(message.get("stopReason"), "?"),
            error=text_or(message.get("errorMessage"), "") or None,
            usage=usage_of(message.get("usage")),
            began_ms=self._times.get(text_or(entry.at.parent_id, "")),
            ended_ms=time,
        )
        for block in blocks_of(message.get("content")):
            if block.get("type") == "toolCall":
                tool = ToolUse(text_or(block.get("id"), ""), text_or(block.get("name"), "?"))
                turn.tools.append(tool)
                self._calls[tool.call_id] = (turn, tool)
        self.found.turns.append(turn)

    def _result(self, entry: Entry, message: JsonObject, time: int | None) -> None:
        self._other(entry, f"tool {text_or(message.get('toolName'), '?')}", message.get("usage"))
        turn, tool = self._calls.get(text_or(message.get("toolCallId"), ""), (None, None))
        if turn is None or tool is None:
            return
        tool.result_entry_id = text_or(entry.at.id, "")
        tool.failed = message.get("isError") is True
        tool.ended_ms = time
        if "durationMs" in message:
            tool.ms = int(number_or_0(message["durationMs"]))
        elif time is not None and turn.ended_ms is not None:
            tool.ms = max(0, time - turn.ended_ms)

    def _set_model(self, position: int, model: str) -> None:
        if self._active.get(position, -1) > self._model_at:
            self._model_at = self._active[position]
            self.found.model = model

    def _other(self, entry: Entry, what: str, usage: Any) -> None:
        if isinstance(usage, dict):
            self.found.other.append(OtherUse(text_or(entry.at.id, ""), what, usage_of(cast("Any", usage))))


def usage_of(value: Any) -> Usage:
    """Pi's usage; what is no sensible number counts as nothing."""
    usage = as_object(value)
    counts = [number_or_0(usage.get(name)) for name in ("input", "output", "cacheRead", "cacheWrite", "totalTokens")]
    cost = as_object(usage.get("cost")).get("total")
    return Usage(*(int(count) for count in counts), cost_usd=number_or_0(cost))


def number_or_0(value: Any) -> float:
    """A number that can be counted or measured; 0 for any other value."""
    return float(value) if is_number(value) and 0 <= value < 1e15 else 0.0


def text_or(value: Any, otherwise: str) -> str:
    return value if isinstance(value, str) else otherwise


def as_object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def blocks_of(content: Any) -> Sequence[JsonObject]:
    """The blocks of a content; a text counts as one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [as_object(block) for block in cast("list[Any]", content) if isinstance(block, dict)]


def content_text(content: Any) -> str:
    """The texts of a content, joined."""
    return "\n".join(text_or(block.get("text"), "") for block in blocks_of(content) if block.get("type") == "text")


def snippet(text: str) -> str:
    """The first words of a text, on one line."""
    head = " ".join(text[: SNIPPET_CHARS * 4].split())
    return head if len(head) <= SNIPPET_CHARS else head[: SNIPPET_CHARS - 1] + "…"


def is_notable(entry_type: Any) -> bool:
    """Whether an entry of this type is shown in the tree even in the middle of a run."""
    return entry_type in _NOTABLE


_NOTABLE: Container[Any] = ("compaction", "branch_summary", "session_info", "context_edit", "leaf")
