"""The first line of a session log: what it must hold, and which version of the format it announces."""

import math
from typing import Any, Final, cast

from checkpoint.jsontypes import JsonObject
from checkpoint.session.ids import iso_time, new_session_uuid, now_ms
from checkpoint.session.javascript import is_number, to_number

CURRENT_VERSION: Final = 3


def new_header(cwd: str, session_uuid: str | None = None) -> JsonObject:
    """A header of version 3 in Pi's key order. `cwd` is the absolute path of the workspace."""
    ms = now_ms()
    return {
        "type": "session",
        "version": CURRENT_VERSION,
        "id": session_uuid or new_session_uuid(ms),
        "timestamp": iso_time(ms),
        "cwd": cwd,
    }


def is_header(value: Any) -> bool:
    """Whether Pi takes the first parsed value of a file for a session header."""
    if not isinstance(value, dict):
        return False
    header = cast("JsonObject", value)
    return header.get("type") == "session" and isinstance(header.get("id"), str)


def format_version(header: JsonObject) -> float:
    """The version as Pi compares it: absent or null is 1, `"3"` is 3, true is 1; NaN if no number."""
    version = header.get("version")
    return 1.0 if version is None else to_number(version)


def needs_migration(version: float) -> bool:
    """Whether entries must be changed to become version 3. False for NaN and for anything from 3 on."""
    return not math.isnan(version) and version < CURRENT_VERSION


def is_known_version(header: JsonObject) -> bool:
    """Whether strict reading takes the version: absent, 1, 2 or 3, as a number."""
    version = header.get("version", 1)
    return is_number(version) and version in (1, 2, 3)
