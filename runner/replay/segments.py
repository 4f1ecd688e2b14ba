"""What a recorded conversation says about the runs that made it: who started each, what the model answered, which tool
results came back, and how it went on. Pure.

Refuses to guess: where entries can have come about in several ways that leave the same entries, the one that a run of
our own loop takes is assumed; what no run can have made is marked as such and left for the replay to report. Source of
the rules: tests/corpus/loop/FORMAT.md §4, tests/corpus/session/FORMAT.md §2.
"""

from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from checkpoint.jsontypes import JsonObject, Message
from runner.interruption import sent_text

Part: TypeAlias = Literal["user", "assistant", "toolResult", "beside", "summary", "none"]
"""`user`, `assistant`, `toolResult`: messages of a run. `beside`: in the context, but not made by a run (a custom
message, a person's own command). `summary`: a compaction, or of a branch. `none`: not part of the conversation."""

After: TypeAlias = Literal[
    "asked_again", "retried", "next_model", "ended", "interrupted", "failed", "open", "unanswered", "left"
]
"""What followed a turn. The run went on: `asked_again` with tool results or queued messages, `retried` a failed answer
on the same model or the `next_model`. The run ended: `ended` by itself, `interrupted` by a question, `failed` with an
error or an abort. `open`: the recording ends although the model would have been asked again. `unanswered`: something
was asked for that the recording does not hold. `left`: the session went on without an answer, so somebody ended the
process there."""


class Turn(Struct, frozen=True):
    """One answer and the results of its calls; numbers are positions in the recording."""

    taken: tuple[int, ...]
    """Queued messages that it began with."""
    answer: int
    results: tuple[int | None, ...]
    """In the order of the calls; None for a call without a result."""
    after: After
    aborted_call: int | None = None
    """The call during which the run was aborted: those behind it have no results."""


class Run(Struct, frozen=True):
    """One run. Without prompts it continued the transcript as it stood."""

    prompts: tuple[int, ...]
    turns: tuple[Turn, ...]
    end: After
    """That of the last turn; `unanswered` or `left` for prompts without any."""
    last: int
    """The position of its last message."""
    untaken: tuple[int, ...] = ()
    """Queued messages behind the last turn, which nothing answered."""


class Unasked(Struct, frozen=True):
    """An entry that no run asks for: an answer after a finished answer, a result without a call."""

    position: int


Piece: TypeAlias = Run | Unasked


def part_of(entry: JsonObject) -> Part:
    match entry.get("type"):
        case "message":
            message = entry.get("message")
            role = cast("JsonObject", message).get("role") if isinstance(message, dict) else None
            return role if role in ("user", "assistant", "toolResult") else "none" if role == "system" else "beside"
        case "custom_message":
            return "beside"
        case "compaction" | "branch_summary":
            return "summary"
        case _:
            return "none"


def calls_of(message: Message) -> list[JsonObject]:
    """The tool calls of an answer, found as the loop finds them."""
    content = message.get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    return [
        block for block in blocks if isinstance(block, dict) and cast("JsonObject", block).get("type") == "toolCall"
    ]


def segment(
    entries: Sequence[JsonObject],
    *,
    may_ask: Collection[str],
    one_pipeline: bool = False,
    continues: bool = False,
    cut: bool = False,
) -> list[Piece]:
    """The runs of a branch, in order. `may_ask`: the tools whose result may be a question.

    `one_pipeline`: all of it is one pipeline's, so messages after a finished answer were queued and started no run.
    `continues`: what lies before the first entry is something that a model can be asked to answer. `cut`: the entries
    are not all there are, so what is open at their end was not asked for in vain.
    """
    return _Segmenting(entries, may_ask, one_pipeline, continues, cut).pieces()


