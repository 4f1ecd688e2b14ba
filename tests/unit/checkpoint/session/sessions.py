"""Small session files, written by hand, for tests."""

import json
from typing import Any

HEADER: dict[str, Any] = {
    "type": "session",
    "version": 3,
    "id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "cwd": "/workspace",
}
TIME = "2026-01-01T00:00:01.000Z"
TIME_MS = 1767225601000


def line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def entry(entry_type: str, entry_id: str, parent_id: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": entry_type, "id": entry_id, "parentId": parent_id, "timestamp": TIME, **fields}


def user(entry_id: str, parent_id: str | None, text: str = "hello") -> dict[str, Any]:
    return entry("message", entry_id, parent_id, message={"role": "user", "content": text, "timestamp": 1})


def assistant(entry_id: str, parent_id: str | None, **fields: Any) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": [],
        "provider": "p",
        "model": "m",
        "stopReason": "stop",
        **fields,
    }
    return entry("message", entry_id, parent_id, message=message)


def session(*entries: Any, header: Any = HEADER) -> bytes:
    """The bytes of a file: the header, then each entry on a line; bytes are taken as they are."""
    return b"".join(value if isinstance(value, bytes) else line(value) for value in (header, *entries))
