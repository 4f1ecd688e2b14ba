"""Ids and times as Pi writes them: eight hex digits for entries, UUIDv7 for sessions, ISO times with
milliseconds.
"""

import os
import time
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


def new_entry_id(known: Container[str], random_bytes: Callable[[int], bytes] = os.urandom) -> str:
    """Eight random hex digits (as a UUIDv4 begins) that no known entry has; a whole UUID after 100 clashes."""
    for _ in range(_TRIES):
        candidate = random_bytes(4).hex()
        if candidate not in known:
            return candidate
    return _uuid(int.from_bytes(random_bytes(16)), version=4)


def new_session_uuid(ms: int | None = None) -> str:
    """A UUIDv7 (RFC 9562 §5.7): 48 bits of Unix milliseconds, then random bits."""
    moment = now_ms() if ms is None else ms
    return _uuid((moment & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10)), version=7)


def _uuid(value: int, version: int) -> str:
    """128 bits as a UUID, with the bits that RFC 9562 fixes. (The `uuid` module is slow to import.)"""
    value = value & ~(0xF << 76) | version << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
