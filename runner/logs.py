"""Structured logs on standard error: JSON lines, or readable text on a terminal. Known secret values are taken out."""

import sys
from typing import Any

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from runner.secrets import Secrets

Logger = FilteringBoundLogger


def configure_logs(secrets: Secrets, **context: str | int) -> Logger:
    """Set structlog up for this process and return a logger bound to `context`."""

    def redact(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
        return {key: _redacted(value, secrets) for key, value in event.items()}

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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
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
