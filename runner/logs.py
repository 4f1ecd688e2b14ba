"""Structured logs on standard error: JSON lines, or readable text on a terminal. Known secret values are taken out.

Refuses to fail or to hang the run: what a reader that has left, or does not read, cannot take is dropped.
"""

import os
import select
import sys
import threading
from typing import Any, TypeAlias

from runner.lean_structlog import structlog  # before anything of structlog's own
from runner.secrets import Secrets

Logger: TypeAlias = structlog.typing.FilteringBoundLogger

READER_S = 1.0
"""How long a log line waits for a reader that stalls; those behind it do not wait at all until it reads again."""
_PIECE_BYTES = select.PIPE_BUF
"""What a pipe that is ready takes at once."""


class LogOutput:
    """A text file for logs over a descriptor. Never raises; takes `READER_S` at most, once per stall."""

    def __init__(self, descriptor: int = 2) -> None:
        self._descriptor = descriptor
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)
        self._patience_s = READER_S
        self._lock = threading.Lock()

    def write(self, text: str) -> bool:
        """Whether all of it was taken."""
        data = text.encode("utf-8", "backslashreplace")
        with self._lock:
            return all(self._put(data[start : start + _PIECE_BYTES]) for start in range(0, len(data), _PIECE_BYTES))

    def flush(self) -> None:
        """Nothing is held back."""

    def _put(self, piece: bytes) -> bool:
        try:
            ready = self._ready.poll(self._patience_s * 1000)
            self._patience_s = READER_S if ready else 0.0
            return bool(ready) and os.write(self._descriptor, piece) == len(piece)
        except OSError:
            return False


def is_worth_a_line(count: int) -> bool:
    """Of what happens again and again the 1st, 10th, 100th, … time is said."""
    while count >= 10 and count % 10 == 0:
        count //= 10
    return count == 1


def configure_logs(secrets: Secrets, **context: str | int) -> Logger:
    """Set structlog up for this process and return a logger bound to `context`."""

    def redact(
        _logger: structlog.typing.WrappedLogger, _name: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        return {key: _redacted(value, secrets) for key, value in event.items()}

    output: Any = LogOutput()
    on_terminal = sys.stderr.isatty()
    renderer: Any = structlog.dev.ConsoleRenderer() if on_terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redact,
            renderer,
        ],
        logger_factory=lambda *_: structlog.WriteLogger(output),
    )
    return structlog.get_logger().bind(**context)


def _redacted(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, str):
        return secrets.redact(value)
    if isinstance(value, dict):
        return {key: _redacted(item, secrets) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [_redacted(item, secrets) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
