"""Tool-call ids from one provider, made fit for another: allowed characters, allowed length, never equal by
accident."""

import re

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"
_U32 = 0xFFFFFFFF


def sanitise(text: str) -> str:
    return _ILLEGAL.sub("_", text)


def short_hash(text: str) -> str:
    """A stable hash in base 36 ; the recorded requests contain it."""
    h1, h2 = 0xDEADBEEF, 0x41C6CE57
    units = text.encode("utf-16-le", "surrogatepass")
    for position in range(0, len(units), 2):
        unit = units[position] | units[position + 1] << 8
        h1 = (h1 ^ unit) * 2654435761 & _U32
        h2 = (h2 ^ unit) * 1597334677 & _U32
    h1 = (h1 ^ h1 >> 16) * 2246822507 & _U32 ^ (h2 ^ h2 >> 13) * 3266489909 & _U32
    h2 = (h2 ^ h2 >> 16) * 2246822507 & _U32 ^ (h1 ^ h1 >> 13) * 3266489909 & _U32
    return _base36(h2) + _base36(h1)


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE36[digit] + digits
    return digits or "0"


def anthropic_id(given: str) -> str:
    return sanitise(given)[:64]


def completions_id(given: str, provider: str) -> str:
    """`call|item` becomes one word of at most 40 characters; OpenAI itself takes no longer ids at all."""
    if "|" in given:
        whole = sanitise(given)
        if len(whole) <= 40:
            return whole
        return sanitise(given.split("|", 1)[0])[:31] + "_" + short_hash(given)[:8]
    return given[:40] if provider == "openai" else given


def responses_id(given: str, provider: str, *, same_service: bool) -> str:
    """`call|item` for OpenAI's own service; one word elsewhere."""
    if provider not in ("openai", "openai-codex", "opencode") or "|" not in given:
        return _id_part(given)
    call, item = given.split("|", 1)
    item = _id_part(item) if same_service else f"fc_{short_hash(item)}"
    if not item.startswith("fc_"):
        item = _id_part(f"fc_{item}")
    return f"{_id_part(call)}|{item}"


def _id_part(text: str) -> str:
    return sanitise(text)[:64].rstrip("_")


class UniqueIds:
    """Gives different ids to calls that are different, also when cutting them made them equal."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._owner: dict[str, str] = {}

    def claim(self, wanted: str, original: str) -> str:
        """`wanted`, or a variant of it that no other original id has."""
        wanted = wanted or f"call_{short_hash(original or str(len(self._owner)))}"
        if self._owner.setdefault(wanted, original) == original:
            return wanted
        suffix = "_" + short_hash(original)[:8]
        variant = wanted[: self._longest - len(suffix)] + suffix
        self._owner[variant] = original
        return variant
