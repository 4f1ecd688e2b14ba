"""What error texts tell, where nothing better does: vendors' wordings for a full context, a spent quota, a
passing fault.

Whether a turn may be repeated is decided by exception type, status and code first (`failure`). Only a full
context and a spent quota have no status of their own, and errors inside a stream often come as a text
alone. Source: `classify.json` in
tests/corpus/providers. Patterns are compiled when first needed: most runs need none.
"""

import re
from functools import cache

_OVERFLOW = "|".join(
    (
        r"prompt (?:is )?too long",
        r"prompt exceeds max length",
        r"request_too_large",
        r"input is too long for requested model",
        r"exceeds the context window",
        r"exceeds (?:the )?(?:model'?s )?maximum context length of \(?[\d,]+\)?",
        r"exceeds (?:the )?(?:model'?s )?maximum context length \(?[\d,]+\)?",
        r"context window exceeded",
        r"input token count.*exceeds the maximum",
        r"maximum prompt length is \d+",
        r"reduce the length of the messages",
        r"maximum context length is [\d,]+ tokens",
        r"exceeds the maximum allowed input length of [\d,]+ tokens?",
        r"input \([\d,]+ tokens\) is longer than the model'?s context length \([\d,]+ tokens\)",
        r"exceeds the limit of \d+",
        r"exceeds the available context size",
        r"greater than the context length",
        r"context window exceeds limit",
        r"exceeded model token limit",
        r"too large for model with \d+ maximum context length",
        r"prompt has [\d,]+ tokens?, but the configured context size is [\d,]+ tokens?",
        r"model_context_window_exceeded",
        r"prompt too long; exceeded (?:max )?context length",
        r"range of input length should be",
        r"context[_ ]length[_ ]exceeded",
        r"too many tokens",
        r"token limit exceeded",
        # not recognised by the recorded library, which is a fault of it:
        r"input length and `?max_tokens`? exceed context limit",
        r"context length is only [\d,]+ tokens",
        r"^(?:[\w.-]+ api error \()?413\b",
    )
)
_NOT_OVERFLOW = r"rate limit|too many requests|^(?:throttling error|service unavailable):"
_EMPTY = r"^4(?:00|13)(?: status code)? \(no body\)"

_QUOTA = (
    r"insufficient_quota|quota exceeded|exceeded your current quota|billing|out of budget|available balance"
    r"|credit balance|insufficient balance|monthly usage limit|usage limit reached|\"code\":\s*\"?1308\b"
)
_TRANSIENT = (
    r"overloaded|rate.?limit|too many requests|\b(?:429|500|502|503|504|520|524)\b|service.?unavailable"
    r"|temporarily unavailable|server.?error|internal.?error|server_busy|at capacity|connection.?error"
    r"|connection (?:refused|lost|closed|reset)|network.?error|other side closed|fetch failed"
    r"|upstream.?connect|reset before headers|socket hang up"
    r"|\b(?:ECONNRESET|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE)\b"
    r"|timed? ?out|time-?out|\bterminated\b|ended without|before message_stop"
    r"|before a terminal response event"
    r"|provider.?returned.?error|retry your request|try your request again|please retry|ResourceExhausted"
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _found(pattern: str, text: str) -> bool:
    return _compiled(pattern).search(text) is not None


def says_overflow(text: str, provider: str | None = None) -> bool:
    """Whether the text says that the conversation does not fit the model's window."""
    if _found(_NOT_OVERFLOW, text):
        return False
    return _found(_OVERFLOW, text) or (provider == "cerebras" and _found(_EMPTY, text))


def says_quota(text: str) -> bool:
    """Whether the account's money or allowance is used up, so that waiting a minute does not help."""
    return _found(_QUOTA, text)


def says_transient(text: str) -> bool:
    """Whether the text describes a fault that usually passes."""
    return _found(_TRANSIENT, text) and not says_quota(text)
