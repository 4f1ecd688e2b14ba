"""Ids and times as Pi writes them: eight hex digits for entries, UUIDv7 for sessions, ISO times with
milliseconds.
"""

import os
import time
import uuid
from collections.abc import Callable, Container
from datetime import UTC, datetime

_TRIES = 100


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def iso_time(ms: int) -> str:
    """`2026-01-31T12:00:00.000Z` for Unix milliseconds."""
    whole, fraction = divmod(ms, 1000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:03d}Z"


def new_entry_id(known: Container[str], new_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> str:
    """The first eight hex digits of a random UUID that no known entry has; a whole UUID after 100 clashes."""
    for _ in range(_TRIES):
        candidate = new_uuid().hex[:8]
        if candidate not in known:
            return candidate
    return str(new_uuid())


def new_session_uuid(ms: int | None = None) -> str:
    """A UUIDv7 (RFC 9562 §5.7): 48 bits of Unix milliseconds, then random bits."""
    moment = now_ms() if ms is None else ms
    value = (moment & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))
