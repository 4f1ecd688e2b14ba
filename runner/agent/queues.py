"""Messages waiting for a turn: steering (soon) and follow-up (when the agent would end)."""

from checkpoint.jsontypes import Message
from runner.agent.types import QueueMode


class MessageQueue:
    """First in, first out. The mode is read at each drain: one message, or all there are."""

    __slots__ = ("_messages", "mode")

    def __init__(self, mode: QueueMode) -> None:
        self.mode: QueueMode = mode
        self._messages: list[Message] = []

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is waiting, oldest first."""
        return tuple(self._messages)

    def __bool__(self) -> bool:
        return bool(self._messages)

    def put(self, message: Message) -> None:
        self._messages.append(message)

    def drain(self) -> list[Message]:
        """Take what the next turn gets. It is gone from here, whatever becomes of that turn."""
        count = len(self._messages) if self.mode == "all" else 1
        drained = self._messages[:count]
        del self._messages[:count]
        return drained

    def clear(self) -> None:
        self._messages.clear()
