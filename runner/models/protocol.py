"""What the three wire protocols have in common: a request to make, and a machine that reads the answer's
events.

Requests are built and answers are read without any I/O; `answer` joins both to a connection.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.types import StreamEvent
from runner.models.draft import Draft
from runner.models.failure import Failure
from runner.models.settings import CallOptions, ModelSettings


@dataclass(frozen=True, slots=True)
class HttpRequest:
    url: str
    headers: Mapping[str, str]
    body: JsonObject


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is said to the model: prompt, transcript, and tools as `tools.declarations` gives them."""

    system: str
    messages: list[Message]
    tools: list[JsonObject]


class AnswerReader(Protocol):
    """Reads one answer. Server-sent events go in, the loop's stream events come out; pure.

    `feed` and `finish` raise `ModelCallFailed` when the answer fails; nothing may be fed after that.
    """

    draft: Draft
    ending: bool
    """A terminal event came; only little can follow."""
    complete: bool
    """Nothing that follows counts; the connection may be closed."""

    def feed(self, event: str, data: str) -> Iterable[StreamEvent]:
        """Take each event before asking for the next: making the next one changes the message."""
        ...

    def finish(self) -> list[StreamEvent]:
        """The stream ended. Sets the message's stop reason."""
        ...

    def interrupted(self, *, aborted: bool) -> list[StreamEvent]:
        """The stream broke off or was aborted: bring the message up to date; events for blocks still open."""
        ...


class WireProtocol(Protocol):
    @property
    def flags(self) -> Mapping[str, Any]:
        """The compat flags this protocol knows, with their defaults (None: the server tells)."""
        ...

    def request(self, model: ModelSettings, talk: Conversation, options: CallOptions) -> HttpRequest:
        """The request; the same conversation always gives the same bytes."""
        ...

    def reader(self, model: ModelSettings, talk: Conversation, options: CallOptions) -> AnswerReader: ...

    def error(self, model: ModelSettings, status: int, body: str) -> Failure:
        """An HTTP answer that is no stream."""
        ...


def merged_headers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Later layers win, whatever the case of a header's name. An empty value takes a header away."""
    merged: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.items():
            merged[name.lower()] = value
    return {name: value for name, value in merged.items() if value}
