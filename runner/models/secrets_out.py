"""Takes credentials out of texts that leave the adapters: error messages, recordings."""

from collections.abc import Iterable, Mapping

REMOVED = "[secret removed]"
_HARMLESS = frozenset(
    (
        "accept",
        "content-type",
        "user-agent",
        "anthropic-version",
        "anthropic-beta",
        "session_id",
        "session-id",
        "x-session-id",
        "x-client-request-id",
        "x-session-affinity",
        "x-app",
        "http-referer",
        "x-title",
    )
)


def is_secret_header(name: str) -> bool:
    """Every header counts as one that may hold a credential, save those known not to."""
    return name.lower() not in _HARMLESS


def secret_values(headers: Mapping[str, str]) -> list[str]:
    """Values to be taken out, longest first; of `Bearer key` also the key alone."""
    values: set[str] = set()
    for name, value in headers.items():
        if is_secret_header(name) and len(value) >= 6:
            values.update((value, value.rpartition(" ")[2]))
    return sorted((value for value in values if len(value) >= 6), key=len, reverse=True)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, REMOVED)
    return text