class _Segmenting:
    def __init__(
        self,
        entries: Sequence[JsonObject],
        may_ask: Collection[str],
        one_pipeline: bool,
        continues: bool,
        cut: bool,
    ) -> None:
        self._entries = entries
        self._parts = [part_of(entry) for entry in entries]
        self._may_ask = may_ask
        self._one_pipeline = one_pipeline
        self._continues = continues
        self._at_end: tuple[After, After] = ("left", "left") if cut else ("open", "unanswered")

    def pieces(self) -> list[Piece]:
        pieces: list[Piece] = []
        position, answered = 0, not self._continues
        while position < len(self._parts):
            part = self._parts[position]
            if part in ("none", "beside", "summary"):
                answered = answered and part != "beside"
                position += 1
            elif part == "toolResult" or (part == "assistant" and answered):
                pieces.append(Unasked(position))
                answered = part == "assistant"
                position += 1
            else:
                run = self._run(position)
                pieces.append(run)
                answered = self._parts[run.last] == "assistant" and run.end != "failed"
                position = run.last + 1
        return pieces

    def _run(self, start: int) -> Run:
        prompts = self._users(start)
        last = prompts[-1] if prompts else start - 1
        taken: tuple[int, ...] = ()
        turns: list[Turn] = []
        while True:
            answer, _ = self._next(last)
            if answer is None or self._parts[answer] != "assistant":
                return Run(prompts, tuple(turns), self._unanswered(last), last, taken)
            turn, last = self._turn(taken, answer)
            turns.append(turn)
            if turn.after not in ("asked_again", "retried", "next_model"):
                return Run(prompts, tuple(turns), turn.after, last)
            taken = self._users(self._next(last)[0])
            last = taken[-1] if taken else last

    def _turn(self, taken: tuple[int, ...], answer: int) -> tuple[Turn, int]:
        message: Message = self._entries[answer]["message"]
        if message.get("stopReason") in ("error", "aborted"):
            after = self._after_failure(answer) if message["stopReason"] == "error" else "failed"
            return Turn(taken, answer, (), after), answer
        calls = calls_of(message)
        results, last = self._results(answer, calls)
        if not calls:
            return Turn(taken, answer, (), self._after_answer(answer)), answer
        if None in results:
            aborted = self._aborted_call(results, last)
            after = "asked_again" if aborted is not None else self._unanswered(last)
            return Turn(taken, answer, results, after, aborted), last
        if any(result is not None and self._asks(self._entries[result]["message"]) for result in results):
            return Turn(taken, answer, results, "interrupted"), last
        return Turn(taken, answer, results, self._after_tools(last)), last

    def _results(self, answer: int, calls: Sequence[JsonObject]) -> tuple[tuple[int | None, ...], int]:
        """The result of each call, matched by its id (one used twice: in order); and the position of the last."""
        waiting: dict[Any, list[int]] = {}
        for index, call in enumerate(calls):
            waiting.setdefault(_key(call.get("id")), []).append(index)
        results: list[int | None] = [None] * len(calls)
        last = answer
        while waiting:
            position, _ = self._next(last)
            if position is None or self._parts[position] != "toolResult":
                break
            indexes = waiting.get(_key(self._entries[position]["message"].get("toolCallId")))
            if not indexes:
                break
            results[indexes.pop(0)] = last = position
        return tuple(results), last

    # --- what followed ---

    def _after_failure(self, answer: int) -> After:
        position, between = self._next(answer)
        if position is None or self._parts[position] != "assistant" or between:
            return "failed"
        changed = any(self._entries[at].get("type") == "model_change" for at in range(answer + 1, position))
        return "next_model" if changed else "retried"

    def _after_answer(self, answer: int) -> After:
        position, _ = self._next(answer)
        follows_up = self._one_pipeline and position is not None and self._parts[position] == "user"
        return "asked_again" if follows_up else "ended"

    def _after_tools(self, last: int) -> After:
        position, between = self._next(last)
        if position is None:
            return self._at_end[0]
        if self._parts[position] == "toolResult":
            return "unanswered"
        return "left" if self._parts[position] == "user" and "summary" in between else "asked_again"

    def _aborted_call(self, results: Sequence[int | None], last: int) -> int | None:
        """The last call with a result, if the calls behind it were given up because the run was aborted."""
        answered = results.index(None)
        position, _ = self._next(last)
        if not answered or position is None or any(result is not None for result in results[answered:]):
            return None
        aborted = (
            self._parts[position] == "assistant" and self._entries[position]["message"].get("stopReason") == "aborted"
        )
        return answered - 1 if aborted else None

    def _unanswered(self, last: int) -> After:
        """A person who goes on with another message has left what was open; anything else must have been asked for."""
        position, _ = self._next(last)
        if position is None:
            return self._at_end[1]
        return "left" if self._parts[position] == "user" else "unanswered"

    def _asks(self, result: Message) -> bool:
        asks = result.get("toolName") in self._may_ask and not result.get("isError")
        return asks and sent_text(result) is not None

    # --- the way through the entries ---

    def _next(self, position: int) -> tuple[int | None, set[Part]]:
        """The next message of a run behind a position, and what of the context lies between."""
        between: set[Part] = set()
        for at in range(position + 1, len(self._parts)):
            part = self._parts[at]
            if part in ("user", "assistant", "toolResult"):
                return at, between
            if part in ("beside", "summary"):
                between.add(part)
        return None, between

    def _users(self, start: int | None) -> tuple[int, ...]:
        """The user messages from `start` on that came together."""
        users: list[int] = []
        position = start
        while position is not None and self._parts[position] == "user":
            users.append(position)
            position, between = self._next(position)
            if "summary" in between:
                break
        return tuple(users)


def _key(value: Any) -> Any:
    return value if isinstance(value, str) else repr(value)
