"""What the system messages that Pi 1.6 keeps in a session add up to.

Pure. Refuses to judge whether that prompt is to be used: a launch spec may give its own.
"""

from collections.abc import Iterable
from typing import Any, cast

from checkpoint.jsontypes import JsonObject


def system_prompt_of(messages: Iterable[Any]) -> str | None:
    """The texts of the system messages in order, then their named sections as they stand after the last
    patch.

    A section that is patched keeps its place, null takes it out; parts are joined by a blank line. None if
    the messages hold no system message; the tools they add or remove are not part of the prompt.
    """
    found = False
    texts: list[str] = []
    sections: dict[str, str] = {}
    for message in messages:
        if not isinstance(message, dict):
            continue
        system = cast("JsonObject", message)
        if system.get("role") != "system":
            continue
        found = True
        texts.append(_text_of(system.get("content")))
        patch = system.get("sections")
        if isinstance(patch, dict):
            _apply(sections, cast("JsonObject", patch))
    return "\n\n".join(part for part in [*texts, *sections.values()] if part) if found else None


def _apply(sections: dict[str, str], patch: JsonObject) -> None:
    for name, text in patch.items():
        if isinstance(text, str):
            sections[name] = text
        elif text is None:
            sections.pop(name, None)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    blocks = [cast("JsonObject", block) for block in cast("list[Any]", content) if isinstance(block, dict)]
    return "".join(block["text"] for block in blocks if isinstance(block.get("text"), str))
