"""What went wrong with a model call, as a value: reason, whether another try can help, how long the server
wants us to wait.

The reasons are DESIGN 7's. Decided by exception type, HTTP status and error code; the text is asked only
for a full context and a spent quota, and for errors inside a stream that bring nothing else.
"""

from dataclasses import dataclass
from typing import Any, Literal

from checkpoint.jsontypes import JsonObject, Message
from runner.models.error_text import says_overflow, says_quota, says_transient
from runner.models.shapes import an_object

Reason = Literal[
    "model_auth",
    "model_rate_limited",
    "model_overloaded",
    "model_invalid_request",
    "context_overflow",
    "model_refused",
    "model_unavailable",
]


@dataclass(frozen=True, slots=True)
class Failure:
    reason: Reason
    message: str
    transient: bool = False
    """The fault itself tends to pass. A full context may look like one too: ask `retryable`."""
    retry_after_s: float | None = None
    status: int | None = None

    @property
    def retryable(self) -> bool:
        """Whether the same turn may be tried again."""
        return self.transient and self.reason != "context_overflow"


class ModelCallFailed(Exception):
    """Inside the adapters only: ends the reading of an answer. What leaves them is an `error` event."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


_AUTH = frozenset((401, 403))
_OVERLOADED = frozenset((503, 529))
_PASSING = frozenset((408, 409, 425))

# Error types and codes of the providers' documented errors.
_CODES: dict[str, tuple[Reason, bool]] = {
    "authentication_error": ("model_auth", False),
    "permission_error": ("model_auth", False),
    "invalid_api_key": ("model_auth", False),
    "billing_error": ("model_rate_limited", False),
    "insufficient_quota": ("model_rate_limited", False),
    "rate_limit_error": ("model_rate_limited", True),
    "rate_limit_exceeded": ("model_rate_limited", True),
    "overloaded_error": ("model_overloaded", True),
    "overloaded": ("model_overloaded", True),
    "server_busy": ("model_overloaded", True),
    "insufficient_system_resource": ("model_overloaded", True),
    "api_error": ("model_unavailable", True),
    "server_error": ("model_unavailable", True),
    "internal_error": ("model_unavailable", True),
    "timeout_error": ("model_unavailable", True),
    "network_error": ("model_unavailable", True),
    "invalid_request_error": ("model_invalid_request", False),
    "invalid_prompt": ("model_invalid_request", False),
    "not_found_error": ("model_invalid_request", False),
    "request_too_large": ("context_overflow", False),
    "context_length_exceeded": ("context_overflow", False),
    "model_context_window_exceeded": ("context_overflow", False),
    "content_filter": ("model_refused", False),
    "refusal": ("model_refused", False),
}


def http_failure(
    status: int,
    message: str,
    *,
    body: str = "",
    provider: str | None = None,
    retry_after_s: float | None = None,
) -> Failure:
    """An answer that is no stream. `message` is what people read, `body` the answer's own text."""
    text = f"{message}\n{body}"
    if says_overflow(message, provider) or says_overflow(body, provider):
        return Failure("context_overflow", message, _transient_status(status) or says_transient(text), None, status)
    if says_quota(text) or status == 402:
        return Failure("model_rate_limited", message, False, None, status)
    return Failure(_status_reason(status), message, _transient_status(status), retry_after_s, status)


def _status_reason(status: int) -> Reason:
    if status in _AUTH:
        return "model_auth"
    if status == 429:
        return "model_rate_limited"
    if status in _OVERLOADED:
        return "model_overloaded"
    if status >= 500 or status in _PASSING or status < 400:
        return "model_unavailable"
    return "model_invalid_request"


def _transient_status(status: int) -> bool:
    return status >= 500 or status == 429 or status in _PASSING


def stream_failure(message: str, *codes: Any, provider: str | None = None) -> Failure:
    """An error told inside a stream: by its codes (also HTTP-like numbers), else by its text."""
    known = [_CODES[code] for code in codes if isinstance(code, str) and code in _CODES]
    numbers = [number for number in map(_http_number, codes) if number is not None]
    if says_overflow(message, provider) or ("context_overflow", False) in known:
        return Failure("context_overflow", message, says_transient(message))
    if says_quota(message):
        return Failure("model_rate_limited", message)
    for reason, transient in sorted(known, key=lambda kind: kind[0] == "model_invalid_request"):
        return Failure(reason, message, transient)
    if numbers:
        return http_failure(numbers[0], message, provider=provider)
    return _from_text(message)


def _http_number(code: Any) -> int | None:
    number = int(code) if isinstance(code, str) and code.isdecimal() else code
    return number if isinstance(number, int) and not isinstance(number, bool) and 400 <= number < 600 else None


def _from_text(message: str) -> Failure:
    lowered = message.lower()
    if "overloaded" in lowered or "at capacity" in lowered:
        return Failure("model_overloaded", message, says_transient(message))
    if "rate limit" in lowered or "too many requests" in lowered:
        return Failure("model_rate_limited", message, says_transient(message))
    return Failure("model_unavailable", message, says_transient(message))


def connection_failure(message: str) -> Failure:
    """No connection, or one that broke or fell silent."""
    return Failure("model_unavailable", message, transient=True)


def broken_stream(message: str) -> Failure:
    """A stream that ended too early without saying why."""
    return Failure("model_unavailable", message, transient=True)


def unreadable_stream(message: str) -> Failure:
    """A stream that breaks the protocol: the other side is not what the settings say, or has a defect."""
    return Failure("model_unavailable", message)


def stopped_failure(message: str, raw: str) -> Failure:
    """A finished answer whose stop reason means that it is not one."""
    reason, transient = _CODES.get(raw, ("model_unavailable", False))
    return Failure(reason, message, transient)


def silent_overflow(message: Message, context_window: int | None) -> bool:
    """A good-looking answer to a conversation that the server must have cut: more input than the window
    holds, or no room left to say anything."""
    if not context_window:
        return False
    usage: JsonObject = an_object(message.get("usage"))
    sent = (usage.get("input") or 0) + (usage.get("cacheRead") or 0)
    if message.get("stopReason") == "stop":
        return sent > context_window
    return message.get("stopReason") == "length" and not usage.get("output") and sent >= 0.99 * context_window


def failure_of_message(message: Message, *, context_window: int | None = None) -> Failure | None:
    """The failure that a message of a restored log tells of; None for a good one. By text, for want of
    better."""
    if message.get("stopReason") == "error":
        return stream_failure(str(message.get("errorMessage") or ""), provider=message.get("provider"))
    if silent_overflow(message, context_window):
        return Failure("context_overflow", "the conversation no longer fits the model's context window")
    return None
