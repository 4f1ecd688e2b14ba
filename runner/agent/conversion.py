"""From the transcript to what a model is sent.

A request needs the whole list, but a turn only adds to it. `IncrementalConversion` converts each message
once, so that a turn costs the same at the tenth message and at the ten-thousandth.
"""

from collections.abc import Callable

from checkpoint.jsontypes import Message

STANDARD_ROLES = frozenset({"user", "assistant", "toolResult"})


def standard_messages(messages: list[Message]) -> list[Message]:
    """Pi's default: custom roles are for the host, not for the model."""
    return [message for message in messages if message.get("role") in STANDARD_ROLES]


class IncrementalConversion:
    """A `convert_to_llm` hook around a conversion that looks at each message on its own.

    For that, `convert(a + b)` has to be `convert(a) + convert(b)`. A list that is another object than last
    time, has shrunk, or ends differently where the last conversion ended, is converted anew; so a hook that
    edits earlier messages has to give the loop another list. The list returned is the same object each time
    and grows: read it during the request, copy what you keep.
    """

    def __init__(self, convert: Callable[[list[Message]], list[Message]]) -> None:
        self._convert = convert
        self._source: list[Message] | None = None
        self._last: Message | None = None
        self._count = 0
        self._converted: list[Message] = []

    def __call__(self, messages: list[Message]) -> list[Message]:
        if not self._continues(messages):
            self._source, self._count, self._converted = messages, 0, []
        fresh = messages[self._count :] if self._count else messages
        self._converted.extend(self._convert(fresh))
        self._count = len(messages)
        self._last = messages[-1] if messages else None
        return self._converted

    def _continues(self, messages: list[Message]) -> bool:
        if messages is not self._source or len(messages) < self._count:
            return False
        return self._count == 0 or messages[self._count - 1] is self._last
