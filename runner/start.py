"""What the input means for the restored session: a pure decision (docs/launch.md, "Input").

A reply must name a question that the session waits for; a message may always come and closes what was asked; no
input goes on where Pi's `continue()` may, and never past a pending question.
"""

from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from checkpoint.jsontypes import JsonObject, Message
from runner.interruption import sent_text
from runner.spec import InputSpec, UserText

REPLY_ENTRY = "runner.reply"
"""`customType` of the entry that names the question which the following user message answers."""


class Begin(Struct, frozen=True):
    prompt: Message | None
    """The user message to start with; None continues."""
    reply_to: str | None = None
    """The tool call that the prompt answers."""


class CannotBegin(Struct, frozen=True):
    reason: Literal["stale_reply", "nothing_to_do"]
    message: str


def plan_start(
    messages: Sequence[Message], pending: Collection[str], given: InputSpec | None, now_ms: int
) -> Begin | CannotBegin:
    """`messages` is the agent's transcript (failed tail dropped), `pending` the call ids that wait for an answer."""
    if given is not None and given.reply is not None:
        call_id = given.reply.tool_call_id
        if call_id not in pending:
            waiting = ", ".join(sorted(pending)) if pending else "no question"
            return CannotBegin(
                "stale_reply",
                f"the reply is for the tool call {call_id!r}, but the session waits for {waiting}: "
                "launch with a pending call id, or send the text as a message",
            )
        return Begin(user_message(given.reply.message, now_ms), call_id)
    if given is not None and given.message is not None:
        return Begin(user_message(given.message, now_ms))
    if pending:
        return CannotBegin(
            "nothing_to_do",
            f"the session waits for an answer to {', '.join(sorted(pending))}: launch with a reply or a message",
        )
    if not messages:
        return CannotBegin("nothing_to_do", "the session is empty: launch with a message")
    if messages[-1].get("role") == "assistant":
        return CannotBegin("nothing_to_do", "the session ends with a finished answer: launch with a message")
    return Begin(None)


def user_message(content: UserText, now_ms: int) -> Message:
    """A user message in Pi's shape; a text becomes one text block, as Pi writes it."""
    if isinstance(content, str):
        blocks: list[JsonObject] = [{"type": "text", "text": content}]
    else:
        blocks = [block.model_dump() for block in content]
    return {"role": "user", "content": blocks, "timestamp": now_ms}


def drop_failed_tail(messages: Sequence[Message]) -> int:
    """How many messages of the restored transcript the agent keeps: failed answers at its end stay in the log only."""
    keep = len(messages)
    while keep and messages[keep - 1].get("role") == "assistant" and messages[keep - 1].get("stopReason") in _FAILED:
        keep -= 1
    return keep


_FAILED = ("error", "aborted")


def pending_questions(messages: Sequence[Message], ask_tools: Collection[str]) -> list[str]:
    """The call ids of the questions that the transcript ends with: successful asks after which nothing was said."""
    pending: list[str] = []
    for message in reversed(messages):
        if message.get("role") != "toolResult":
            break
        if message.get("toolName") in ask_tools and not message.get("isError") and sent_text(message):
            pending.append(str(message.get("toolCallId")))
    return pending[::-1]
