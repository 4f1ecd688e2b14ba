"""What a tool's result may be, before it enters the log: bounded text and details, images that providers take.

Every tool goes through here, also those that are not ours: a result stays in the session, is sent to the model with
every later request, and is stored with every checkpoint. What is cut is said in the result; a text that is cut is kept
whole in a file that the result names.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from checkpoint.jsontypes import JsonObject
from checkpoint.session.encoding import encode
from runner.agent.abort import AbortSignal
from runner.agent.calling import error_text
from runner.agent.types import AgentTool, ToolResult, UpdateCallback, is_json_list, is_json_object
from runner.tools.errors import ToolFailed
from runner.tools.folders import ToolFolders
from runner.tools.images import MAX_IMAGE_BYTES, inspect_image
from runner.tools.truncation import cut_bytes, size_text

MAX_TEXT_BYTES = 64 * 1024
"""Of all text blocks together; the built-in tools stay below it."""
MAX_IMAGES = 8
MAX_IMAGES_CHARS = 10_000_000
"""Of base64, all images of a result together."""
MAX_DETAILS_BYTES = 64 * 1024
"""Of compact JSON."""
MAX_UPDATE_BYTES = 16 * 1024
"""Of an update's text. Updates are events only; nothing of them is stored."""
MAX_BLOCKS = 256

KeepText = Callable[[str], str | None]
"""Keeps a text that is too long; returns where, or None if it could not."""


def bounded_tool(tool: AgentTool, folders: ToolFolders) -> AgentTool:
    """The same tool, whose results, updates and error texts are within the limits."""

    def keep(text: str) -> str | None:
        try:
            kept = folders.keep(tool.name)
        except OSError:
            return None
        data = text.encode("utf-8", "replace")
        kept.write(data)
        kept.close(data)
        return str(kept.path)

    async def execute(
        call_id: str, args: JsonObject, signal: AbortSignal | None, on_update: UpdateCallback
    ) -> ToolResult:
        try:
            result = await tool.execute(call_id, args, signal, lambda partial: on_update(bounded_update(partial)))
        except Exception as error:
            text = error_text(error)
            bounded = bounded_text(text, MAX_TEXT_BYTES, keep)
            if bounded is text:
                raise
            raise ToolFailed("failed", bounded) from error
        return bounded_result(result, keep)

    return replace(tool, execute=execute)


def bounded_text(text: str, max_bytes: int, keep: KeepText) -> str:
    """The text itself, or its beginning and its end, which often tells how it went, around a note."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    if size <= max_bytes:
        return text
    head, tail = cut_bytes(text, max_bytes * 3 // 4), cut_bytes(text, max_bytes // 4, from_end=True)
    path = keep(text)
    where = f" Full text: {path}" if path else ""
    return f"{head}\n\n[... {size_text(size - max_bytes)} left out here.{where} ...]\n\n{tail}"


def bounded_result(result: Any, keep: KeepText) -> ToolResult:
    """A result within the limits. What has no result's shape is put into one; further fields stay as they are."""
    if not is_json_object(result):
        raise ToolFailed("failed", "The tool gave no result")
    blocks = result.get("content")
    content = _bounded_blocks(blocks if is_json_list(blocks) else [], keep)
    bounded: ToolResult = {**result, "content": content}
    if "details" in result:
        bounded["details"] = _bounded_details(result["details"])
    return bounded


def bounded_update(partial: ToolResult) -> ToolResult:
    """The end of an update's text; no images, no large details."""
    text = _all_text(partial.get("content") or [])
    return {
        "content": [{"type": "text", "text": cut_bytes(text, MAX_UPDATE_BYTES, from_end=True)}],
        "details": _bounded_details(partial.get("details")),
    }


def _bounded_blocks(blocks: list[Any], keep: KeepText) -> list[JsonObject]:
    content: list[JsonObject] = []
    images, chars = 0, 0
    for block in blocks[:MAX_BLOCKS]:
        kind = block.get("type") if is_json_object(block) else None
        if kind == "text" and isinstance(block.get("text"), str):
            content.append(block)
        elif kind == "image":
            problem = image_problem(block)
            chars += len(block["data"]) if problem is None else 0
            images += problem is None
            if problem is None and (images > MAX_IMAGES or chars > MAX_IMAGES_CHARS):
                problem = f"is one too many: a result holds {MAX_IMAGES} and {MAX_IMAGES_CHARS} characters of them"
            content.append(block if problem is None else _note(f"An image was left out: it {problem}"))
        else:
            content.append(_note(f"A block of type {str(kind)[:40]!r} was left out"))
    if len(blocks) > MAX_BLOCKS:
        content.append(_note(f"{len(blocks) - MAX_BLOCKS} further blocks were left out"))
    text = _all_text(content)
    bounded = bounded_text(text, MAX_TEXT_BYTES, keep)
    if bounded is text:
        return content
    return [{"type": "text", "text": bounded}, *(block for block in content if block["type"] == "image")]


def _all_text(content: list[Any]) -> str:
    return "\n".join(block["text"] for block in content if is_json_object(block) and block.get("type") == "text")


def image_problem(block: JsonObject) -> str | None:
    """What is wrong with an image block (a clause: "is ..."), or None. Its media type must be what its bytes are."""
    data = block.get("data")
    if not isinstance(data, str):
        return "has no data"
    if len(data) > MAX_IMAGE_BYTES * 2:
        return f"has {size_text(len(data))} of base64, more than models take"
    try:
        image = inspect_image(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return "is not base64"
    if isinstance(image, str):
        return image
    if block.get("mimeType") != image.mime_type:
        return f"is {image.mime_type}, not {str(block.get('mimeType'))[:40]}"
    return None


def _bounded_details(details: Any) -> Any:
    try:
        size = len(encode(details))
    except TypeError:
        return {"leftOut": "the tool's details are no JSON"}
    return details if size <= MAX_DETAILS_BYTES else {"leftOut": f"the tool's details have {size} bytes"}


def _note(text: str) -> JsonObject:
    return {"type": "text", "text": f"[{text}]"}
