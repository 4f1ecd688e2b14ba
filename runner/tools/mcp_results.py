"""MCP's names and results as ours. Pure; knows MCP's shapes only by their JSON, so that nothing heavy is imported."""

import hashlib
import json
import re
from typing import Any

from checkpoint.jsontypes import JsonObject
from runner.agent.types import ToolResult, is_json_list, is_json_object
from runner.tools.errors import ToolFailed

MAX_NAME = 64
MAX_DESCRIPTION_CHARS = 4096


def tool_name(server: str, tool: str) -> str:
    """`server__tool`. What models do not take in a name becomes `_`, and a name that is too long or was changed ends
    in a part of its digest, so that it stays the only one.
    """
    wanted = f"{server}__{tool}"
    clean = re.sub(r"[^A-Za-z0-9_-]", "_", wanted)
    if clean == wanted and len(clean) <= MAX_NAME:
        return clean
    digest = hashlib.sha256(wanted.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{clean[: MAX_NAME - 9]}_{digest}"


def description(server: str, text: str | None) -> str:
    words = (text or "").strip() or "No description."
    if len(words) > MAX_DESCRIPTION_CHARS:
        words = words[:MAX_DESCRIPTION_CHARS] + " […]"
    return f"{words}\n(Tool of the MCP server {server}.)"


def parameters(schema: Any) -> JsonObject:
    """The tool's own schema, as it is; a tool that gives none takes anything."""
    if not is_json_object(schema):
        return {"type": "object"}
    return schema if "type" in schema else {"type": "object", **schema}


def progress_text(progress: float, total: float | None, message: str | None) -> str:
    amount = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
    return f"{amount}: {message}" if message else amount


def result_of(result: JsonObject, tool: str) -> ToolResult:
    """A `tools/call` result (its JSON) as ours. Raises ToolFailed, with its text, if it is an error."""
    blocks = result.get("content")
    content = [_block(block) for block in (blocks if is_json_list(blocks) else []) if is_json_object(block)]
    structured = result.get("structuredContent")
    if not content and structured is not None:
        content = [_text(json.dumps(structured, ensure_ascii=False))]
    if result.get("isError") is True:
        text = "\n".join(block["text"] for block in content if block["type"] == "text")
        raise ToolFailed("failed", text.strip() or f"{tool} failed without saying why")
    if not content:
        content = [_text("(no output)")]
    return {"content": content, "details": {} if structured is None else {"structuredContent": structured}}


def _block(block: JsonObject) -> JsonObject:
    kind = block.get("type")
    if kind == "text":
        return _text(str(block.get("text", "")))
    if kind == "image":
        return {"type": "image", "data": block.get("data"), "mimeType": block.get("mimeType")}
    if kind == "resource_link":
        return _text(f"[Resource {block.get('name') or ''}: {block.get('uri')}]")
    resource = block.get("resource")
    if kind == "resource" and is_json_object(resource):
        if isinstance(resource.get("text"), str):
            return _text(f"[Resource {resource.get('uri')}]\n{resource['text']}")
        if str(resource.get("mimeType")).startswith("image/"):
            return {"type": "image", "data": resource.get("blob"), "mimeType": resource.get("mimeType")}
        return _text(f"[Resource {resource.get('uri')}: {resource.get('mimeType') or 'binary'}, left out]")
    return _text(f"[A block of type {kind!r}, left out]")


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}
