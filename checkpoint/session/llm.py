"""Turns a transcript into what a model may see: user, assistant, tool result and system messages.

Pure. Refuses to touch the messages it is given: what passes is passed as it is, with all its fields. The
literal texts are those of Pi (tests/corpus/session/FORMAT.md §5), so that a session reads the same to the model under
either program.
"""

from collections.abc import Sequence
from typing import Any, Final, cast

from checkpoint.jsontypes import JsonObject, Message
from checkpoint.session.javascript import UNDEFINED, is_number, to_text, truthy

_COMPACTION_OPEN: Final = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n"
)
_COMPACTION_CLOSE: Final = "\n</summary>"
_BRANCH_OPEN: Final = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n"
_BRANCH_CLOSE: Final = "</summary>"


def convert_to_llm(messages: Sequence[Any]) -> list[Message]:
    """The messages for a model, in order. Unknown roles, and values that are no message, are left out."""
    converted: list[Message] = []
    for message in messages:
        if not isinstance(message, dict):
            continue
        for_model = _convert(cast("Message", message))
        if for_model is not None:
            converted.append(for_model)
    return converted


def _convert(message: JsonObject) -> Message | None:
    match message.get("role"):
        case "user" | "assistant" | "toolResult" | "system":
            return message
        case "custom":
            content = message.get("content")
            return _user(message, _text(content) if isinstance(content, str) else content)
        case "compactionSummary":
            summary = to_text(message.get("summary", UNDEFINED))
            return _user(message, _text(f"{_COMPACTION_OPEN}{summary}{_COMPACTION_CLOSE}"))
        case "branchSummary":
            summary = to_text(message.get("summary", UNDEFINED))
            return _user(message, _text(f"{_BRANCH_OPEN}{summary}{_BRANCH_CLOSE}"))
        case "bashExecution":
            if truthy(message.get("excludeFromContext")):
                return None
            return _user(message, _text(_bash_text(message)))
        case _:
            return None


def _user(message: JsonObject, content: Any) -> Message:
    user: Message = {"role": "user"}
    if "content" in message or content is not None:
        user["content"] = content
    if "timestamp" in message:
        user["timestamp"] = message["timestamp"]
    return user


def _text(text: str) -> list[JsonObject]:
    return [{"type": "text", "text": text}]


def _bash_text(message: JsonObject) -> str:
    text = f"Ran `{to_text(message.get('command', UNDEFINED))}`\n"
    output = message.get("output")
    text += f"```\n{to_text(output)}\n```" if truthy(output) else "(no output)"
    exit_code = message.get("exitCode")
    if truthy(message.get("cancelled")):
        text += "\n\n(command cancelled)"
    elif exit_code is not None and not (is_number(exit_code) and exit_code == 0):
        text += f"\n\nCommand exited with code {to_text(exit_code)}"
    if truthy(message.get("truncated")) and truthy(message.get("fullOutputPath")):
        text += f"\n\n[Output truncated. Full output: {to_text(message['fullOutputPath'])}]"
    return text
