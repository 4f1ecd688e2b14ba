"""What an attempt that takes over makes of the progress it finds: pure decisions over transcript and progress.

Two questions. Which calls of the last turn are in doubt: asked for in the transcript, without a result there; they may
have run or not, so they are never run again. And once each of them has a result: is the run over, so that it is settled
without the model, as the first attempt would have settled it, or does it go on? Refuses to look at anything before the
last turn: what is older was answered, or belongs to the session that was restored.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from checkpoint.head import Progress
from checkpoint.jsontypes import JsonObject, Message
from runner.interruption import sent_text
from runner.run_watch import has_tool_calls, message_text
from settlement.outcome import Interruption, LastAssistant, LimitReason, Outcome, SentQuestion, Stop

IN_DOUBT = (
    'It is not known whether the tool call "{name}" was carried out: the process that made it ended before the result '
    "was recorded, and it was not made again. Find out what it has done before you repeat it."
)
CUT_OFF = (
    'The tool call "{name}" was not carried out: the answer that holds it was cut off at its output limit, so its '
    "arguments may be incomplete. Make the call again with complete arguments."
)


class LastTurn(Struct, frozen=True):
    """The turn that a transcript ends with."""

    assistant: Message
    entry_id: str
    """The entry behind `assistant`."""
    results: tuple[Message, ...]

    @property
    def doubtful(self) -> tuple[JsonObject, ...]:
        """The calls without a result, in their order. A call id that stands there twice needs two results."""
        answered = Counter(str(result.get("toolCallId")) for result in self.results)
        doubtful: list[JsonObject] = []
        for call in tool_calls(self.assistant):
            call_id = str(call.get("id"))
            if answered[call_id] > 0:
                answered[call_id] -= 1
            else:
                doubtful.append(call)
        return tuple(doubtful)


def last_turn(messages: Sequence[Message], entry_ids: Sequence[str]) -> LastTurn | None:
    """The turn at the end of a transcript (failed tail dropped); None if something else stands there."""
    for at in range(len(messages) - 1, -1, -1):
        role = messages[at].get("role")
        if role == "assistant":
            return LastTurn(messages[at], entry_ids[at], tuple(messages[at + 1 :]))
        if role != "toolResult":
            return None
    return None


def tool_calls(message: Message) -> list[JsonObject]:
    content = message.get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else []
    objects = [cast("JsonObject", block) for block in blocks if isinstance(block, dict)]
    return [block for block in objects if block.get("type") == "toolCall"]


def doubtful_text(turn: LastTurn, call: JsonObject) -> str:
    """What the model is told instead of the result of a call in doubt."""
    words = CUT_OFF if turn.assistant.get("stopReason") == "length" else IN_DOUBT
    return words.format(name=call.get("name"))


def settled_before(
    turn: LastTurn | None,
    progress: Progress,
    ask_tools: Collection[str],
    question_ids: Mapping[str, str],
) -> Outcome | None:
    """The outcome of a run that was over when its process ended, or is now that its calls have results; None if it goes
    on. `turn` has no call in doubt any more; `question_ids` has the id of each call's question.

    A question comes first, as it does for a run that ends by itself; then what the progress says. An answer without
    calls is an end as well: had messages been queued behind it, they are gone with the process that had them.
    """
    if turn is None:
        return _limit(None, progress) if progress.stop == "limit" else None
    asked = _asked(turn, ask_tools)
    if asked:
        first = next((result for result in asked if result.get("toolCallId") == progress.interrupted_by), asked[0])
        return _outcome(
            turn,
            interruption=Interruption(
                str(first.get("toolCallId")), str(first.get("toolName")), sent_text(first) or message_text(first)
            ),
            questions=tuple(_question(turn, result, question_ids) for result in asked),
            stop=Stop("interruption", another_turn=True),
        )
    if progress.stop == "limit":
        return _limit(turn, progress)
    if progress.stop == "natural" or not has_tool_calls(turn.assistant):
        texts = tuple(message_text(result) for result in turn.results)
        return _outcome(turn, terminating_texts=texts)
    return None


def _asked(turn: LastTurn, ask_tools: Collection[str]) -> list[Message]:
    """The results of the turn that say that a question was sent."""
    return [
        result
        for result in turn.results
        if result.get("toolName") in ask_tools and not result.get("isError") and sent_text(result)
    ]


def _question(turn: LastTurn, result: Message, question_ids: Mapping[str, str]) -> SentQuestion:
    call_id = str(result.get("toolCallId"))
    return SentQuestion(question_ids[call_id], call_id, str(result.get("toolName")), turn.entry_id, result_logged=True)


_LIMITS: dict[str | None, LimitReason] = {
    "turn_limit": "turn_limit",
    "token_limit": "token_limit",
    "cost_limit": "cost_limit",
}


def _limit(turn: LastTurn | None, progress: Progress) -> Outcome | None:
    """None for a limit that nobody here knows: the run goes on, and meets its own limits."""
    reason = _LIMITS.get(progress.limit)
    return None if reason is None else _outcome(turn, stop=Stop(reason, another_turn=True))


def _outcome(turn: LastTurn | None, **facts: Any) -> Outcome:
    last = None
    if turn is not None:
        said = turn.assistant
        last = LastAssistant(str(said.get("stopReason")), message_text(said), has_tool_calls(said))
    return Outcome(last_assistant=last, appended=True, input_taken=True, **facts)
