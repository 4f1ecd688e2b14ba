"""Holds the recording against what the replay makes, message by message, and writes the replay's own log beside it.

The first difference ends the comparison: what comes after it answers another conversation. Entries that no run makes
(settings, labels, summaries, a person's own messages) are taken over in their places.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from checkpoint.jsontypes import JsonObject, Message
from runner.agent.abort import AbortSignal
from runner.agent.types import AgentEvent, MessageEnd, TurnEnd
from runner.replay.replay_log import ReplayLog
from runner.replay.segments import Run, Turn, calls_of
from runner.usage import UsageTotals

_OF_THE_LOOP = frozenset({"role", "toolCallId", "toolName", "content", "details", "usage", "addedToolNames", "isError"})
"""The fields of a result message that the loop fills in. Others, and the time, are taken from the recording."""

Cause: TypeAlias = Literal["changed", "only_recorded", "only_replayed", "unanswered"]


class Divergence(Struct, frozen=True):
    """Where replay and recording part. `position` is that of the recorded entry, or of the last one before it."""

    cause: Cause
    position: int
    what: str
    recorded: Any = None
    replayed: Any = None


class ReplayOver(Exception):
    """Ends a run whose replay goes no further. Never leaves the replay."""


class Tape:
    """Listens to the agent of one run after the other."""

    def __init__(
        self,
        entries: Sequence[JsonObject],
        log: ReplayLog,
        usage: UsageTotals,
        on_turn: Callable[[int, int], bool],
    ) -> None:
        """`on_turn(answer, last)` is called at the end of each turn, with the positions of its answer and its end; true
        ends the replay there.
        """
        self._entries = entries
        self._log = log
        self._usage = usage
        self._on_turn = on_turn
        self._expected: deque[int] = deque()
        self._results: dict[Any, deque[int]] = {}
        self._made = bytearray(len(entries))
        self._written = 0
        self._answer = 0
        self.turns = 0
        self.at = -1
        """The position of the last message that was replayed."""
        self.divergence: Divergence | None = None
        self.left = False
        """The run was left where the recording left it."""
        self.stopped = False
        """Somebody ended the replay."""

    @property
    def over(self) -> bool:
        return self.left or self.divergence is not None

    def begin(self, run: Run) -> None:
        self.left = False
        expected = [*run.prompts]
        for turn in run.turns:
            expected += [*turn.taken, turn.answer]
        self._expected = deque([*expected, *run.untaken])
        for position in self._expected:
            self._made[position] = True
        for turn in run.turns:
            for position in turn.results:
                if position is not None:
                    self._made[position] = True

    def expect_results(self, turn: Turn) -> None:
        """The answer of this turn is about to be given."""
        self._results = {}
        if turn.results:
            calls = calls_of(self._entries[turn.answer]["message"])
            for call, position in zip(calls, turn.results, strict=True):
                if position is not None:
                    self._results.setdefault(call.get("id"), deque()).append(position)

    @property
    def expected(self) -> int | None:
        return self._expected[0] if self._expected else None

    def diverge(self, cause: Cause, position: int, what: str, recorded: Any = None, replayed: Any = None) -> ReplayOver:
        """Note the difference; raise what is returned."""
        if not self.over:
            self.divergence = Divergence(cause, position, what, recorded, replayed)
        return ReplayOver()

    def leave(self) -> ReplayOver:
        """Go no further in this run, since the recording does not; raise what is returned."""
        self.left = True
        return ReplayOver()

    # --- listening ---

    def observe(self, event: AgentEvent, _signal: AbortSignal | None) -> None:
        if self.over:
            return
        match event:
            case MessageEnd(message):
                self._take(message)
            case TurnEnd():
                if event.message.get("stopReason") not in ("error", "aborted"):
                    self._usage.turns += 1
                self.turns += 1
                if self._on_turn(self._answer, self.at):
                    self.stopped = True
                    raise self.leave()
            case _:
                pass

    def _take(self, message: Message) -> None:
        role = message.get("role")
        if role == "toolResult":
            waiting = self._results.get(message.get("toolCallId"))
            position = waiting.popleft() if waiting else None
        else:
            position = self._expected.popleft() if self._expected else None
        if position is None:
            raise self.diverge(
                "only_replayed", self.at, "the replay makes a message here that was not recorded", replayed=message
            )
        recorded: Message = self._entries[position]["message"]
        if role == "toolResult":
            _complete(message, recorded)
        if message is not recorded and not _same(message, recorded):
            raise self.diverge("changed", position, "the replay makes another message", recorded, message)
        self._write(position, is_answer=role == "assistant")
        if role == "assistant":
            self._answer = position
            self._usage.requests += 1
            self._usage.add(message)

    # --- the log ---

    def _write(self, position: int, *, is_answer: bool) -> None:
        if self._written < position:
            self.take_over(position)
        self._log.add(position, is_answer=is_answer)
        self.at = position
        self._written = max(self._written, position + 1)

    def take_over(self, end: int) -> None:
        """Write the entries before `end` that no run makes."""
        for position in range(self._written, end):
            if not self._made[position]:
                self._log.add(position)
        self._written = max(self._written, end)

    def finish(self, run: Run) -> None:
        """The run is over: nothing that it should have made may be left."""
        if self.over:
            return
        left = [*self._expected, *(position for waiting in self._results.values() for position in waiting)]
        if left:
            position = min(left)
            self.diverge(
                "only_recorded",
                position,
                "the replay ended its run before this entry",
                self._entries[position]["message"],
            )


def _complete(message: Message, recorded: Message) -> None:
    """Give a result of the replay what the loop does not make: its time, and fields that only others write."""
    for key, value in recorded.items():
        if key not in message and (key not in _OF_THE_LOOP or not value):
            message[key] = value
    if "timestamp" in recorded:
        message["timestamp"] = recorded["timestamp"]
    else:
        message.pop("timestamp", None)
    if recorded.get("content") is None:
        message["content"] = recorded.get("content")
        if "content" not in recorded:
            del message["content"]
    if "isError" not in recorded and message.get("isError") is False:
        del message["isError"]


def _same(message: Message, recorded: Message) -> bool:
    """Nested values of a replayed message are the recorded ones themselves, so equality cannot mistake true for 1."""
    if message.keys() != recorded.keys():
        return False
    return all(
        value is recorded[key] or (type(value) is type(recorded[key]) and value == recorded[key])
        for key, value in message.items()
    )
